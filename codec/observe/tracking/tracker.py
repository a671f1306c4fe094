"""State of a capture, updated frame by frame.

Rules of this file
1. `see` receives every frame once, in order, after the Observer has processed it. `note` and `ended` receive the events
   between frames. `finish` marks the end of the capture.
2. A Pulsar proxy's connection to the broker repeats the client's connection. It has its own connection record; nothing
   else is counted twice.
3. A record that is evicted to limit memory use is passed to ``on_done``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
from pcli.codec.observe.tracking.connections.hosts import Hosts
from pcli.codec.observe.tracking.producers.producer_tracker import ProducerTracker
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.records.scalable_records import SegmentRecord
from pcli.codec.observe.tracking.scalable.scalable_topic_tracker import ScalableTopicTracker
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OnLatency
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.codec.steps import Steps
from pcli.codec.wire.commands import COMMANDS

Done = Callable[[str, Any], None]
"""A function that receives the name of a group and a record."""


class Tracker:
    """The tracked state of topics, subscriptions, consumers, producers, connections, messages and the capture."""

    def __init__(
        self,
        *,
        on_lifecycle: Callable[[Lifecycle], None] | None = None,
        on_done: Done | None = None,
        on_latency: OnLatency | None = None,
        hosts: Hosts | None = None,
        servers: Iterable[tuple[str, int]] = (),
    ) -> None:
        """Create a tracker of a whole capture, or of a part of a capture.

        ``on_lifecycle`` receives each lifecycle when it is complete or evicted; `finish` passes the remaining
        lifecycles. ``on_done`` receives other evicted records, and ``on_latency`` the duration of each step. For a part
        of a capture, ``hosts`` replaces the tracker's own `Hosts` and is shared with other parts, and ``servers``
        contains addresses of Pulsar servers.
        """
        self.capture = CaptureRecord()
        self.connections = ConnectionTracker(
            self.capture, on_end=self._end_connection, on_done=on_done, hosts=hosts, servers=servers
        )
        self.subscriptions = SubscriptionTracker(
            self.capture, on_lifecycle=on_lifecycle, on_done=on_done, on_latency=on_latency
        )
        self.producers = ProducerTracker(self.subscriptions, on_done=on_done)
        self.scalable_topics = ScalableTopicTracker()

    def see(self, facts: Facts) -> None:
        """Process a frame."""
        if self.connections.see(facts):
            self._see_topics(facts)
        if self.connections.changed_streams:
            self._propagate_doubts()

    def _see_topics(self, facts: Facts) -> None:
        self.producers.see(facts)
        self.subscriptions.see(facts)
        if facts.frame.type in _OF_SEGMENTS:
            self.scalable_topics.see(facts)
            self._link_segments(facts)

    def _link_segments(self, facts: Facts) -> None:
        """Link the records of topics with the segments that they are; classic topics are segments in some layouts."""
        peer = facts.peer
        segments: list[SegmentRecord] = []
        if peer is not None and peer.topic.startswith("segment://"):
            found = self.scalable_topics.segment(peer.topic)
            segments += [] if found is None else [found]
        elif facts.layout is not None and facts.layout.topic in self.scalable_topics.topics:
            known = self.scalable_topics.topics[facts.layout.topic].segments.values()
            segments += [one for one in known if one.segment is not None and one.segment.legacy_topic]
        for segment in segments:
            segment.topic_record = self.subscriptions.topic(segment.name)
            segment.topic_record.segment = segment

    def note(self, note: Note) -> None:
        """Process a note of the capture reader: a gap, damage, a stream that is not Pulsar."""
        stream = self.connections.note(note)
        if stream >= 0:
            self.connections.changed_streams.add(stream)
            self._propagate_doubts()
        if note.kind == "unread":
            self.doubt_all_records()

    def doubt_all_records(self) -> None:
        """Add the doubt that packets were not decoded to all records: such packets may belong to any connection."""
        self.connections.add_doubt("unread")
        for _, record in (*self.producers.records(), *self.subscriptions.records(), *self.scalable_topics.records()):
            record.doubts.add("unread")

    def note_broker_frame(self, stream: int, time_ns: int, frame: int) -> None:
        """Process a frame from the broker for which only these values are known."""
        self.producers.note_broker_frame(stream, time_ns, frame)

    def ended(self, end: StreamEnd) -> None:
        """Process the end of a TCP connection."""
        self.connections.ended(end)

    def _propagate_doubts(self) -> None:
        """Propagate new doubts of connections."""
        while self.connections.changed_streams:
            stream = self.connections.changed_streams.pop()
            # Producers and consumers that began before the capture have their own doubt "start".
            self._propagate(stream, self.connections.doubts_of(stream) - {"start"})

    def _propagate(self, stream: int, doubts: set[str]) -> None:
        self.producers.add_doubts(stream, doubts)
        self.subscriptions.add_doubts(stream, doubts)
        self.scalable_topics.add_doubts(stream, doubts)

    def _end_connection(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        self.producers.end(stream, end, time_ns, frame)
        self.subscriptions.end(stream, end, time_ns, frame)
        self.scalable_topics.end(stream, end, time_ns, frame)

    def forget_ended(self, before_ns: int, unattended_ns: int) -> Steps[None]:
        """Remove the producers, consumers, subscriptions and topics that ended before a time, for live traffic.

        Subscriptions without consumers are removed if their last consumer left before ``unattended_ns``.
        """
        yield from self.producers.forget_ended(before_ns)
        yield from self.subscriptions.forget_ended(before_ns, unattended_ns)

    def finish(self) -> None:
        """Process the end of the capture."""
        now = self.capture.last_ns
        self.connections.finish(now)
        self._propagate_doubts()
        self.producers.finish(now)
        self.subscriptions.finish(now)
        if self.capture.unread:
            self.doubt_all_records()

    def records(self, now_ns: int | None = None) -> Iterator[tuple[str, Any]]:
        """Yield every record with the name of its group.

        At a time before the end of the capture, records that frames alone do not complete are copies. Frames can be
        processed between two records.
        """
        yield "capture", self.capture
        yield from self.connections.records(now_ns)
        yield from self.producers.records(now_ns)
        yield from self.subscriptions.records(now_ns)
        yield from self.scalable_topics.records()


_OF_SEGMENTS: Final = frozenset(
    number
    for number, row in COMMANDS.items()
    if row.feature == "supports_scalable_topics"
    or row.name in ("PRODUCER", "SUBSCRIBE", "SUCCESS", "ERROR", "PARTITIONED_METADATA_RESPONSE")
)
"""The commands of scalable topics, and those that show a topic's name, end a hand-over or refuse a classic client."""


class EventSink(Protocol):
    """Receiver of the events of a capture, such as a Tracker or a Diagnosis."""

    @property
    def see(self) -> Callable[[Facts], None]:
        """Process a frame, after an Observer."""

    def note(self, note: Note) -> None:
        """Process a note of the capture reader."""

    def ended(self, end: StreamEnd) -> None:
        """Process the end of a connection."""

    def finish(self) -> None:
        """Process the end of the capture."""


def process_events(events: Iterable[CapturedFrame | Note | StreamEnd], sink: EventSink) -> None:
    """Pass all events of a capture to a receiver, as read by read_capture with ``ReadOptions(ends=True)``."""
    observe = Observer().see
    for item in events:
        if isinstance(item, CapturedFrame):
            sink.see(observe(item))
        elif isinstance(item, StreamEnd):
            sink.ended(item)
        else:
            sink.note(item)
    sink.finish()
