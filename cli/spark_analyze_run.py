"""How `pcli spark-analyze` runs: a session of its own around what `pcli analyze` does.

Rules of this file
1. Java, Spark and the master are looked at before the first capture is.
2. An error is one line, as everywhere; with --debug the traces of Java and Python that are behind it come before.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pcli.cli.analyze_run import exit_code, show_summary, shown_progress
from pcli.cli.output import Exit
from pcli.cli.report_run import check_report, write_report
from pcli.codec.errors import PcliError

if TYPE_CHECKING:
    from pcli.spark.request import Request

__all__ = ["run", "traces"]


def run(request: Request, master: str, conf: Sequence[str], report: str, *, debug: bool) -> Exit:
    """Analyze with Spark and print what came out; the exit code."""
    from pcli.spark.analysis import analyze
    from pcli.spark.jobs.engine import SparkEngine
    from pcli.spark.jobs.session import open_context, parsed_conf

    if report:
        check_report("--report", report)
    with open_context(master, parsed_conf(conf), debug=debug) as spark, shown_progress() as on_progress:
        summary = analyze(request, SparkEngine(spark, on_progress))
    show_summary(summary)
    if report:
        write_report(request.out, report)
    return exit_code(summary)


@contextmanager
def traces(debug: bool) -> Iterator[None]:
    """With ``debug`` an error of ours prints where it comes from, and goes on."""
    try:
        yield
    except PcliError:
        if debug:
            traceback.print_exc(file=sys.stderr)
        raise
