"""Connections without their topics, and topics without their connections: two Trackers that have half a Tracker each.

What happens to connections is written down where they are observed whole (`LinkTracker`), and played where topics are
(`TopicTracker`), at the same places among the frames. Of frames that are another part's only those are told of which it
matters when the broker was heard last (`Heard`).

Rules of this file
1. An event has the place of the frame, or of the aside behind it, at which it was seen. What a frame says against its
   connection (doubt) is told behind it, all else before.
2. The last events, of the end of the recording, are played when a TopicTracker has to finish.
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

__all__ = ["LAST", "LINK_EVENTS", "Heard", "LinkTracker", "TopicTracker", "sorted_events"]

LAST: Final = 1 << 62
"""The place of what the end of the recording tells."""

LINK_EVENTS: Final = pa.schema(
    [
        column("place", LONG, "number of the frame, or of the last one before an aside; at the end LAST"),
        column("order", LONG, "frame: 0; notes and ends: their place among each other, from 1 on"),
        column("event", TEXT, "leg, doubt, end"),
        column("stream", LONG, "tcp.stream"),
        column("time_ns", LONG, "end: when it was"),
        column("frame", LONG, "end: the last frame of the connection"),
        column("words", many(TEXT), "doubt: what is to be said against it; end: a word of tracking.links.ENDS"),
    ]
)
"""One row for each thing that happened to a connection and is something to its producers and consumers."""

_Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Heard:
    """A frame of the broker of which only that is known."""

    stream: int
    number: int
    time_ns: int


class LinkTracker(Tracker):
    """Keeps connections and hosts, and writes down what topics must be told of them."""

    def __init__(self, **options: Any) -> None:
        """As a Tracker; ``hosts`` is a HostLog, which knows where in the recording it is."""
        super().__init__(**options)
        self._log: HostLog = options["hosts"]
        self._over = False
        self._legs: set[int] = set()
        self._rows: list[_Event] = []

    def see(self, facts: Facts) -> None:
        """Take in a frame."""
        stream = facts.frame.stream.number
        if not self.connections.see(facts) and stream not in self._legs:
            self._legs.add(stream)
            self._write("leg", stream)
        if self.connections.changed_streams:
            self._propagate_doubts()

    def _pass_doubts_on(self, stream: int, doubts: set[str]) -> None:
        self._write("doubt", stream, words=sorted(doubts))

    def _end_connection(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        self._write("end", stream, time_ns=time_ns, frame=frame, words=[end])

    def finish(self) -> None:
        """The capture is over."""
        self._over = True
        super().finish()

    def _write(self, event: str, stream: int, **told: Any) -> None:
        place, order = (LAST, 0) if self._over else (self._log.place, self._log.order)
        blank = {"time_ns": 0, "frame": 0, "words": []}
        self._rows.append({"place": place, "order": order, "event": event, "stream": stream, **blank, **told})

    def rows(self) -> pa.RecordBatch:
        """All that was written down."""
        return pa.RecordBatch.from_pylist(self._rows, LINK_EVENTS)


def sorted_events(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The events of all connections, in their order."""
    table = pa.Table.from_batches(batches, LINK_EVENTS)
    return table.take(pc.sort_indices(table, [("place", "ascending"), ("order", "ascending")]))


class TopicTracker(Tracker):
    """Keeps topics and what belongs to them, and is told of connections."""

    def __init__(self, events: Iterable[_Event], **options: Any) -> None:
        """``events``: rows of LINK_EVENTS of all connections that it will see, in order."""
        super().__init__(**options)
        self._events = iter(events)
        self._next = next(self._events, None)
        self._legs: set[int] = set()

    def see(self, facts: Facts) -> None:
        """Take in a frame."""
        frame = facts.frame
        self.play(frame.number)
        self.capture.last_ns, self.capture.frames = frame.time_ns, frame.number
        if frame.stream.number not in self._legs:
            self.producers.see(facts)
            self.subscriptions.see(facts)

    def note_broker_frame(self, stream: int, time_ns: int, frame: int) -> None:
        """The broker has sent a frame, which another part has."""
        self.play(frame)
        if stream not in self._legs:
            super().note_broker_frame(stream, time_ns, frame)

    def play(self, number: int) -> None:
        """Be told what happened before a frame, or with it but for what it says against its connection."""
        event = self._next
        while event is not None and (event["place"], event["order"], event["event"] == "doubt") < (number, 0, True):
            self._happen(event)
            event = self._next = next(self._events, None)

    def finish(self) -> None:
        """The capture is over."""
        self.play(LAST + 1)
        self.producers.finish(self.capture.last_ns)
        self.subscriptions.finish(self.capture.last_ns)

    def records(self) -> Iterator[tuple[str, Any]]:
        """Every record that is kept, with the name of its group, but for those of connections."""
        yield from self.producers.records()
        yield from self.subscriptions.records()

    def _happen(self, event: _Event) -> None:
        stream, words = event["stream"], event["words"]
        if event["event"] == "leg":
            self._legs.add(stream)
        elif event["event"] == "end":
            self._end_connection(stream, words[0], event["time_ns"], event["frame"])
        else:
            self._pass_doubts_on(stream, set(words))
