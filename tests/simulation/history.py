"""What the broker received, sent and stored in one run.

Rules of this file
1. Frames are recorded where the broker is: a client's frame when it arrives, a broker's frame when it is produced. A
   frame that a link loses before it arrives is absent, as is output that is held until a commit and then lost. Taps and
   observers receive frames when they are sent, as a capture on the broker's host contains them.
2. Each frame of a producer or consumer belongs to its session: the time from PRODUCER or SUBSCRIBE to the close. A
   CLOSE_PRODUCER of a client ends it with the SUCCESS, which follows the receipts of the messages before it (verified
   on 4.2.4).
3. The entries of a topic are copied as soon as they are stored, because ledgers are trimmed later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation.contents import Contents, contents_of_block
from simulation.scalable_history import RestoredTopics, drained_segments
from simulation.sessions import ConsumerSession, ProducerSession, SubscriptionLog

from pcli.codec.capture.frames import START, CapturedFrame, Stream
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.reader import FrameReader
from pcli.minibroker.topic_names import is_system

if TYPE_CHECKING:
    from simulation.links import Link
    from simulation.scalable_applications import Delivery

    from pcli.minibroker.broker import Broker

_MESSAGE, _SEND = BY_NAME["MESSAGE"].number, BY_NAME["SEND"].number


@dataclass(slots=True, eq=False)
class StoredEntry:
    """One entry of a persistent topic."""

    topic: str
    offset: int
    position: tuple[int, int]
    """Ledger id and entry id."""
    data: bytes
    contents: Contents
    turn: int


@dataclass(slots=True, eq=False)
class WireFrame:
    """One frame, or one event of the administration (``name`` is in lower case, ``body`` is None)."""

    index: int
    turn: int
    step: int
    """The number of the plan's step in which the frame passed."""
    time: int
    link: int
    from_client: bool
    name: str
    body: Any
    frame: Any
    session: ConsumerSession | ProducerSession | None = None
    entry: StoredEntry | None = None
    """The entry of a MESSAGE on a persistent topic."""
    contents: Contents | None = None
    """The messages of a SEND or MESSAGE."""
    limits: tuple[int, int] = (0, 0)
    """The limits on unacknowledged messages of the consumer and of the subscription when a MESSAGE was sent."""
    read_position: int = 0
    """The read position of the cursor after the turn of a MESSAGE."""
    registration: Any = None
    """The body of the SCALABLE_TOPIC_SUBSCRIBE to which an assignment belongs."""
    drained: frozenset[int] = frozenset()
    """The sealed segments whose messages the subscription has acknowledged, when an assignment was sent."""
    lost: bool = False
    """Whether the broker was killed before it sent the frame."""


class RestoredCursor:
    """The acknowledgements of a subscription that a start of the broker has restored."""

    def __init__(self, cursor: Any, end: int, *, complete: bool) -> None:
        """``end`` is the offset after the last entry."""
        self.complete = complete
        """Whether all changes were written before the kill."""
        self.start = cursor.mark_delete + 1
        self.acked = {offset for offset in range(self.start, end) if cursor.is_deleted(offset)}
        """Offsets of acknowledged entries at or after ``start``."""
        self.bits = dict(cursor.ack_sets)
        """The unacknowledged messages of batches, by offset."""


@dataclass
class _Stream:
    stream: Stream
    readers: dict[bool, FrameReader] = field(default_factory=lambda: {True: FrameReader(), False: FrameReader()})
    output: FrameReader = field(default_factory=FrameReader)
    """The reader of output that may be held."""
    offsets: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    requests: dict[int, Any] = field(default_factory=dict)
    """PRODUCER, SUBSCRIBE, SEEK, UNSUBSCRIBE, CLOSE and registrations without a response, by request id."""
    producers: dict[int, ProducerSession] = field(default_factory=dict)
    consumers: dict[int, ConsumerSession] = field(default_factory=dict)
    registrations: dict[int, Any] = field(default_factory=dict)
    """The last SCALABLE_TOPIC_SUBSCRIBE of each consumer id."""


class History:
    """The history of one run."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.turn = 0
        self.step = 0
        self.frames: list[WireFrame] = []
        self.consumers: list[ConsumerSession] = []
        self.producers: list[ProducerSession] = []
        self.subscriptions: list[SubscriptionLog] = []
        self.stored: dict[str, list[StoredEntry]] = {}
        """The entries of each persistent topic, by offset."""
        self.by_position: dict[tuple[int, int], StoredEntry] = {}
        self.deliveries: list[Delivery] = []
        """What the applications with consumers of scalable topics received, in order."""
        self.taps: list[Any] = []
        """Receivers of bytes (codec.capture.tap), called with ``opened``, ``passed`` and ``closed``."""
        self.observers: list[Any] = []
        """Receivers of frames: ``see(captured_frame)`` and ``ended(stream, time)``."""
        self._streams: dict[int, _Stream] = {}
        self._count = 0
        self._killed = 0
        """The number of frames at the last kill."""

    # -- connections ---------------------------------------------------------------------------------------------------

    def opened(self, link: Link, now: int) -> None:
        """Record a connection."""
        client, server = ("10.0.0.1", 40000 + link.number % 20000), ("127.0.0.1", 6650)
        stream = Stream(link.number, client, server, midstream=False)
        stream.kind = "pulsar"
        self._streams[link.number] = _Stream(stream)
        for tap in self.taps:
            tap.opened(link.number, client, server, now * 1_000_000)

    def closed(self, link: Link, now: int, *, from_client: bool) -> None:
        """Record the end of a connection at the broker."""
        known = self._streams.pop(link.number, None)
        if known is None:
            return
        self._end_sessions(known, link, now, from_client=from_client)
        self._add(now, link.number, "closed", None, None, from_client=from_client)
        for tap in self.taps:
            tap.closed(link.number, now * 1_000_000, from_client=from_client, reset=False, reason="")
        for observer in self.observers:
            observer.ended(known.stream, now * 1_000_000, from_client=from_client)

    def _end_sessions(self, known: _Stream, link: Link, now: int, *, from_client: bool) -> None:
        for session in (*known.producers.values(), *known.consumers.values()):
            self._end(session, self._add(now, link.number, "end", None, None, from_client=from_client))
        known.producers.clear()
        known.consumers.clear()

    def produced(self, link: Link, data: bytes, now: int, *, closing: bool) -> list[WireFrame]:
        """Record and return the frames in the output of the broker, which may be held before it is sent."""
        known = self._streams.get(link.number)
        if known is None:
            return []
        first = len(self.frames)
        for frame in known.output.feed(data):
            seen = CapturedFrame(frame.data, frame.type, 0, 0, now * 1_000_000, known.stream, False, 0, START)
            self._see(known, seen, now)
        if closing:
            self._end_sessions(known, link, now, from_client=False)
        return self.frames[first:]

    def bytes_passed(self, link: Link, data: bytes, now: int, *, from_client: bool) -> None:
        """Record bytes that the broker received or sent."""
        known = self._streams.get(link.number)
        if known is None:
            return
        for tap in self.taps:
            tap.passed(link.number, data, now * 1_000_000, from_client=from_client)
        for frame in known.readers[from_client].feed(data):
            self._count += 1
            offset = known.offsets[from_client]
            known.offsets[from_client] += len(frame.data)
            seen = CapturedFrame(
                frame.data,
                frame.type,
                self._count,
                self._count,
                now * 1_000_000,
                known.stream,
                from_client,
                offset,
                START,
            )
            if from_client:
                self._see(known, seen, now)
            for observer in self.observers:
                observer.see(seen)

    # -- frames --------------------------------------------------------------------------------------------------------

    def _add(
        self, now: int, link: int, name: str, body: Any, frame: Any, *, from_client: bool, session: Any = None
    ) -> WireFrame:
        one = WireFrame(len(self.frames), self.turn, self.step, now, link, from_client, name, body, frame, session)
        self.frames.append(one)
        if session is not None:
            session.frames.append(one)
            if isinstance(session, ConsumerSession):
                session.subscription.frames.append(one)
        return one

    def mark(self, name: str, now: int, topic: str = "") -> None:
        """Record an event of the administration for a topic, or for all topics."""
        one = self._add(now, -1, name, None, None, from_client=False)
        for subscription in self.subscriptions:
            if topic in ("", subscription.topic):
                subscription.frames.append(one)

    def restarted(self, broker: Broker, now: int, *, complete: bool) -> None:
        """Forget the entries that a killed broker has lost, and record the restored state as bodies of events."""
        self.broker = broker
        self._add(now, -1, "started", RestoredTopics(broker), None, from_client=False)
        killed_before, self._killed = self._killed, len(self.frames)
        for name, known in self.stored.items():
            topic = broker.topics.get(name)
            end = 0 if topic is None or topic.ledger is None else topic.ledger.next
            for lost in known[end:]:
                if self.by_position.get(lost.position) is lost:
                    del self.by_position[lost.position]
            del known[end:]
        for log in self.subscriptions:
            topic = broker.topics.get(log.topic)
            found = None if topic is None else topic.subscriptions.get(log.name)
            if log.ended is not None and log.ended.lost and log.ended.index >= killed_before and found is not None:
                log.ended = None  # its deletion was not written
            if log.durable and log.is_persistent and log.ended is None:
                body = None if found is None else RestoredCursor(found.cursor, topic.ledger.next, complete=complete)
                one = self._add(now, -1, "restored", body, None, from_client=False)
                log.frames.append(one)
                if body is None and log.created.lost:
                    log.ended = one

    def drop_lost(self) -> None:
        """Remove the frames that were not sent, and the sessions whose registration was not confirmed.

        Frames that end sessions remain, because the broker has ended these sessions.
        """
        self.producers = [one for one in self.producers if not one.response.lost]
        self.consumers = [one for one in self.consumers if not one.response.lost]
        for log in self.subscriptions:
            log.sessions = [one for one in log.sessions if not one.response.lost]
            log.closings = {
                index: [one for one in ended if not one.response.lost] for index, ended in log.closings.items()
            }
        for holder in (self, *self.producers, *self.consumers, *self.subscriptions):
            ends = getattr(holder, "closings", {})
            holder.frames = [
                one
                for one in holder.frames
                if not one.lost or one.index in ends or one.name.startswith(("CLOSE_", "end"))
            ]

    def _see(self, known: _Stream, frame: CapturedFrame, now: int) -> None:
        row = COMMANDS.get(frame.type)
        if row is None:
            return
        name, body = row.name, frame.body
        number, from_client = known.stream.number, frame.from_client
        session: Any = None
        fields = body.DESCRIPTOR.fields_by_name
        if "consumer_id" in fields:
            session = known.consumers.get(body.consumer_id)
        elif "producer_id" in fields:
            session = known.producers.get(body.producer_id)
        if name == "SUBSCRIBE" or name == "PRODUCER":
            session = None
        one = self._add(now, number, name, body, frame, from_client=from_client, session=session)
        if from_client:
            self._see_request(known, one)
        else:
            self._see_broker(known, one)
        if frame.type in (_MESSAGE, _SEND):
            self._see_entry(one)

    def _see_request(self, known: _Stream, one: WireFrame) -> None:
        if one.name in ("SUBSCRIBE", "PRODUCER", "SEEK", "UNSUBSCRIBE", "CLOSE_CONSUMER", "CLOSE_PRODUCER"):
            known.requests[one.body.request_id] = one
        elif one.name == "SCALABLE_TOPIC_SUBSCRIBE":
            known.requests[one.body.request_id] = known.registrations[one.body.consumer_id] = one
        if one.name == "CLOSE_CONSUMER" and one.session is not None:
            known.consumers.pop(one.body.consumer_id, None)
            self._end(one.session, one)

    def _see_broker(self, known: _Stream, one: WireFrame) -> None:
        if one.name == "SUCCESS":
            request = known.requests.pop(one.body.request_id, None)
            if request is not None:
                self._succeeded(known, request, one)
        elif one.name == "PRODUCER_SUCCESS" and one.body.producer_ready:
            request = known.requests.pop(one.body.request_id, None)
            if request is not None and request.name == "PRODUCER":
                session = ProducerSession(request, one)
                self.producers.append(session)
                known.producers[request.body.producer_id] = session
                one.session = session
        elif one.name == "CLOSE_CONSUMER" and one.session is not None:
            known.consumers.pop(one.body.consumer_id, None)
            self._end(one.session, one)
        elif one.name == "CLOSE_PRODUCER" and one.session is not None:
            known.producers.pop(one.body.producer_id, None)
            self._end(one.session, one)
        elif one.name == "ERROR":
            known.requests.pop(one.body.request_id, None)
        elif one.name == "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE":
            self._see_assignment(one, known.requests.pop(one.body.request_id, None))
        elif one.name == "SCALABLE_TOPIC_ASSIGNMENT_UPDATE":
            self._see_assignment(one, known.registrations.get(one.body.consumer_id))

    def _see_assignment(self, one: WireFrame, request: WireFrame | None) -> None:
        if request is not None:
            one.registration = request.body
            one.drained = drained_segments(self.broker, request.body)

    def _succeeded(self, known: _Stream, request: WireFrame, response: WireFrame) -> None:
        body = request.body
        if request.name == "SUBSCRIBE" and body.consumer_id not in known.consumers:
            session = ConsumerSession(request, response, self._subscription(request, response))
            self.consumers.append(session)
            known.consumers[body.consumer_id] = session
            response.session = session
            session.frames.append(response)
            session.subscription.sessions.append(session)
            session.subscription.attached.append(session)
            if response not in session.subscription.frames[-1:]:
                session.subscription.frames.append(response)
        elif request.name == "UNSUBSCRIBE" and isinstance(request.session, ConsumerSession):
            known.consumers.pop(body.consumer_id, None)
            session = request.session
            session.subscription.frames.append(response)
            self._end(session, response)
            session.subscription.ended = response
        elif request.name == "CLOSE_PRODUCER" and request.session is not None:
            known.producers.pop(body.producer_id, None)
            self._end(request.session, response)
        elif request.name == "SEEK" and isinstance(request.session, ConsumerSession):
            self._add_seek(request.session, response)

    def _add_seek(self, session: ConsumerSession, response: WireFrame) -> None:
        """Record the position of the cursor after a seek, as the body of an event."""
        log = session.subscription
        topic = self.broker.topics.get(log.topic)
        found = topic.subscriptions.get(log.name) if topic is not None else None
        mark_delete = found.cursor.mark_delete if found is not None and found.cursor is not None else -1
        one = self._add(response.time, response.link, "sought", mark_delete, None, from_client=False)
        log.frames.append(one)

    def _subscription(self, request: WireFrame, response: WireFrame) -> SubscriptionLog:
        body = request.body
        for one in self.subscriptions:
            if one.ended is None and (one.topic, one.name) == (body.topic, body.subscription):
                return one
        topic = self.broker.topics.get(body.topic)
        found = topic.subscriptions.get(body.subscription) if topic is not None else None
        durable = body.durable if found is None else found.durable  # a seek keeps the cursor of a non-durable one
        one = SubscriptionLog(body.topic, body.subscription, durable, response, self._start(request))
        self.subscriptions.append(one)
        return one

    def _start(self, request: WireFrame) -> int:
        """Return the offset of the first entry of a new subscription, or -1 if the topic is not persistent."""
        topic = self.broker.topics.get(request.body.topic)
        if topic is None or topic.ledger is None or request.body.subscription not in topic.subscriptions:
            return -1
        cursor = topic.subscriptions[request.body.subscription].cursor
        return -1 if cursor is None else cursor.mark_delete + 1

    def _end(self, session: Any, frame: WireFrame) -> None:
        if session.ended is not None:
            return
        session.ended = frame
        if isinstance(session, ConsumerSession):
            log = session.subscription
            if frame not in log.frames[-2:]:
                log.frames.append(frame)
            log.closings[frame.index] = [*log.closings.get(frame.index, ()), session]
            log.attached.remove(session)
            if not log.attached and (not log.durable or not log.is_persistent):
                log.ended = frame

    def _see_entry(self, one: WireFrame) -> None:
        frame = one.frame
        block = frame.data[frame.parts.command_end :]
        one.contents = contents_of_block(block)
        if one.name == "MESSAGE":
            place = one.body.message_id
            one.entry = self.by_position.get((signed(place.ledgerId), signed(place.entryId)))
            if isinstance(one.session, ConsumerSession):
                self._add_limits(one, one.session)

    def _add_limits(self, one: WireFrame, session: ConsumerSession) -> None:
        topic = self.broker.topics.get(session.subscription.topic)
        found = None if topic is None else topic.subscriptions.get(session.subscription.name)
        if topic is None or found is None or found.cursor is None or not found.durable or not session.individual:
            return
        one.read_position = found.cursor.read_position
        names = "maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription"
        one.limits = max(0, topic.effective(names[0])), max(0, topic.effective(names[1]))

    # -- entries -------------------------------------------------------------------------------------------------------

    def read_ledgers(self, now: int) -> None:
        """Copy the entries that were stored since the last call."""
        del now
        for name, topic in self.broker.topics.items():
            ledger = topic.ledger
            if ledger is None or is_system(topic.name):
                continue
            known = self.stored.setdefault(name, [])
            while len(known) < ledger.next:
                offset = len(known)
                entry = ledger.entry(offset)
                position = ledger.position(offset)
                data = entry.data if entry is not None else b""
                one = StoredEntry(name, offset, position, data, contents_of_block(data), self.turn)
                known.append(one)
                self.by_position[position] = one

    def entries(self) -> Iterator[StoredEntry]:
        """Yield all stored entries."""
        for known in self.stored.values():
            yield from known
