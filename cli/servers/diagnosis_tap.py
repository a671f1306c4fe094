"""A diagnosis of connections while they are open: findings on stderr as they arise, and what stands at the end.

Rules of this file
1. It is a tap of a proxy: frames come in that one's thread, and looks at what is open in that of `watch`; a lock keeps
   them apart.
2. The clock is the tap's own, so a connection that is silent is looked at as well.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from pcli.cli.common.output import say
from pcli.cli.diagnosis.capture_diagnosis import repeat
from pcli.cli.diagnosis.finding_output import summary
from pcli.codec.capture import Stream, StreamEnd
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.observe.rules.finding_text import frames_text

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Address
    from pcli.codec.observe.rules import Finding

__all__ = ["DiagnosisTap"]


class DiagnosisTap:
    """Listens to a proxy and says what is wrong."""

    def __init__(self) -> None:
        self._diagnosis = Diagnosis()
        self._live = LiveFrames()
        self._streams: dict[int, tuple[Stream, bool]] = {}
        """Open connections, and whether a byte has passed."""
        self._lock = threading.Lock()

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """A client has come."""
        with self._lock:
            self._live.open(number, client, server)
            self._streams[number] = Stream(number, client, server, midstream=False), True

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Bytes crossed the socket."""
        with self._lock:
            stream, silent = self._streams[number]
            if silent:
                self._streams[number] = stream, False
            for facts in self._live.feed(number, data, time_ns, from_client=from_client):
                self._diagnosis.see(facts)

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """A connection has ended."""
        with self._lock:
            self._live.close(number)
            stream, silent = self._streams.pop(number)
            packet = self._live.count
            self._diagnosis.ended(StreamEnd(stream, packet, time_ns, from_client, reset, refused=False, silent=silent))

    def watch(self, stop: threading.Event) -> None:
        """Look at what is open every second until it is stopped."""
        threading.Thread(target=repeat, args=(self._look, stop), daemon=True).start()

    def finish(self) -> None:
        """Nothing more will come: tell what was not told, and the sum."""
        with self._lock:
            self._diagnosis.finish(time.time_ns())
            self._tell(self._diagnosis.untold())
            say(summary(self._diagnosis.findings(), self._diagnosis))

    def _look(self) -> None:
        with self._lock:
            self._tell(self._diagnosis.poll(time.time_ns()))

    def _tell(self, found: list[Finding]) -> None:
        for one in found:
            say(f"{one.severity}: {one.rule}: {one.what} [{frames_text(one.frames) or 'no frames'}]")
