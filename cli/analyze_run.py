"""How `pcli analyze` runs: progress on stderr, the sum of it on stdout, an exit code.

Rules of this file
1. Whatever makes tables is imported here, behind a word on what to install when it is not there.
2. The bar shows bytes where a stage knows them, else tasks. Nothing is shown where nobody looks.
3. A file that could not be read, or not to its end, is told by the exit code and in the table `captures`; the rest is
   done. With --strict nothing is done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.output import Exit, say, write_line
from pcli.cli.report_run import check_report, write_report
from pcli.cli.tables import print_rows
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.spark.engine import Progress
    from pcli.spark.request import Request
    from pcli.spark.summary import Summary

__all__ = ["exit_code", "need_tables", "request_of", "run", "show_summary", "shown_progress"]

_TOLD_FILES: Final = 10
"""Files with trouble that are told one by one."""

_LARGE: Final = 10_000_000
"""Bytes of a stage from which on megabytes say enough."""

_STATUSES: Final = {
    "read": "read",
    "partly": "read in part",
    "unreadable": "unreadable",
    "not a capture": "no captures",
}
"""What is said of files, by the `status` that they have in the table `captures`."""


def need_tables() -> None:
    """LocalError when what makes tables is not installed."""
    try:
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise LocalError("tables need numpy and pyarrow: pip install 'pulsar-pcli[tables]'") from None


def request_of(*, only: Sequence[str], since: str, until: str, paths: Sequence[str], **more: Any) -> Request:
    """What the options ask for; LocalError for what makes no sense."""
    need_tables()
    from pcli.cli.stats_reading import epoch_ns
    from pcli.spark.request import Request

    request = Request(
        paths=tuple(paths),
        only=tuple(only),
        since_ns=epoch_ns("--since", since) if since else None,
        until_ns=epoch_ns("--until", until) if until else None,
        **more,
    )
    if request.since_ns is not None and request.until_ns is not None and request.since_ns >= request.until_ns:
        raise LocalError(f"--since {since} is not before --until {until}: that leaves nothing")
    _ = request.tables  # a wrong name is told before the work
    return request


def run(request: Request, report: str) -> Exit:
    """Analyze and print what came out; the exit code."""
    import pyarrow as pa

    from pcli.spark.analysis import analyze
    from pcli.spark.engine import InProcess

    if report:
        check_report("--report", report)
    # Arrow's own pool gives pages back and asks for them again: a twelfth of the CPU time.
    pa.set_memory_pool(pa.system_memory_pool())
    with shown_progress() as on_progress:
        summary = analyze(request, InProcess(on_progress))
    show_summary(summary)
    if report:
        write_report(request.out, report)
    return exit_code(summary)


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None] | None]:
    """What an engine tells of its progress goes to a bar on stderr; None where nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[so_far]}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("plan", total=None, so_far="")

        def show(now: Any) -> None:
            done, total = (now.bytes_done, now.bytes_total) if now.bytes_total else (now.done, now.total)
            unit, name = (1e6, " MB") if now.bytes_total >= _LARGE else (1e3, " kB") if now.bytes_total else (1, "")
            so_far = f"{done / unit:,.0f} of {total / unit:,.0f}{name}"
            bar.update(task, description=now.what, completed=done, total=total or None, so_far=so_far)

        yield show


def show_summary(summary: Summary) -> None:
    """Print what the tables hold, what was found, and what could not be read."""
    rows = [{"table": one.name, "rows": one.rows, "bytes": one.bytes, "files": one.files} for one in summary.tables]
    print_rows(rows, "text", {"table": "table", "rows": "rows", "bytes": "bytes", "files": "files"})
    counts = ", ".join(
        f"{summary.captures[status]} {word}" for status, word in _STATUSES.items() if status in summary.captures
    )
    write_line(f"captures: {counts}; {summary.packets:,} packets, {summary.frames:,} frames")
    if summary.findings is not None:
        told = ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for word, count in summary.findings.items())
        write_line(f"findings: {told or 'none'}")
    if not summary.packets and "read" in summary.captures:
        say("no packet was taken: the captures are empty, or all of them lies outside of --since and --until")
    write_line(f"{summary.where}: generation {summary.generation}{'' if summary.changed else ', as it was'}")
    for path, status, error in summary.troubles[:_TOLD_FILES]:
        say(f"{path}: {status}: {error}")
    if len(summary.troubles) > _TOLD_FILES:
        say(f"{len(summary.troubles) - _TOLD_FILES} more such files: see the table captures")


def exit_code(summary: Summary) -> Exit:
    """3 when something was not read to its end."""
    return Exit.DAMAGED if summary.troubles else Exit.FINE
