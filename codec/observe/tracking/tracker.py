"""Everything that is kept of a recording, one frame after the other.

Rules of this file
1. `see` is given every frame once, in order, after the Observer; `note` and `ended` what the capture says between
   them; `finish` says that no more will come.
2. The second leg of a conversation through a Pulsar proxy is the same conversation: it is a connection of its own, and
   nothing else is counted twice.
3. A record is given out (``on_done``) when it is forgotten to bound the memory, and is then no longer kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from pcli.codec.capture.frames import CapturedFrame, Note, StreamEnd
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
from pcli.codec.observe.tracking.connections.hosts import Hosts
from pcli.codec.observe.tracking.producers.producer_tracker import ProducerTracker
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker

__all__ = ["RecordingSink", "Tracker", "take_in"]

Done = Callable[[str, Any], None]
"""Takes a group's name and a record of it."""


class Tracker:
    """What is known of topics, subscriptions, consumers, producers, connections, messages and the capture."""

    def __init__(
        self,
        *,
        on_lifecycle: Callable[[Lifecycle], None] | None = None,
        on_done: Done | None = None,
        hosts: Hosts | None = None,
        servers: Iterable[tuple[str, int]] = (),
    ) -> None:
        """Create a tracker of a whole capture, or of a part of one.

        ``on_lifecycle`` receives each lifecycle when it is complete or evicted; `finish` passes the remaining ones.
        ``on_done`` receives other evicted records. For a part of a capture: ``hosts`` replaces the tracker's own
        `Hosts` and is shared with other parts; ``servers`` are addresses known to speak Pulsar.
        """
        self.capture = CaptureRecord()
        self.connections = ConnectionTracker(
            self.capture, on_end=self._end_connection, on_done=on_done, hosts=hosts, servers=servers
        )
        self.subscriptions = SubscriptionTracker(self.capture, on_lifecycle=on_lifecycle, on_done=on_done)
        self.producers = ProducerTracker(self.subscriptions, on_done=on_done)

    def see(self, facts: Facts) -> None:
        """Take in a frame."""
        if self.connections.see(facts):
            self.producers.see(facts)
            self.subscriptions.see(facts)
        if self.connections.changed_streams:
            self._propagate_doubts()

    def note(self, note: Note) -> None:
        """Take in what the capture says: holes, damage, streams of other kinds."""
        stream = self.connections.note(note)
        if stream >= 0:
            self.connections.changed_streams.add(stream)
            self._propagate_doubts()

    def note_broker_frame(self, stream: int, time_ns: int, frame: int) -> None:
        """The broker has sent a frame, of which only this is known."""
        self.producers.note_broker_frame(stream, time_ns, frame)

    def ended(self, end: StreamEnd) -> None:
        """A TCP connection has ended."""
        self.connections.ended(end)

    def _propagate_doubts(self) -> None:
        """Tell of the connections that something is to be said against since the last time."""
        while self.connections.changed_streams:
            stream = self.connections.changed_streams.pop()
            # What began before the capture on a connection that did is known by its own beginning.
            self._pass_doubts_on(stream, self.connections.doubts_of(stream) - {"start"})

    def _pass_doubts_on(self, stream: int, doubts: set[str]) -> None:
        self.producers.add_doubts(stream, doubts)
        self.subscriptions.add_doubts(stream, doubts)

    def _end_connection(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        self.producers.end(stream, end, time_ns, frame)
        self.subscriptions.end(stream, end, time_ns, frame)

    def finish(self) -> None:
        """The capture is over."""
        now = self.capture.last_ns
        self.connections.finish(now)
        self._propagate_doubts()
        self.producers.finish(now)
        self.subscriptions.finish(now)

    def records(self) -> Iterator[tuple[str, Any]]:
        """Every record that is kept, with the name of its group."""
        yield "capture", self.capture
        yield from self.connections.records()
        yield from self.producers.records()
        yield from self.subscriptions.records()


class RecordingSink(Protocol):
    """What is given a recording: a Tracker, a Diagnosis."""

    @property
    def see(self) -> Callable[[Facts], None]:
        """Takes a frame, after an Observer."""

    def note(self, note: Note) -> None:
        """Take what the capture says."""

    def ended(self, end: StreamEnd) -> None:
        """Take the end of a connection."""

    def finish(self) -> None:
        """No more will come."""


def take_in(recording: Iterable[CapturedFrame | Note | StreamEnd], taker: RecordingSink) -> None:
    """Give a taker a whole recording, as read_capture with ``ReadOptions(ends=True)`` gives it."""
    observe = Observer().see
    for item in recording:
        if isinstance(item, CapturedFrame):
            taker.see(observe(item))
        elif isinstance(item, StreamEnd):
            taker.ended(item)
        else:
            taker.note(item)
    taker.finish()
