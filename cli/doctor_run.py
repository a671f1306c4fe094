"""How `pcli doctor` shows what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pcli.cli.doctor_checks import PARTS, Check
from pcli.cli.output import Exit, json_text, write_line
from pcli.codec.errors import LocalError
from pcli.codec.observe.fields import nearest

__all__ = ["run"]


def run(parts: Sequence[str], output: str) -> Exit:
    """Check these parts, or all, and print; the exit code. LocalError: there is no such part."""
    for part in parts:
        if part not in PARTS:
            raise LocalError(f"doctor {part}: no such part{nearest(part, list(PARTS)) or ': ' + ', '.join(PARTS)}")
    checks = [check for part in parts or PARTS for check in PARTS[part](part)]
    if output == "json":
        write_line(json_text([asdict(check) for check in checks], indent=1))
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
