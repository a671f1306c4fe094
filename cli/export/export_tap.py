"""A tap of a proxy or a broker that exports the spans of the messages that pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.cli.export.capture_export import live_spans, report_headers
from pcli.codec.observe.live_frames import LiveFrames

if TYPE_CHECKING:
    from pcli.cli.common.otlp_options import OtlpOptions
    from pcli.cli.common.output import Exit
    from pcli.codec.capture.tap import Address


class ExportTap:
    """A tap whose frames become spans. Its methods are called in the thread of the server."""

    def __init__(self, otlp: OtlpOptions, filter_: str) -> None:
        """Open the backend. Raises LocalError if an option is wrong."""
        self._spans, self._messages = live_spans(otlp, filter_)
        self._live = LiveFrames()

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """Process a new connection."""
        self._live.open(number, client, server)

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Process bytes from one side."""
        with self._spans.lock:
            for facts in self._live.feed(number, data, time_ns, from_client=from_client):
                self._spans.see(facts)

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """Process the end of a connection."""
        with self._spans.lock:
            end = self._live.end(number, time_ns, from_client=from_client, reset=reset)
            self._spans.diagnosis.ended(end)

    def watch(self) -> None:
        """Export spans every second until `finish`."""
        self._spans.watch()

    def finish(self) -> Exit:
        """Export the rest, print the result, and return the exit code."""
        code = self._spans.finish()
        report_headers(self._messages)
        return code
