"""The log of live connections: the lines of `dissect`, or only connections, producers, consumers and errors.

Rules of this file
1. The log is a tap of a broker or a proxy and runs in the thread of the server: a slow reader of stdout slows the
   server down.
2. When stdout is closed, ``on_closed`` is called and the log writes no more.
3. If only events are printed, most frames are skipped by their type and are not decoded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pcli.cli.common.capture_reading import CaptureReading
from pcli.cli.common.output import json_text
from pcli.cli.common.times import time_writer
from pcli.cli.frames.frame_lines import text_writer
from pcli.codec.observe import compile_filter, flatten
from pcli.codec.observe.live_frames import INFREQUENT, LiveFrames
from pcli.codec.observe.payload_contents import Contents
from pcli.codec.observe.text_format import printable
from pcli.codec.wire.commands import BY_NAME

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Address

_EVENTS: Final = frozenset(
    BY_NAME[name].number
    for name in (
        "CONNECT", "PRODUCER_SUCCESS", "SUBSCRIBE", "UNSUBSCRIBE", "CLOSE_PRODUCER", "CLOSE_CONSUMER", "SEND_ERROR",
        "ERROR", "ACTIVE_CONSUMER_CHANGE", "REACHED_END_OF_TOPIC",
    )
)  # fmt: skip
"""Commands that open and close producers and consumers, and errors."""

_ANY_SIZE: Final = 1 << 28
"""Maximum size of a frame in bytes. Larger frames are not Pulsar frames. The server has a separate limit."""


class LiveLog:
    """A tap that prints lines on stdout."""

    def __init__(self, *, events: bool, filter_: str, json: bool, on_closed: Callable[[], None]) -> None:
        """``on_closed`` is called when stdout is closed. Raises LocalError if the filter is invalid."""
        self.broken = False
        """Whether stdout is closed."""
        self._events = events
        self._match = compile_filter(filter_).match if filter_ else None
        self._json = json
        self._on_closed = on_closed
        self._live = LiveFrames(types=INFREQUENT if events else None, contents=Contents(), max_frame_size=_ANY_SIZE)
        self._reading = CaptureReading()
        self._line = text_writer(self._reading, "r", color=True)
        self._time = time_writer("r")
        self._clients: dict[int, str] = {}

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """Process a new connection."""
        self._reading.first_ns = self._reading.first_ns or time_ns
        self._live.open(number, client, server)
        self._clients[number] = f"[{client[0]}]:{client[1]}" if ":" in client[0] else f"{client[0]}:{client[1]}"
        self._event(number, time_ns, "connected")

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Process bytes from one side."""
        for facts in self._live.feed(number, data, time_ns, from_client=from_client):
            shown = not self._events or facts.frame.type in _EVENTS
            if shown and (self._match is None or self._match(facts)):
                text = json_text(flatten(facts)) if self._json else self._line(facts)
                self._write(text)
            self._reading.before_ns = time_ns

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """Process the end of a connection."""
        self._live.close(number)
        sender = "the client" if from_client else "the broker"
        why = f": {printable(reason)}" if reason and not from_client else ""
        self._event(number, time_ns, f"closed by {sender}{' with a reset' if reset else ''}{why}")
        self._clients.pop(number, None)

    def _event(self, number: int, time_ns: int, text: str) -> None:
        """Print a line about a connection, unless a filter selects frames."""
        if not self._events or self._match is not None:
            return
        client = self._clients.get(number, "?")
        if self._json:
            self._write(json_text({"event": text, "client": client, "tcp.stream": number, "time": time_ns / 1e9}))
        else:
            seconds = self._time(time_ns, self._reading.first_ns, 0)
            self._write(f"{'':<12} {seconds:>10}  {client} {text}")

    def _write(self, line: str) -> None:
        if self.broken:
            return
        try:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        except (OSError, ValueError):
            self.broken = True
            self._on_closed()
