"""`pcli doctor`: what this machine has for pcli, and what it lacks."""

from __future__ import annotations

from typing import Annotated

import typer

from pcli.cli.options import Output, TextOrJson

__all__ = ["doctor"]


def doctor(
    parts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PART…]", help="spark, tables, report, capture, crypto, tui; all without one."),
    ] = None,
    output: Output = TextOrJson.text,
) -> None:
    """Look what is there, what is missing and how to get it: Java, Spark, tcpdump, rights, extras.

    Exit code 1: something is missing of the parts that were named. Without a name nothing counts as missing.

    pcli doctor

    pcli doctor spark && pcli spark-analyze captures/ -o out
    """
    from pcli.cli import doctor_run

    raise typer.Exit(doctor_run.run(parts or [], output.value))
