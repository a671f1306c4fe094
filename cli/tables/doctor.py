"""`pcli doctor`: reports which requirements of pcli this machine meets or lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pcli.cli.common.options import Output, argument
from pcli.cli.common.output import Exit, print_json, write_line
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.tables.doctor_checks import Check


def doctor(
    parts: Annotated[list[str] | None, argument("PART", "spark, tables, report, capture, crypto or tui. [all]")] = None,
    output: Output = "text",
) -> None:
    """Check Java, Spark, tcpdump, capture permissions and extras, and print how to install what is missing.

    Exit code: 1 if a requirement of a given PART is missing; 0 if no PART is given.

    pcli doctor

    pcli doctor spark && pcli spark-analyze captures/ -o out
    """
    raise typer.Exit(_check(parts or [], output))


def _check(parts: Sequence[str], output: str) -> Exit:
    """Check the given parts, or all parts. Print the results and return the exit code.

    Raises LocalError for an unknown part.
    """
    from dataclasses import asdict

    from pcli.cli.tables.doctor_checks import PARTS
    from pcli.codec.observe.fields.field_table import nearest

    for part in parts:
        if part not in PARTS:
            raise LocalError(f"doctor {part}: unknown part{nearest(part, list(PARTS)) or ': ' + ', '.join(PARTS)}")
    checks = [check for part in parts or PARTS for check in PARTS[part](part)]
    if output != "text":
        print_json([asdict(check) for check in checks], output)
    else:
        _show(checks)
    return Exit.NO if parts and not all(check.good for check in checks) else Exit.FINE


def _show(checks: Sequence[Check]) -> None:
    width = max(len(check.name) for check in checks)
    last = ""
    for check in checks:
        if check.part != last:
            write_line(f"{check.part}:" if not last else f"\n{check.part}:")
        last = check.part
        write_line(f"  {'ok' if check.good else '--'}  {check.name:<{width}}  {check.found}")
        if not check.good:
            write_line(f"      {'':<{width}}  → {check.get}")
