"""A producer of a scalable topic, with one producer for each segment (ScalableTopicProducer, 5.0.1).

Rules of this file
1. The producer of a segment is created for its first message.
2. The high 16 bits of the key's Murmur3 hash choose the active segment. Messages without a key use the active segments
   in turn.
3. When a segment is sealed, its messages without a receipt are routed again by the next layout, in their order and
   before newer messages. A message waits for that layout at most ``sendTimeoutMs``. The Java client instead sends a
   failed message again after 100 ms or more.
4. Sequence ids are those of each segment. An id that the application gave is used again on the child.
5. Messages that wait for a producer or a layout do not use ``memoryLimitBytes``. If there are many, `send` accepts no
   more.
6. Closing closes the session first, then the producers of the segments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.scalable import Layout, Segment
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.batch_container import Done
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer.producer import Producer
from pcli.replay.client.producer.sequence_ids import DuplicateRisk
from pcli.replay.client.scalable.layout_session import LayoutSession
from pcli.replay.client.scalable.segment_producer import SegmentProducer
from pcli.replay.client.settings import ProducerSettings
from pcli.replay.client.wait_for_all import gather

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

_GONE: Final = ("TopicTerminatedError", "TopicNotFound")
"""Failures of a segment that was sealed, or also pruned."""

_MOST_WAITING: Final = 10_000
"""Number of messages that may wait for a producer or a layout."""

_CLOSED: Final = ClientFailure("Closed", "the producer is closed")

Created = Callable[["ScalableProducer | ClientFailure"], None]


def open_scalable_producer(
    engine: ClientContext, topic: str, settings: ProducerSettings, done: Callable[[Any], None]
) -> None:
    """Create a producer of a scalable topic, which is created if it does not exist."""
    try:
        name = str(TopicName.parse(topic))
    except LocalError as fault:
        done(ClientFailure("InvalidTopicName", fault.text))
        return
    ScalableProducer(engine, name, settings, done).start()


class _Sent:
    """A message without a result."""

    __slots__ = ("done", "message", "number", "segment", "since")

    def __init__(self, message: OutgoingMessage, done: Done | None, number: int, since: int) -> None:
        self.message = message
        self.done = done
        self.number = number
        """Number of the message in the order of `ScalableProducer.send`."""
        self.since = since
        """The time of the first attempt."""
        self.segment: Segment | None = None
        """The segment that was chosen for the message."""


class ScalableProducer:
    """A producer of a scalable topic. ``created`` is called once, with the producer or the ClientFailure."""

    def __init__(self, engine: ClientContext, topic: str, settings: ProducerSettings, created: Created) -> None:
        self.engine = engine
        self.topic = topic
        self.state = State.CONNECTING
        self.producers: dict[int, SegmentProducer] = {}
        """Producers by segment id."""
        self.on_room: Callable[[], None] | None = None
        """A function that is called when there is space again (`Producer.on_room`)."""
        self.on_possible_duplicate: Callable[[DuplicateRisk, int], None] | None = None
        """A function that is called with each possible duplicate (`Producer.on_possible_duplicate`)."""
        self._settings = settings
        self._created: Created | None = created
        self._session = LayoutSession(engine, topic, self._changed, self._failed)
        self._active: list[Segment] = []
        self._active_ids: set[int] = set()
        self._turn = 0
        self._numbers = 0
        self._unfinished: dict[int, _Sent] = {}
        self._opening: dict[int, list[_Sent]] = {}
        self._sealed: set[int] = set()
        self._again: list[_Sent] = []
        self._backlog: deque[_Sent] = deque()
        self._expiry: Timer | None = None
        self._flushes: list[tuple[set[int], list[ClientFailure], Callable[[ClientFailure | None], None]]] = []

    @property
    def name(self) -> str:
        """The name that the application gave, or an empty string. The producers of segments have own names."""
        return self._settings.producerName

    def start(self) -> None:
        """Request the layout, then call ``created``."""
        self._session.start()

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, message: OutgoingMessage, done: Done | None = None) -> bool:
        """Send a message. Return False, without sending, if there is no space (`Producer.send`)."""
        if self.state is not State.READY:
            if done is not None:
                done(_CLOSED)
            return True
        if self._backlog or self._many_wait():
            return False
        sent = _Sent(message, done, self._numbers, self.engine.now)
        self._unfinished[sent.number] = sent
        if not self._route(sent):
            del self._unfinished[sent.number]
            self._turn -= message.key is None
            return False
        self._numbers += 1
        return True

    def _many_wait(self) -> bool:
        waiting = len(self._again)
        if self._opening:
            waiting += sum(map(len, self._opening.values()))
        return waiting >= _MOST_WAITING

    def _send_backlog(self) -> None:
        """Route the messages of the backlog while there is space, in order."""
        while self._backlog and self._route(self._backlog[0]):
            self._backlog.popleft()

    def _route(self, sent: _Sent) -> bool:
        segment = sent.segment
        if segment is None or segment.id not in self._active_ids:
            segment = sent.segment = self._segment_for(sent.message)
        if segment is None or segment.id in self._sealed:
            self._hold(sent)
        elif segment.id in self._opening:
            self._opening[segment.id].append(sent)
        elif segment.id not in self.producers:
            self._opening[segment.id] = [sent]
            self._open(segment)
        elif not self._send_on(segment.id, sent):
            return False
        return True

    def _segment_for(self, message: OutgoingMessage) -> Segment | None:
        """Choose the segment of a message. Return None if no active segment has its key."""
        if message.key is None:
            self._turn += 1
            return self._active[(self._turn - 1) % len(self._active)] if self._active else None
        slot = message.hashes[0]
        return next((one for one in self._active if one.start <= slot <= one.end), None)

    def _send_on(self, segment: int, sent: _Sent) -> bool:
        return self.producers[segment].send(sent.message, partial(self._finished, segment, sent))

    def _finished(self, segment: int, sent: _Sent, result: Any) -> None:
        if isinstance(result, ClientFailure) and result.error in _GONE and self.state is State.READY:
            self._sealed.add(segment)
            self._hold(sent)
            return
        if self._unfinished.pop(sent.number, None) is None:
            return
        if sent.done is not None:
            sent.done(result)
        for numbers, failures, _ in self._flushes:
            if sent.number in numbers:
                numbers.discard(sent.number)
                failures += [result] if isinstance(result, ClientFailure) else []
        completed = [one for one in self._flushes if not one[0]]
        self._flushes = [one for one in self._flushes if one[0]]
        for _, failures, done in completed:
            done(failures[0] if failures else None)

    def flush(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Send the waiting batches. ``done`` is called when every message has its receipt or has failed."""
        self.trigger_flush()
        if self._unfinished:
            self._flushes.append((set(self._unfinished), [], done))
        else:
            done(None)

    def trigger_flush(self) -> bool:
        """Send the waiting batches now. Return whether there were waiting batches."""
        flushed = [producer.trigger_flush() for producer in self.producers.values()]
        return any(flushed)

    def close(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Close the session and all producers. ``done`` is called with the first failure, or None."""
        if self.state in (State.CLOSING, State.CLOSED):
            done(None)
            return
        self.state = State.CLOSING
        self._session.close(lambda _: None)

        def closed(failure: ClientFailure | None) -> None:
            self.state = State.CLOSED
            self._fail(list(self._unfinished.values()), _CLOSED)
            done(failure)

        gather(list(self.producers.values()), Producer.close, closed)

    # -- segments --------------------------------------------------------------------------------------------------

    def _open(self, segment: Segment) -> None:
        def made(result: Producer | ClientFailure) -> None:
            waiting = self._opening.pop(segment.id, [])
            if isinstance(result, ClientFailure):
                self.producers.pop(segment.id, None)
                for sent in waiting:
                    self._finished(segment.id, sent, result)
                return
            self._backlog.extend(waiting)
            self._room()

        producer = SegmentProducer(self.engine, self.topic, segment, self._settings, made)
        producer.on_room, producer.on_possible_duplicate = self._room, self._doubt
        self.producers[segment.id] = producer
        producer.start()

    def _changed(self, layout: Layout) -> None:
        self._active = layout.active
        self._active_ids = {one.id for one in self._active}
        for number in [number for number in self.producers if number not in self._active_ids]:
            producer = self.producers.pop(number)
            if producer.state in (State.CONNECTING, State.READY):
                producer.seal()
        self._sealed &= self._active_ids
        created, self._created = self._created, None
        if created is not None:
            self.state = State.READY
            created(self)
        # With deduplication, the child of a merge drops a message with a lower sequence id than the one before.
        again, self._again = sorted(self._again, key=lambda sent: sent.number), []
        self._backlog.extendleft(reversed(again))
        self._room()

    def _failed(self, failure: ClientFailure) -> None:
        self.state = State.FAILED
        created, self._created = self._created, None
        if created is not None:
            created(failure)

    def _hold(self, sent: _Sent) -> None:
        self._again.append(sent)
        limit = self._settings.sendTimeoutMs
        if limit > 0 and self._expiry is None:
            self._expiry = self.engine.call_at(max(sent.since + limit, self.engine.now), self._expire)

    def _expire(self) -> None:
        self._expiry = None
        again, self._again = self._again, []
        limit = self._settings.sendTimeoutMs
        late = [sent for sent in again if sent.since + limit <= self.engine.now]
        self._fail(late, ClientFailure("TimeOut", f"no layout with an active segment for the key within {limit} ms"))
        for sent in again:
            if sent not in late:
                self._hold(sent)
        self._room()

    def _fail(self, sent: list[_Sent], failure: ClientFailure) -> None:
        for one in sent:
            self._finished(-1, one, failure)

    def _room(self) -> None:
        self._send_backlog()
        if not self._backlog and self.on_room is not None:
            self.on_room()

    def _doubt(self, doubt: DuplicateRisk, sequence_id: int) -> None:
        if self.on_possible_duplicate is not None:
            self.on_possible_duplicate(doubt, sequence_id)
