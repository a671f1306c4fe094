"""The record of one run of a plan: frames and ends of connections, and REST calls with their responses."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from pcli.codec.capture.frames import START, CapturedFrame, Stream
from pcli.codec.observe import Observer
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.reader import FrameReader
from pcli.replay.player.script.script import CapturedConnection, Script, Step

_UPDATE = BY_NAME["SCALABLE_TOPIC_UPDATE"].number
"""Brokers send the layout of a scalable topic a varying number of times, so it does not count."""


@dataclass(frozen=True)
class Event:
    """A frame, or the end of a connection."""

    step: int
    """The number of the plan's step during which the event was recorded."""
    stream: int
    from_client: bool
    frame: CapturedFrame | None
    time_ns: int


@dataclass(frozen=True)
class RestExchange:
    """A REST call and its response."""

    step: int
    method: str
    path: str
    """The path with a placeholder for the names of the run."""
    body: Any
    status: int
    response: Any
    """The parsed JSON, or the text if it is not JSON."""


@dataclass
class Recording:
    """Everything that one run sent and received."""

    token: str = ""
    """The part of all names that differs between runs."""
    broker: str = ""
    events: list[Event] = field(default_factory=list)
    exchanges: list[RestExchange] = field(default_factory=list)
    step: int = 0
    wait: int = 0
    """The number of waits for the end of the broker's output so far."""
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of events that the broker caused, by wait and connection."""
    _streams: dict[int, Stream] = field(default_factory=dict)
    _readers: dict[int, FrameReader] = field(default_factory=lambda: defaultdict(FrameReader))

    def sent(self, stream: int, data: bytes) -> None:
        """Record bytes of complete frames that the client sent."""
        for frame in self._readers[stream].feed(data):
            self._add(stream, frame.data, frame.type, from_client=True)

    def received(self, stream: int, data: bytes, kind: int) -> None:
        """Record a frame of the broker."""
        self._add(stream, data, kind, from_client=False)

    def ended(self, stream: int, *, from_client: bool) -> None:
        """Record the end of a connection."""
        self.counts[self.wait, stream] += not from_client
        self.events.append(Event(self.step, stream, from_client, None, time.time_ns()))

    def _add(self, number: int, data: bytes, kind: int, *, from_client: bool) -> None:
        stream = self._streams.setdefault(number, Stream(number, ("client", number), ("broker", 0), midstream=False))
        self.counts[self.wait, number] += not from_client and kind != _UPDATE
        count, now = len(self.events) + 1, time.time_ns()
        frame = CapturedFrame(data, kind, count, count, now, stream, from_client, 0, START)
        self.events.append(Event(self.step, number, from_client, frame, now))

    def script(self) -> tuple[Script, list[int]]:
        """Return the script of the replay comparison, and the number of the plan's step for each step of the script."""
        observer, script = Observer(), Script()
        for index, event in enumerate(self.events):
            time_ms = event.time_ns / 1e6
            if event.frame is None:
                step = Step(index, event.stream, time_ms, event.from_client, None)
            else:
                facts = observer.see(event.frame)
                step = Step(index, event.stream, time_ms, event.from_client, event.frame, facts.peer, facts.request)
                stream = event.frame.stream
                script.connections.setdefault(
                    stream.number, CapturedConnection(stream.number, stream.client, stream.server)
                )
            script.steps.append(step)
        return script, [event.step for event in self.events]


def read_json(text: bytes) -> Any:
    """Return parsed JSON, or the text if it is not JSON."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode(errors="replace")
