"""What a recording says of ids, from the frames that go on as bytes: `know`.

Rules of this file
1. Names are those of the object path: the very Observer and Tracker see the commands, and the first frames of those
   whose commands are not in the capture. After each frame it is noted whose the ids are now.
2. What else is needed to judge messages (ends of transactions, cursors set back, doubts) is noted on the way.
3. Every split gives the first frame of each id that it meets. Of an id whose opening is known only that of the first
   split is seen, as if there were no others: the Tracker would take all messages between two such frames for passed
   over, and count them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.capture.frames import CapturedFrame, Note, Stream, StreamEnd
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.observe.tracking.entry_metadata import FIELD, fields_of, text_of
from pcli.codec.observe.tracking.producers.producer_session import ProducerSession
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import SEND
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.topic_name import split_partition
from pcli.spark.columnar.lifecycles.capture_gaps import doubts_of, witnesses_of
from pcli.spark.columnar.lifecycles.cumulative_acks import marks_of
from pcli.spark.columnar.lifecycles.forwarded_frames import OPENING
from pcli.spark.columnar.lifecycles.frame_replay import replay, with_role
from pcli.spark.columnar.lifecycles.interval_join import Intervals
from pcli.spark.columnar.lifecycles.partial_tables import ROLES, Partials
from pcli.spark.columnar.lifecycles.recording_facts import Back, Known, Publisher, Session, TxnEnd
from pcli.spark.columnar.lifecycles.resend_candidates import suspects_of

__all__ = ["know"]

_SEES: Final = 1 << ROLES["control"] | 1 << ROLES["opener"]
_CONTROL: Final = 1 << ROLES["control"]
_OPENER: Final = 1 << ROLES["opener"]


def know(small: Partials, streams: Sequence[Stream]) -> Known:
    """What all splits together say; their tables speak in the recording's numbers.

    ``published``, ``consumed`` and ``answered`` of ``small`` are not looked at and may be empty.
    """
    by_number = {one.number: one for one in streams}
    learner = _Learner()
    for role, item in replay(with_role(small.spoken, "control", "opener", "asking"), small.events, by_number):
        learner.see(role, item)
    known = learner.finish()
    known.doubts = doubts_of(small.events)
    known.labels = dict(
        zip(small.labels.column("id").to_pylist(), small.labels.column("text").to_pylist(), strict=True)
    )
    known.ledgers = _ledgers(small.ledgers, known)
    known.witnesses = witnesses_of(small.ledgers, known)
    nameless = (name for name, one in known.witnesses.items() if any(reader.sub < 0 for reader in one.readers))
    known.asked |= frozenset(nameless)
    known.marks = marks_of(small.cumulative, known)
    known.suspects = suspects_of(small, known)
    return known


class _Learner:
    """Sees the frames that were kept."""

    def __init__(self) -> None:
        self._observer, self._tracker = Observer(), Tracker(on_done=self._forgotten)
        self._legs: set[int] = set()
        self._opened: set[tuple[bool, int, int]] = set()
        self._peers: dict[tuple[bool, int, int], Producer | Consumer] = {}
        self._producers: dict[tuple[int, int], tuple[Publisher, int]] = {}
        self._consumers: dict[tuple[int, int], tuple[Session, int, bool]] = {}
        self._publishers: list[Publisher] = []
        self._sessions: list[Session] = []
        self._rows: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = ([], [])
        self._subs: dict[tuple[str, str], int] = {}
        self._books: dict[int, SubscriptionState] = {}
        self._resets: dict[int, list[int]] = {}
        self._asked: dict[tuple[int, int], dict[str, Any]] = {}
        self._txns: dict[tuple[int, int], list[TxnEnd]] = {}
        self._failed: set[int] = set()
        self._backs: dict[int, list[Back]] = {}

    def see(self, role: int, item: CapturedFrame | Note | StreamEnd) -> None:
        """Take in a frame, note or end."""
        if isinstance(item, CapturedFrame):
            facts = self._observer.see(item)
            if role & _SEES and not self._opened_before(role, facts):
                self._tracker.see(facts)
                self._note(facts)
            if role & _CONTROL or not role & _SEES:
                self._step(facts)
        elif isinstance(item, StreamEnd):
            self._tracker.ended(item)
        else:
            self._tracker.note(item)

    def _forgotten(self, group: str, record: Any) -> None:
        if group == "connection" and record.leg_of is not None and record.leg_of >= 0:
            self._legs.add(record.stream)

    def _opened_before(self, role: int, facts: Facts) -> bool:
        """Whether a frame is only there because its split had none of its producer or consumer before it."""
        peer = facts.peer
        if peer is None:
            return False
        key = (isinstance(peer, Producer), facts.frame.stream.number, peer.id)
        if facts.frame.type in OPENING:
            self._opened.discard(key)
        elif role & _SEES == _OPENER:
            known = key in self._opened
            self._opened.add(key)
            return known
        return False

    # -- whose ids are

    def _note(self, facts: Facts) -> None:
        """See whose the id is that the frame speaks of. An answer speaks of whoever asked, who may be gone by now."""
        peer = facts.peer
        if peer is None:
            return
        key = (isinstance(peer, Producer), facts.frame.stream.number, peer.id)
        if facts.request is None:
            self._peers[key] = peer
        elif self._peers.get(key) is not peer:
            return
        if isinstance(peer, Producer):
            self._note_producer(facts, peer)
        else:
            self._note_consumer(facts, peer)

    def _note_producer(self, facts: Facts, peer: Producer) -> None:
        key, number = (facts.frame.stream.number, peer.id), facts.frame.number
        sender = peer.record
        record = sender.record if isinstance(sender, ProducerSession) else None
        topic = self._tracker.subscriptions.topic(peer.topic) if peer.topic else None
        name = peer.name or (record.name if record is not None else "")
        if not name and facts.frame.type == SEND:
            name = text_of(fields_of(facts.frame), FIELD["producer_name"])
        full = "" if topic is None else topic.name
        publisher = Publisher(full, name, split_partition(peer.topic)[1], topic is None or topic.persistent)
        before = self._producers.get(key)
        if before is None or before[0] != publisher:
            self._producers[key] = publisher, len(self._publishers)
            self._publishers.append(publisher)
            self._rows[0].append((key[0], signed(peer.id), number, len(self._publishers) - 1))

    def _note_consumer(self, facts: Facts, peer: Consumer) -> None:
        member = peer.record
        if not isinstance(member, AttachedConsumer):
            return
        key, number = (facts.frame.stream.number, peer.id), facts.frame.number
        record, book = member.record, member.subscription
        topic = book.topic.record
        sub = self._subs.setdefault((topic.name, book.record.name), len(self._subs))
        if self._books.setdefault(sub, book) is not book:
            # The subscription was gone; this is a new one with its name.
            self._books[sub] = book
            self._resets.setdefault(sub, []).append(number)
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

    # -- what else happens

    def _step(self, facts: Facts) -> None:
        step = _STEPS.get(facts.frame.type)
        if step is not None:
            step(self, facts)

    def _sub_of(self, facts: Facts) -> int:
        peer = facts.peer
        known = self._consumers.get((facts.frame.stream.number, peer.id)) if isinstance(peer, Consumer) else None
        return -1 if known is None else known[0].sub

    def _back(self, facts: Facts, why: str, *, everyone: bool = False, but: bool = False) -> None:
        sub, peer = self._sub_of(facts), facts.peer
        if sub >= 0 and isinstance(peer, Consumer):
            owner = (-1, -1) if everyone else (facts.frame.stream.number, signed(peer.id))
            self._backs.setdefault(sub, []).append(Back(facts.frame.number, why, *owner, but))

    def _success(self, facts: Facts) -> None:
        if facts.request is not None and facts.request.type == _SEEK:
            self._back(facts, "seek", everyone=True)
            self._resets.setdefault(self._sub_of(facts), []).append(facts.frame.number)

    def _active(self, facts: Facts) -> None:
        if facts.command.get("pulsar.active_consumer_change.is_active", False):
            self._back(facts, "takeover", but=True)

    def _redeliver(self, facts: Facts) -> None:
        self._back(facts, "rewind")

    def _close(self, facts: Facts) -> None:
        self._back(facts, "left" if facts.frame.from_client else "unload")

    def _ack_response(self, facts: Facts) -> None:
        if facts.command.get("pulsar.ackResponse.error", "") and facts.request_number:
            self._failed.add(facts.request_number)

    def _ask_end(self, facts: Facts) -> None:
        words = {name.rpartition(".")[2]: value for name, value in facts.command.items()}
        self._asked[facts.frame.stream.number, words.get("request_id", -1)] = words

    def _end_txn(self, facts: Facts) -> None:
        words = {name.rpartition(".")[2]: value for name, value in facts.command.items()}
        asked = self._asked.pop((facts.frame.stream.number, words.get("request_id", -1)), None)
        if asked is None or words.get("error"):
            return
        txn = (asked.get("txnid_most_bits", 0), asked.get("txnid_least_bits", 0))
        topic = asked.get("topic", "")
        full = self._tracker.subscriptions.topic(topic).name if topic else ""
        end = TxnEnd(facts.frame.number, asked.get("txn_action") == "COMMIT", full, asked.get("subscription", ""))
        self._txns.setdefault(txn, []).append(end)

    # -- the end

    def finish(self) -> Known:
        """All that was noted."""
        asked = set()
        for group, record in self._tracker.records():
            self._forgotten(group, record)
            if group == "subscription" and not record.gone:
                asked.add(record.topic.name)
        made = np.array(self._rows[0], np.int64).reshape(-1, 4)
        came = np.array(self._rows[1], np.int64).reshape(-1, 5)
        consumers = Intervals(came[:, 0], came[:, 1], came[:, 2])
        return Known(
            Intervals(made[:, 0], made[:, 1], made[:, 2]), self._publishers, made[:, 3],
            consumers, self._sessions, came[:, 3], came[:, 4].astype(np.bool_), consumers.until(),
            frozenset(self._legs), frozenset(self._observer.system_streams()), frozenset(asked), {}, self._txns,
            frozenset(self._failed), self._backs, self._resets,
        )  # fmt: skip


def _ledgers(ledgers: pa.Table, known: Known) -> dict[int, str]:
    """Topics of ledgers, by whoever has a name and writes or reads them."""
    found: dict[int, str] = {}
    columns = {name: ledgers.column(name).to_numpy() for name in ("stream", "owner_id", "produces", "ledger", "number")}
    for produces, owners in ((1, known.producers), (0, known.consumers)):
        rows = np.flatnonzero(columns["produces"] == produces)
        at = owners.find(columns["stream"][rows], columns["owner_id"][rows], columns["number"][rows])
        for row, place in zip(rows.tolist(), at.tolist(), strict=True):
            if place >= 0:
                one = known.publishers[known.publisher[place]] if produces else known.sessions[known.session[place]]
                if one.topic and one.persistent:
                    found.setdefault(int(columns["ledger"][row]), one.topic)
    return found


def _steps() -> dict[int, Any]:
    steps = {
        "SUCCESS": _Learner._success,
        "ACTIVE_CONSUMER_CHANGE": _Learner._active,
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": _Learner._redeliver,
        "CLOSE_CONSUMER": _Learner._close,
        "ACK_RESPONSE": _Learner._ack_response,
        **dict.fromkeys(("END_TXN", "END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION"), _Learner._ask_end),
        **dict.fromkeys(
            ("END_TXN_RESPONSE", "END_TXN_ON_PARTITION_RESPONSE", "END_TXN_ON_SUBSCRIPTION_RESPONSE"), _Learner._end_txn
        ),
    }
    return {BY_NAME[name].number: step for name, step in steps.items()}


_STEPS: Final = _steps()
_SEEK: Final = BY_NAME["SEEK"].number
