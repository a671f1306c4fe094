"""Two Trackers that share a Tracker's work: one tracks only connections, and the other tracks only topics.

Events of connections are recorded where a connection is observed completely (`LinkTracker`), and replayed where topics
are observed (`TopicTracker`), at the same positions among the frames. If a different part receives a frame from the
broker, a part of topics receives only its time (`BrokerFrameTime`).

Rules of this file
1. An event has the place and order of the frame, note or end that caused it. If a frame raises doubts about its
   connection, this event follows the frame; all other events precede the frame that caused them.
2. The events at the end of the recording are replayed when a TopicTracker finishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.spark.columnar.observation.host_history import HostLog
from pcli.spark.columnar.table_schema import LONG, TEXT, column, many

LAST: Final = 1 << 62
"""The place of events at the end of the recording."""

LINK_EVENTS: Final = pa.schema(
    [
        column("place", LONG, "number of the frame, or of the last frame before a note or an end; LAST at the end"),
        column("order", LONG, "0 for a frame; for notes and ends their order, from 1"),
        column("event", TEXT, "leg, doubt, end"),
        column("stream", LONG, "tcp.stream"),
        column("time_ns", LONG, "end: the time"),
        column("frame", LONG, "end: the last frame of the connection"),
        column("words", many(TEXT), "doubt: the missing evidence; end: how the connection ended"),
    ]
)
"""One row for each event of a connection that affects its producers and consumers."""

_Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BrokerFrameTime:
    """The time of a frame from the broker."""

    stream: int
    number: int
    time_ns: int


class LinkTracker(Tracker):
    """A Tracker for connections and hosts that records the events needed for topics."""

    def __init__(self, **options: Any) -> None:
        """Create a Tracker. The option ``hosts`` is a HostLog, which contains the position in the recording."""
        super().__init__(**options)
        self._log: HostLog = options["hosts"]
        self._over = False
        self._legs: set[int] = set()
        self._rows: list[_Event] = []

    def see(self, facts: Facts) -> None:
        """Process a frame."""
        stream = facts.frame.stream.number
        if not self.connections.see(facts) and stream not in self._legs:
            self._legs.add(stream)
            self._write("leg", stream)
        if self.connections.changed_streams:
            self._propagate_doubts()

    def _propagate(self, stream: int, doubts: set[str]) -> None:
        self._write("doubt", stream, words=sorted(doubts))

    def _end_connection(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        self._write("end", stream, time_ns=time_ns, frame=frame, words=[end])

    def finish(self) -> None:
        """Process the end of the capture."""
        self._over = True
        super().finish()

    def _write(self, event: str, stream: int, **reported: Any) -> None:
        place, order = (LAST, 0) if self._over else (self._log.place, self._log.order)
        blank = {"time_ns": 0, "frame": 0, "words": []}
        self._rows.append({"place": place, "order": order, "event": event, "stream": stream, **blank, **reported})

    def rows(self) -> pa.RecordBatch:
        """Return all events."""
        return pa.RecordBatch.from_pylist(self._rows, LINK_EVENTS)


def sorted_events(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return the events of all connections, sorted by place and order."""
    table = pa.Table.from_batches(batches, LINK_EVENTS)
    return table.take(pc.sort_indices(table, [("place", "ascending"), ("order", "ascending")]))


class TopicTracker(Tracker):
    """A Tracker for topics, producers and consumers that replays the events of connections."""

    def __init__(self, events: Iterable[_Event], **options: Any) -> None:
        """Create a Tracker; ``events`` contains rows of LINK_EVENTS of all connections in the part, in order."""
        super().__init__(**options)
        self._events = iter(events)
        self._next = next(self._events, None)
        self._legs: set[int] = set()

    def see(self, facts: Facts) -> None:
        """Process a frame."""
        frame = facts.frame
        self.play(frame.number)
        self.capture.last_ns, self.capture.frames = frame.time_ns, frame.number
        if frame.stream.number not in self._legs:
            self._see_topics(facts)

    def note_broker_frame(self, stream: int, time_ns: int, frame: int) -> None:
        """Process the time of a broker's frame that a different part receives."""
        self.play(frame)
        if stream not in self._legs:
            super().note_broker_frame(stream, time_ns, frame)

    def play(self, number: int) -> None:
        """Replay the events that precede a frame. Doubts caused by this frame follow it, so they are not replayed."""
        event = self._next
        while event is not None and (event["place"], event["order"], event["event"] == "doubt") < (number, 0, True):
            self._replay_event(event)
            event = self._next = next(self._events, None)

    def finish(self) -> None:
        """Process the end of the capture."""
        self.play(LAST + 1)
        self.producers.finish(self.capture.last_ns)
        self.subscriptions.finish(self.capture.last_ns)

    def records(self, now_ns: int | None = None) -> Iterator[tuple[str, Any]]:
        """Yield each record with the name of its group, except records of connections."""
        yield from self.producers.records(now_ns)
        yield from self.subscriptions.records(now_ns)
        yield from self.scalable_topics.records()

    def _replay_event(self, event: _Event) -> None:
        stream, words = event["stream"], event["words"]
        if event["event"] == "leg":
            self._legs.add(stream)
        elif event["event"] == "end":
            self._end_connection(stream, words[0], event["time_ns"], event["frame"])
        else:
            self._propagate(stream, set(words))
