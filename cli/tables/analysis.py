"""The run of `pcli analyze`: progress on stderr, a summary on stdout, and an exit code.

Rules of this file
1. All packages that tables need are imported here. If one is missing, the error names the package to install.
2. The progress bar shows frames or bytes if the stage reports them, or else tasks, with the rate and the time left. It
   is shown only on a terminal.
3. If a file could not be read to its end, the exit code and the table `captures` report this, and all other files are
   processed. If --strict is set, no file is processed in this case.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import Exit, counted, say, write_line
from pcli.cli.common.text_tables import print_rows
from pcli.cli.tables.report import check_report, write_report
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.common.option_groups import ReadAs
    from pcli.cli.tables.table_options import AnalysisOptions
    from pcli.spark.engine import Engine
    from pcli.spark.engine import Progress as StageProgress
    from pcli.spark.request import Request
    from pcli.spark.summary import Summary

_LISTED_FILES: Final = 10
"""Maximum number of files with problems that are listed."""

_LARGE: Final = 10_000_000
"""Number of bytes above which the progress of a stage is shown in megabytes, not kilobytes."""

_STATUSES: Final = {
    "read": "read",
    "partly": "read in part",
    "unreadable": "unreadable",
    "late": "not read because of --horizon",
    "not a capture": "no captures",
}
"""Descriptions of files, by their `status` in the table `captures`."""


def need_tables() -> None:
    """Raise LocalError if a package that tables need is not installed."""
    try:
        import deltalake  # noqa: F401
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise LocalError("tables need deltalake, numpy and pyarrow: pip install 'pulsar-pcli[tables]'") from None


def request_from(paths: Sequence[str], out: str, options: AnalysisOptions, read_as: ReadAs) -> Request:
    """Return the request that the options of a command define. Raises LocalError if they contradict each other."""
    need_tables()
    from pcli.cli.common.times import epoch_ns
    from pcli.spark.request import Request

    since, until = options.since, options.until
    reading = read_as.options()
    request = Request(
        paths=tuple(paths),
        out=out,
        only=tuple(options.only or ()),
        frames=options.frames,
        cluster=options.cluster,
        incremental=options.incremental,
        since_ns=epoch_ns("--since", since) if since else None,
        until_ns=epoch_ns("--until", until) if until else None,
        strict=options.strict,
        keep_days=options.keep,
        horizon_s=options.horizon * 3600,
        decode_as=dict(reading.decode_as),
        key_log=reading.key_log,
    )
    if request.since_ns is not None and request.until_ns is not None and request.since_ns >= request.until_ns:
        raise LocalError(f"--since {since} is not before --until {until}: the range is empty")
    _ = request.tables  # raises LocalError for an unknown table before the work starts
    return request


def run(request: Request, report: str, opened: AbstractContextManager[Callable[[Any], Engine]]) -> Exit:
    """Analyze with the engine from ``opened(progress callback)``. Print a summary and return the exit code."""
    from pcli.spark.analysis import analyze

    if report:
        check_report("--report", report)
    with opened as make_engine, shown_progress() as on_progress:
        summary = analyze(request, make_engine(on_progress))
    show_summary(summary)
    if report:
        write_report(request.out, report)
    return exit_code(summary)


@contextmanager
def shown_progress() -> Iterator[Callable[[StageProgress], None] | None]:
    """Yield a progress callback that updates a bar on stderr, or None if stderr is not a terminal."""
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
        shown: list[Any] = ["", 0.0]

        def show(now: StageProgress) -> None:
            if now.what != shown[0]:
                shown[:] = [now.what, time.monotonic()]
            done, total, unit, name = _amounts(now)
            rate = done / unit / max(time.monotonic() - shown[1], 0.1)
            so_far = f"{done / unit:,.0f} of {total / unit:,.0f}{name}, {rate:,.0f}{name.rstrip('s')}/s"
            bar.update(task, description=now.what, completed=done, total=total or None, so_far=so_far)

        yield show


def _amounts(now: StageProgress) -> tuple[int, int, float, str]:
    """Return the done and the total amount of a stage, and the divisor and the name of the unit that is shown."""
    if now.rows_total:
        return now.rows_done, now.rows_total, 1, " frames" if now.what.startswith("observe") else " rows"
    if now.bytes_total:
        return now.bytes_done, now.bytes_total, *((1e6, " MB") if now.bytes_total >= _LARGE else (1e3, " kB"))
    return now.done, now.total, 1, " tasks"


def show_summary(summary: Summary) -> None:
    """Print the tables, the findings, and the files that could not be read."""
    rows = [{"table": one.name, "rows": one.rows, "bytes": one.bytes, "files": one.files} for one in summary.tables]
    print_rows(rows, "text", {"table": "table", "rows": "rows", "bytes": "bytes", "files": "files"})
    counts = ", ".join(
        f"{summary.captures[status]} {word}" for status, word in _STATUSES.items() if status in summary.captures
    )
    write_line(f"captures: {counts}; {summary.packets:,} packets, {summary.frames:,} frames")
    if summary.findings is not None:
        counts_text = ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for word, count in summary.findings.items())
        write_line(f"findings: {counts_text or 'none'}")
    if not summary.packets and "read" in summary.captures:
        say("no packet was read: the captures are empty, or all packets are outside the range of --since and --until")
    write_line(f"{summary.where}: run {summary.run}{'' if summary.changed else ', unchanged'}")
    if summary.late:
        say(f"{counted(summary.late, 'message')} older than --horizon with new frames: see evidence 'late' in messages")
    for path, status, error in summary.troubles[:_LISTED_FILES]:
        say(f"{path}: {status}: {error}")
    if len(summary.troubles) > _LISTED_FILES:
        say(f"{len(summary.troubles) - _LISTED_FILES} more such files: see the table captures")


def exit_code(summary: Summary) -> Exit:
    """Return 3 if a file was not read to its end, or else 0."""
    return Exit.DAMAGED if summary.troubles else Exit.FINE
