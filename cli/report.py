"""`pcli report`: the tables of an analysis as one page of HTML."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["report"]


def report(
    tables: Annotated[str, typer.Argument(metavar="OUT", help="The folder (or URI) that an analysis has written.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout.")
    ] = "report.html",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="The heading of the page.")] = "Pulsar traffic",
) -> None:
    """Write a report of the tables that `analyze` or `spark-analyze` made: one HTML file that needs nothing else.

    Traffic over time, durations from SEND to receipt, delivery and acknowledgement, permits, what was left
    unacknowledged or came again, the slowest messages, findings, and what the captures do not have.

    pcli analyze captures/ -o out/ && pcli report out/ -o report.html
    """
    from pcli.cli.report_run import write_report

    write_report(tables, output, title)
