"""A diagnosis of live connections: findings on stderr as they are found, a summary at the end, and metrics.

Rules of this file
1. The diagnosis is a tap of a proxy or a broker. Frames arrive in the thread of the server, and the rules are evaluated
   in a separate thread every second, in slices; a lock protects the diagnosis.
2. The evaluation uses the system clock, so that silent connections are also checked.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from pcli.cli.common.output import SEVERITY_COLORS, colored, say
from pcli.cli.common.sliced_work import in_slices
from pcli.cli.diagnosis.finding_output import summary
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.observe.rules.finding_text import frames_text

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Address
    from pcli.codec.observe.metrics.collector import MetricsCollector
    from pcli.codec.observe.rules import Finding


class DiagnosisTap:
    """A tap that evaluates the rules of diagnose."""

    def __init__(self, metrics: MetricsCollector | None, *, prints: bool) -> None:
        """``metrics`` receives the frames and the findings; ``prints`` is whether findings are printed."""
        self._metrics, self._prints = metrics, prints
        self._diagnosis = Diagnosis() if metrics is None else metrics.diagnosis
        self._see = self._diagnosis.see if metrics is None else metrics.see
        self._live = LiveFrames()
        self._lock = threading.Lock()

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """Process a new connection."""
        with self._lock:
            self._live.open(number, client, server)

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Process bytes from one side."""
        with self._lock:
            for facts in self._live.feed(number, data, time_ns, from_client=from_client):
                self._see(facts)

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """Process the end of a connection."""
        with self._lock:
            self._diagnosis.ended(self._live.end(number, time_ns, from_client=from_client, reset=reset))

    def evaluate(self) -> None:
        """Evaluate the rules, print new findings and update the metrics. After an error, no old metrics are served."""
        now_ns = time.time_ns()
        try:
            new = in_slices(self._diagnosis.poll_steps(now_ns), self._lock)
            if self._metrics is not None:
                in_slices(self._metrics.update(now_ns, new), self._lock)
        except Exception:
            if self._metrics is not None:
                self._metrics.fail()
            raise
        self._print(new)

    def finish(self) -> None:
        """Print the remaining findings and the summary."""
        with self._lock:
            self._diagnosis.finish(time.time_ns())
            self._print(self._diagnosis.unreported())
            say(summary(self._diagnosis.findings(), self._diagnosis))

    def _print(self, found: list[Finding]) -> None:
        for one in found if self._prints else ():
            severity = f"{SEVERITY_COLORS[one.severity]}{one.severity}\x1b[0m" if colored(sys.stderr) else one.severity
            say(f"{severity}: {one.rule}: {one.what} [{frames_text(one.frames) or 'no frames'}]")
