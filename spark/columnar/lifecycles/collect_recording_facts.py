"""`collect_facts`: owners of ids, ends of transactions and other small facts, from the forwarded frames.

Rules of this file
1. Names come from the Observer and Tracker of pcli.codec. They process the commands, and the first frame of each
   producer or consumer whose opening command was not captured. The current owner of the ids is recorded after each
   frame.
2. Other facts that messages depend on (ends of transactions, cursor resets, gaps) are recorded in the same pass.
3. Each split forwards the first frame of each producer and consumer. If the opening command was not captured, only the
   first of these frames is used. If several were used, the Tracker would count all messages between two of these frames
   as skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.capture.frames import CapturedFrame, Note, Stream, StreamEnd
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.observe.tracking.entry_metadata import FIELD, fields_of, text_of
from pcli.codec.observe.tracking.producers.producer_session import ProducerSession
from pcli.codec.observe.tracking.producers.producer_tracker import ProducerTracker
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import SEND
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.topic_name import split_partition
from pcli.spark.columnar.lifecycles.capture_gaps import connection_gaps_of, topic_evidence_of
from pcli.spark.columnar.lifecycles.forwarded_frames import OPENING
from pcli.spark.columnar.lifecycles.frame_replay import replay, with_role
from pcli.spark.columnar.lifecycles.partial_tables import ROLES, Partials
from pcli.spark.columnar.lifecycles.recording_facts import (
    Publisher,
    RecordingFacts,
    RedeliveryCause,
    Session,
    TransactionEnd,
)
from pcli.spark.columnar.lifecycles.resend_candidates import candidate_ranges
from pcli.spark.columnar.lifecycles.row_operations import Intervals

_SEES: Final = 1 << ROLES["control"] | 1 << ROLES["opener"]
_CONTROL: Final = 1 << ROLES["control"]
_OPENER: Final = 1 << ROLES["opener"]


def collect_facts(small: Partials, streams: Sequence[Stream]) -> RecordingFacts:
    """Return the facts about the recording.

    The tables of ``small`` contain rows of all splits, with the recording's numbers.

    ``published``, ``consumed`` and ``answered`` of ``small`` are ignored and may be empty.
    """
    by_number = {one.number: one for one in streams}
    learner = _FactCollector()
    for role, number, item in replay(with_role(small.forwarded, "control", "opener", "acks"), small.events, by_number):
        learner.see(role, number, item)
    facts = learner.finish()
    facts.connection_gaps = connection_gaps_of(small.events)
    facts.labels = dict(
        zip(small.labels.column("id").to_pylist(), small.labels.column("text").to_pylist(), strict=True)
    )
    facts.ledger_topics = _ledgers(small.ledgers, facts)
    facts.topic_evidence = topic_evidence_of(small.ledgers, facts)
    nameless = (
        name for name, one in facts.topic_evidence.items() if any(reader.sub < 0 for reader in one.subscriptions)
    )
    facts.subscribed_topics |= frozenset(nameless)
    facts.resend_candidates = candidate_ranges(small, facts)
    return facts


class _FactCollector:
    """A collector of facts from the forwarded frames."""

    def __init__(self) -> None:
        self._observer, self._tracker = Observer(), Tracker(on_done=self._evicted)
        self._tracker.producers = ProducerTracker(
            self._tracker.subscriptions, on_done=self._evicted, on_end=self._session_ended
        )
        self._next_number = 0
        """The frame after the current item; for a frame, the frame itself."""
        self._session_ends: list[tuple[int, int, int]] = []
        self._duplicate_connections: set[int] = set()
        self._opened: set[tuple[bool, int, int]] = set()
        self._peers: dict[tuple[bool, int, int], Producer | Consumer] = {}
        self._producers: dict[tuple[int, int], tuple[Publisher, int]] = {}
        self._consumers: dict[tuple[int, int], tuple[Session, int, bool]] = {}
        self._publishers: list[Publisher] = []
        self._sessions: list[Session] = []
        self._rows: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
        self._subs: dict[tuple[str, str], int] = {}
        self._books: dict[int, SubscriptionState] = {}
        self._cursor_resets: dict[int, list[int]] = {}
        self._asked: dict[int, tuple[tuple[int, int], bool]] = {}
        """The transaction of each open END_TXN by frame number, and whether it commits."""
        self._transactions: dict[tuple[int, int], list[TransactionEnd]] = {}
        self._failed_acks: set[int] = set()
        self._redelivery_causes: dict[int, list[RedeliveryCause]] = {}

    def see(self, role: int, number: int, item: CapturedFrame | Note | StreamEnd) -> None:
        """Process a frame, note or end of a connection; ``number`` is its own frame or the last frame before it."""
        self._next_number = number if isinstance(item, CapturedFrame) else number + 1
        if isinstance(item, CapturedFrame):
            observed = self._observer.see(item)
            if role & _SEES and not self._opened_before(role, observed):
                self._tracker.see(observed)
                self._note(observed)
            if role & _CONTROL or not role & _SEES:
                self._step(observed)
        elif isinstance(item, StreamEnd):
            self._tracker.ended(item)
        else:
            self._tracker.note(item)

    def _evicted(self, group: str, record: object) -> None:
        if isinstance(record, ConnectionRecord) and record.leg_of is not None and record.leg_of >= 0:
            self._duplicate_connections.add(record.stream)

    def _session_ended(self, producer: ProducerSession) -> None:
        self._session_ends.append((producer.session.stream, signed(producer.session.id), self._next_number))

    def _opened_before(self, role: int, observed: Facts) -> bool:
        """Return whether a frame was forwarded only because it is the first of a producer or consumer in its split."""
        peer = observed.peer
        if peer is None:
            return False
        key = (isinstance(peer, Producer), observed.frame.stream.number, peer.id)
        if observed.frame.type in OPENING:
            self._opened.discard(key)
        elif role & _SEES == _OPENER:
            facts = key in self._opened
            self._opened.add(key)
            return facts
        return False

    # -- owners of ids

    def _note(self, observed: Facts) -> None:
        """Record the owner of the frame's id.

        The owner of a response is the producer or consumer that sent the request. It may already be closed.
        """
        peer = observed.peer
        if peer is None:
            return
        key = (isinstance(peer, Producer), observed.frame.stream.number, peer.id)
        if observed.request is None:
            self._peers[key] = peer
        elif self._peers.get(key) is not peer:
            return
        if isinstance(peer, Producer):
            self._note_producer(observed, peer)
        else:
            self._note_consumer(observed, peer)

    def _note_producer(self, observed: Facts, peer: Producer) -> None:
        key, number = (observed.frame.stream.number, peer.id), observed.frame.number
        sender = peer.record
        record = sender.record if isinstance(sender, ProducerSession) else None
        topic = self._tracker.subscriptions.topic(peer.topic) if peer.topic else None
        name = peer.name or (record.name if record is not None else "")
        if not name and observed.frame.type == SEND:
            name = text_of(fields_of(observed.frame), FIELD["producer_name"])
        full = "" if topic is None else topic.name
        publisher = Publisher(full, name, split_partition(peer.topic)[1], topic is None or topic.persistent)
        before = self._producers.get(key)
        if before is None or before[0] != publisher:
            self._producers[key] = publisher, len(self._publishers)
            self._publishers.append(publisher)
            self._rows[0].append((key[0], signed(peer.id), number, len(self._publishers) - 1))

    def _note_consumer(self, observed: Facts, peer: Consumer) -> None:
        member = peer.record
        if not isinstance(member, AttachedConsumer):
            return
        key, number = (observed.frame.stream.number, peer.id), observed.frame.number
        record, book = member.record, member.subscription
        topic = book.topic.record
        sub = self._subs.setdefault((topic.name, book.record.name), len(self._subs))
        if self._books.setdefault(sub, book) is not book:
            # The subscription was removed; this is a new subscription with the same name.
            self._books[sub] = book
            self._cursor_resets.setdefault(sub, []).append(number)
        session = Session(
            *key,
            topic.name,
            peer.subscription,
            peer.name or record.name,
            record.type,
            topic.persistent,
            sub,
            peer.system,
        )
        before = self._consumers.get(key)
        if before is None or before[0] != session or before[2] != member.ready:
            if before is None or before[0] != session:
                self._sessions.append(session)
            index = len(self._sessions) - 1 if before is None or before[0] != session else before[1]
            self._consumers[key] = session, index, member.ready
            self._rows[1].append((key[0], signed(peer.id), number, index, member.ready))

    # -- other events

    def _step(self, observed: Facts) -> None:
        step = _STEPS.get(observed.frame.type)
        if step is not None:
            step(self, observed)

    def _subscription_number(self, observed: Facts) -> int:
        peer = observed.peer
        facts = self._consumers.get((observed.frame.stream.number, peer.id)) if isinstance(peer, Consumer) else None
        return -1 if facts is None else facts[0].sub

    def _back(self, observed: Facts, cause: str, *, everyone: bool = False, all_but: bool = False) -> None:
        sub, peer = self._subscription_number(observed), observed.peer
        if sub >= 0 and isinstance(peer, Consumer):
            owner = (-1, -1) if everyone else (observed.frame.stream.number, signed(peer.id))
            self._redelivery_causes.setdefault(sub, []).append(
                RedeliveryCause(observed.frame.number, cause, *owner, all_but)
            )

    def _success(self, observed: Facts) -> None:
        if observed.request is not None and observed.request.type == _SEEK:
            self._back(observed, "seek", everyone=True)
            self._cursor_resets.setdefault(self._subscription_number(observed), []).append(observed.frame.number)

    def _active(self, observed: Facts) -> None:
        if observed.frame.command.active_consumer_change.is_active:
            self._back(observed, "takeover", all_but=True)

    def _redeliver(self, observed: Facts) -> None:
        self._back(observed, "rewind")

    def _close(self, observed: Facts) -> None:
        self._back(observed, "left" if observed.frame.from_client else "unload")

    def _ack_response(self, observed: Facts) -> None:
        if observed.error[0] and observed.request_number:
            self._failed_acks.add(observed.request_number)

    def _end_requested(self, observed: Facts) -> None:
        body = observed.frame.body
        self._asked[observed.frame.number] = (body.txnid_most_bits, body.txnid_least_bits), body.txn_action == pb.COMMIT

    def _end_txn(self, observed: Facts) -> None:
        request, asked = observed.request, self._asked.pop(observed.request_number, None)
        if request is None or asked is None or observed.error[0]:
            return
        txn, commit = asked
        topic = self._tracker.subscriptions.topic(str(request.topic)).name if request.topic else ""
        end = TransactionEnd(observed.frame.number, commit, topic, str(request.subscription))
        self._transactions.setdefault(txn, []).append(end)

    # -- result

    def finish(self) -> RecordingFacts:
        """Return all facts."""
        asked = set()
        for group, record in self._tracker.records():
            self._evicted(group, record)
            if group == "subscription" and not record.gone:
                asked.add(record.topic.name)
        made = np.array(self._rows[0], np.int64).reshape(-1, 4)
        came = np.array(self._rows[1], np.int64).reshape(-1, 5)
        consumers = Intervals(came[:, 0], came[:, 1], came[:, 2])
        ends = np.array(self._session_ends, np.int64).reshape(-1, 3)
        for sub, book in self._books.items():
            frames = frozenset(book.record.admin_resets)
            causes = self._redelivery_causes.get(sub, [])
            causes[:] = [replace(one, cause="reset") if one.number in frames else one for one in causes]
        return RecordingFacts(
            Intervals(made[:, 0], made[:, 1], made[:, 2]), self._publishers, made[:, 3],
            consumers, self._sessions, came[:, 3], came[:, 4].astype(np.bool_), consumers.until(),
            frozenset(self._duplicate_connections), frozenset(self._observer.system_streams()), frozenset(asked), {},
            self._transactions, frozenset(self._failed_acks), self._redelivery_causes, self._cursor_resets,
            session_ends=Intervals(ends[:, 0], ends[:, 1], ends[:, 2]),
        )  # fmt: skip


def _ledgers(ledgers: pa.Table, facts: RecordingFacts) -> dict[int, str]:
    """Return topics by ledger, from the producers and consumers with a known topic."""
    found: dict[int, str] = {}
    columns = {name: ledgers.column(name).to_numpy() for name in ("stream", "owner_id", "produces", "ledger", "number")}
    for produces, owners in ((1, facts.producers), (0, facts.consumers)):
        rows = np.flatnonzero(columns["produces"] == produces)
        at = owners.find(columns["stream"][rows], columns["owner_id"][rows], columns["number"][rows])
        for row, place in zip(rows.tolist(), at.tolist(), strict=True):
            if place >= 0:
                one = facts.publishers[facts.publisher[place]] if produces else facts.sessions[facts.session[place]]
                if one.topic and one.persistent:
                    found.setdefault(int(columns["ledger"][row]), one.topic)
    return found


def _steps() -> dict[int, Any]:
    steps = {
        "SUCCESS": _FactCollector._success,
        "ACTIVE_CONSUMER_CHANGE": _FactCollector._active,
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": _FactCollector._redeliver,
        "CLOSE_CONSUMER": _FactCollector._close,
        "ACK_RESPONSE": _FactCollector._ack_response,
        **dict.fromkeys(("END_TXN", "END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION"), _FactCollector._end_requested),
        **dict.fromkeys(
            ("END_TXN_RESPONSE", "END_TXN_ON_PARTITION_RESPONSE", "END_TXN_ON_SUBSCRIPTION_RESPONSE"),
            _FactCollector._end_txn,
        ),
    }
    return {BY_NAME[name].number: step for name, step in steps.items()}


_STEPS: Final = _steps()
_SEEK: Final = BY_NAME["SEEK"].number
