"""Known producers: their records, their sessions, and the SENDs that a session leaves to the next session.

Rules of this file
1. A session belongs to the record of its topic and name. A producer without a name is identified by connection and id
   until a PRODUCER_SUCCESS with the name arrives.
2. A SEND without a successful receipt may be resent by the next session of the same name. It is lost if that session
   does not resend it, or if the capture ends.
3. The messages of a session that began before the capture contain its name but not its topic. If a producer of that
   name reconnects and there was only one such session, that session is assumed to be an earlier session of this
   producer.
4. The number of records is bounded: producers whose session has ended are evicted first, then the producers attached
   for the longest time. The number of open SENDs of all sessions is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Facts, Producer
from pcli.codec.observe.tracking.producers.producer_session import ConnectionProducers, OpenSend, ProducerSession
from pcli.codec.observe.tracking.producers.repeated_contents import LOST_PRODUCER, RepeatedContents
from pcli.codec.observe.tracking.records.client_records import ProducerRecord, Session
from pcli.codec.observe.tracking.records.connection_records import MAX_CONNECTIONS
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.steps import Steps
from pcli.codec.wire.topic_name import split_partition

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker

MAX_PRODUCERS: Final = 10_000
"""Maximum number of producers."""

MAX_OPEN: Final = 100_000
"""Maximum number of open SENDs of all sessions, which occupy about 100 MB. If it is exceeded, each SEND evicts the
oldest open SEND of its session."""


class ProducerRegistry:
    """All producers, by connection, and by topic and name."""

    def __init__(
        self,
        subscriptions: SubscriptionTracker,
        on_done: Callable[[str, Any], None] | None,
        max_producers: int = MAX_PRODUCERS,
        max_open: int = MAX_OPEN,
        on_end: Callable[[ProducerSession], None] | None = None,
    ) -> None:
        """``on_done`` receives ``producer`` and each evicted record, ``on_end`` each session when it is given up."""
        self.subscriptions = subscriptions
        self.connections: dict[int, ConnectionProducers] = {}
        """Connections with sessions for which receipts are still possible."""
        self.open_count = 0
        """Number of open SENDs of all sessions."""
        self.max_open = max_open
        self.contents = RepeatedContents()
        self._on_done, self._on_end = on_done, on_end
        self._max_producers = max_producers
        self._kept: dict[tuple[str, str], ProducerSession] = {}
        """The session of each record, by topic and name; the session attached for the longest time is first."""
        self._doubts: BoundedDict[int, set[str]] = BoundedDict(MAX_CONNECTIONS)
        self._began_before_capture: BoundedDict[str, ProducerSession | None] = BoundedDict(max_producers)
        """Sessions whose PRODUCER is not in the capture, by name; None if several sessions have the name."""
        self._serial = 0

    # -- sessions

    def begin(self, facts: Facts, peer: Producer, name: str) -> ProducerSession:
        """Begin a session; ``name`` is empty if it is unknown."""
        frame = facts.frame
        stream, time_ns = frame.stream.number, frame.time_ns
        connection = self.connections.get(stream)
        older = connection.producers.get(peer.id) if connection is not None else None
        if older is not None:
            self.close(older, "replaced", time_ns, frame.number)
            self.give_up_open_sends(older, time_ns, frame.number)
        # `give_up_open_sends` may have removed the connection together with its last session.
        connection = self.connections.setdefault(stream, connection or ConnectionProducers())
        key = (peer.topic, name or f"{stream}#{peer.id}")
        kept = self._kept.get(key)
        record = self._record(peer, name, time_ns) if kept is None else kept.record
        record.doubts |= self._doubts.get(stream, set())
        self._serial += 1
        session = Session(stream, peer.id, 0, time_ns)
        producer = ProducerSession(key, peer, record, session, connection, split_partition(peer.topic)[1], self._serial)
        peer.record = connection.producers[peer.id] = producer
        earlier = self._began_before_capture.get(name) if kept is None and name else None
        if earlier is not None and earlier.session.end:
            producer.inherit_sends(earlier)
        if kept is None or kept.session.end:
            self.attach(producer, time_ns)
        return producer

    def began_before_capture(self, producer: ProducerSession, name: str) -> None:
        """Register a session that began before the capture; ``name`` is the name in the metadata of its messages."""
        producer.record.name = name
        producer.record.doubts.add("start")
        if name:
            self._began_before_capture[name] = None if name in self._began_before_capture else producer

    def _record(self, peer: Producer, name: str, time_ns: int) -> ProducerRecord:
        topic = self.subscriptions.topic(peer.topic) if peer.topic else None
        full = topic.name if topic is not None else ""
        return ProducerRecord(full, name, topic, system=peer.system, first_ns=time_ns, last_ns=time_ns)

    def rename(self, producer: ProducerSession) -> None:
        """Apply the name that the broker has assigned."""
        old, key = producer.key, (producer.key[0], producer.peer.name)
        if not key[1] or key == old:
            return
        if self._kept.get(old) is producer:
            del self._kept[old]
        if producer.topic is not None:
            producer.topic.producers.pop(old[1], None)
        producer.key = key
        producer.record.name = key[1]

    def attach(self, producer: ProducerSession, time_ns: int) -> None:
        """Make this session the current session of its record."""
        older = self._kept.pop(producer.key, None)
        if older is not None and older is not producer:
            self.close(older, "silence", time_ns, 0)
            self.give_up_open_sends(older, time_ns, 0)
            producer.inherit(older)
        if len(self._kept) >= self._max_producers:
            self._evict()
        self._kept[producer.key] = producer
        producer.record.session = producer.session
        if producer.topic is not None:
            producer.topic.producers[producer.key[1]] = producer.record

    def close(self, producer: ProducerSession, end: str, time_ns: int, frame: int) -> None:
        """End a session. ``end`` is a key of ENDS. Receipts may still follow."""
        session, record = producer.session, producer.record
        record.waiting.end(time_ns, frame)
        if session.end:
            return
        session.end, session.ended_ns, session.ended_frame = end, time_ns, frame
        record.last_ns = max(record.last_ns, time_ns)
        if end in LOST_PRODUCER:
            self.contents.lost(producer)
        if end != "refused":
            record.ends.setdefault(end, Occurrences()).add(time_ns, frame)

    def give_up_open_sends(self, producer: ProducerSession, time_ns: int, frame: int) -> None:
        """Mark the open SENDs as unanswered, because no more receipts follow; the next session may resend them."""
        session, record = producer.session, producer.record
        producers = producer.connection.producers
        if producers.get(session.id) is producer:
            del producers[session.id]
            if not producers:
                self.connections.pop(session.stream, None)
        if producer.peer.record is producer:
            producer.peer.record = None
        if producer.place:
            self.mark_lost(
                producer, [one for one, lifecycle in producer.resendable.items() if lifecycle.stream != session.stream]
            )
        left, producer.open_sends = producer.open_sends, deque()
        self.open_count -= len(left)
        producer.response_received(time_ns, frame)
        for one in left:
            record.unreceipted.add(time_ns, one.frame, sample=str(one.sequence_id))
            if one.place < producer.last_receipted:
                record.skipped.add(one.time_ns, one.frame, producer.last_receipt_frame, sample=str(one.sequence_id))
            if one.lifecycle.receipt_ns < 0:
                one.lifecycle.state = "lost"
            self.keep_resendable(producer, one)
        producer.finish()
        if self._on_end is not None:
            self._on_end(producer)

    # -- lifecycles without a receipt

    def give_up(self, lifecycle: Lifecycle, state: str) -> None:
        """Complete the lifecycle of a message that was not stored; the lifecycle of a stored message continues."""
        if lifecycle.receipt_ns < 0 or lifecycle.error:
            lifecycle.state = state
            if lifecycle.ledger < 0:
                self.subscriptions.never_stored(lifecycle)

    def keep_resendable(self, producer: ProducerSession, one: OpenSend) -> None:
        """Keep a SEND without a successful receipt for a resend; a different message with its sequence id is lost."""
        if producer.resendable.get(one.sequence_id, one.lifecycle) is not one.lifecycle:
            self.mark_lost(producer, [one.sequence_id])
        producer.resendable[one.sequence_id] = one.lifecycle

    def mark_lost(self, producer: ProducerSession, sequence_ids: Iterable[int]) -> None:
        """Mark SENDs as lost, because no session will resend them."""
        for sequence_id in sequence_ids:
            lifecycle = producer.resendable.pop(sequence_id)
            if lifecycle.receipt_ns < 0:
                producer.record.lost.add(lifecycle.sent_ns, lifecycle.sent_frame, sample=str(sequence_id))
            self.give_up(lifecycle, "refused" if lifecycle.error else "lost")

    def give_up_oldest(self, producer: ProducerSession) -> None:
        """Evict the oldest open SEND of this session."""
        self.open_count -= 1
        self.give_up(producer.open_sends.popleft().lifecycle, "in_flight")
        producer.record.doubts.add("evicted")
        self._count("sends")

    # -- all producers

    def add_doubts(self, stream: int, doubts: set[str]) -> None:
        """Add the doubts of a connection to its producers."""
        self._doubts[stream] = set(doubts)
        connection = self.connections.get(stream)
        for producer in connection.producers.values() if connection is not None else ():
            producer.record.doubts |= doubts
            for one in producer.open_sends:
                one.lifecycle.doubts |= doubts

    def forget(self, stream: int) -> None:
        """Drop a connection that has ended."""
        self._doubts.pop(stream, None)

    def finish(self) -> None:
        """Complete all lifecycles at the end of the capture."""
        for connection in self.connections.values():
            for producer in connection.producers.values():
                for one in producer.open_sends:
                    self.give_up(one.lifecycle, "in_flight")
        for producer in self._kept.values():
            producer.finish()
            self.mark_lost(producer, list(producer.resendable))
            if not producer.session.end:
                producer.record.doubts.add("end")

    def records(self, now_ns: int | None) -> Iterator[ProducerRecord]:
        """Yield the records, or copies that include the open SENDs at a time."""
        for producer in list(self._kept.values()):
            yield producer.record if now_ns is None else producer.record_now()

    def _evict(self) -> None:
        """Evict a tenth of the producers at once, to keep the cost per producer low."""
        ended = [key for key, one in self._kept.items() if one.session.end]
        lasting = (key for key, one in self._kept.items() if not one.session.end)
        for key in list(islice(chain(ended, lasting), max(1, self._max_producers // 10))):
            self._kept[key].record.doubts.add("evicted")
            self._count("producers")
            self._drop(self._kept[key])

    def forget_ended(self, before_ns: int) -> Steps[None]:
        """Remove the producers whose session ended before a time."""
        for key, producer in list(self._kept.items()):
            yield
            if producer.session.end and producer.session.ended_ns < before_ns and self._kept.get(key) is producer:
                self._drop(producer)

    def _drop(self, producer: ProducerSession) -> None:
        key, record = producer.key, producer.record
        self.give_up_open_sends(producer, record.last_ns, 0)
        self.mark_lost(producer, list(producer.resendable))
        del self._kept[key]
        if producer.topic is not None:
            producer.topic.producers.pop(key[1], None)
        elif self._began_before_capture.get(record.name) is producer:
            del self._began_before_capture[record.name]
        if self._on_done is not None:
            self._on_done("producer", record)

    def _count(self, kind: str) -> None:
        evicted = self.subscriptions.capture.evicted
        evicted[kind] = evicted.get(kind, 0) + 1
