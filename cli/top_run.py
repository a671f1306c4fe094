"""How `pcli top` runs: one page as text, or the live page where there is a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from pcli.cli.output import Exit, write_line
from pcli.cli.tables import print_rows
from pcli.cli.top_rows import COLUMNS, Snapshot, make_rows, ordered, record
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.reading import Reading

__all__ = ["Source", "choose", "parse_speed", "run"]


class Source(Protocol):
    """Where the figures come from."""

    @property
    def title(self) -> str:
        """What is looked at."""

    def poll(self) -> Snapshot:
        """The figures of now. PcliError, the first time only: there are none."""

    def close(self) -> Exit:
        """No more will be asked; the exit code."""


def parse_speed(text: str) -> float:
    """``--speed``: times as fast as it was; 0 for ``max``. LocalError for anything else."""
    if text == "max":
        return 0.0
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise LocalError(f"--speed {text}: write a number above 0, or max")
    return speed


def choose(reading: Reading, broker: Source | None, speed: float, *, once: bool) -> Source:
    """The one source that was given. LocalError: there is none, or more than one."""
    given = [bool(reading.files), bool(reading.interface), broker is not None]
    if sum(given) != 1:
        raise LocalError("top takes one of -r FILE, -i IFACE and --broker URL")
    if broker is not None:
        return broker
    if once and reading.interface:
        raise LocalError("--once goes with -r and --broker: a live interface has no end")
    from pcli.cli.top_capture import CaptureSource

    return CaptureSource(reading, 0.0 if once or reading.interface else speed, whole=once)


def run(source: Source, interval: float, *, once: bool) -> Exit:
    """Show it until somebody quits, or print it once; the exit code. LocalError: there is no terminal."""
    if once:
        _print(source.poll())
        return source.close()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LocalError("top needs a terminal; --once prints one page as text")
    try:
        from pcli.cli.top_page import TopPage
    except ModuleNotFoundError:
        raise LocalError("for the live page, install pulsar-pcli[tui]; --once needs nothing") from None
    first = source.poll()
    TopPage(source.poll, interval, source.title, first).run()
    return source.close()


def _print(snapshot: Snapshot) -> None:
    """The rows, and under them the findings."""
    from pcli.codec.observe.printable import printable

    rows = [record(row) for row in ordered(make_rows(snapshot, None), "n")]
    print_rows(rows, "text", {name: name for name in COLUMNS})
    for finding in snapshot.findings:
        write_line(f"{finding.severity}: {finding.rule}: {printable(finding.what)}")
    if snapshot.note:
        write_line(printable(snapshot.note))
