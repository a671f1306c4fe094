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
        on_life: Callable[[Lifecycle], None] | None = None,
        on_done: Done | None = None,
        hosts: Hosts | None = None,
        servers: Iterable[tuple[str, int]] = (),
    ) -> None:
        """Make one that has seen nothing.

        ``on_life`` is given every message when nothing more is expected of it, or there are too many; at `finish` the
        rest. ``on_done`` is given other records that are forgotten. Of a part of a recording only: ``hosts`` hears
        what happens to hosts, which other parts speak of, too; ``servers`` speak Pulsar somewhere in the recording.
        """
        self.capture = CaptureRecord()
        self.links = ConnectionTracker(self.capture, on_end=self._end, on_done=on_done, hosts=hosts, servers=servers)
        self.lives = SubscriptionTracker(self.capture, on_life=on_life, on_done=on_done)
        self.publishing = ProducerTracker(self.lives, on_done=on_done)

    def see(self, facts: Facts) -> None:
        """Take in a frame."""
        if self.links.see(facts):
            self.publishing.see(facts)
            self.lives.see(facts)
        if self.links.fresh_doubts:
            self._doubt()

    def note(self, note: Note) -> None:
        """Take in what the capture says: holes, damage, streams of other kinds."""
        stream = self.links.note(note)
        if stream >= 0:
            self.links.fresh_doubts.add(stream)
            self._doubt()

    def heard(self, stream: int, time_ns: int, frame: int) -> None:
        """The broker has sent a frame, of which only this is known."""
        self.publishing.heard(stream, time_ns, frame)

    def ended(self, end: StreamEnd) -> None:
        """A TCP connection has ended."""
        self.links.ended(end)

    def _doubt(self) -> None:
        """Tell of the connections that something is to be said against since the last time."""
        while self.links.fresh_doubts:
            stream = self.links.fresh_doubts.pop()
            # What began before the capture on a connection that did is known by its own beginning.
            self._doubted(stream, self.links.doubts_of(stream) - {"start"})

    def _doubted(self, stream: int, doubts: set[str]) -> None:
        self.publishing.doubt(stream, doubts)
        self.lives.doubt(stream, doubts)

    def _end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        self.publishing.end(stream, end, time_ns, frame)
        self.lives.end(stream, end, time_ns, frame)

    def finish(self) -> None:
        """The capture is over."""
        now = self.capture.last_ns
        self.links.finish(now)
        self._doubt()
        self.publishing.finish(now)
        self.lives.finish(now)

    def records(self) -> Iterator[tuple[str, Any]]:
        """Every record that is kept, with the name of its group."""
        yield "capture", self.capture
        yield from self.links.records()
        yield from self.publishing.records()
        yield from self.lives.records()


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
