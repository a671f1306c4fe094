"""Tables: for people aligned text, for programs JSON."""

from __future__ import annotations

from typing import Any

from pcli.cli.output import json_text, write_line

__all__ = ["print_rows"]


def print_rows(rows: list[dict[str, Any]], output: str, titles: dict[str, str]) -> None:
    """Print rows as ``json`` (a list of objects) or ``text``; ``titles`` names the columns to show, in order."""
    if output == "json":
        write_line(json_text(rows, indent=1))
        return
    numbers = {name: all(isinstance(row.get(name), int | float | None) for row in rows) for name in titles}
    cells = [[_text(name, row.get(name)) for name in titles] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles.values(), *cells)]
    for line in [list(titles.values()), *cells]:
        padded = (
            f"{cell:>{width}}" if right else f"{cell:<{width}}"
            for cell, width, right in zip(line, widths, numbers.values())
        )
        write_line("  ".join(padded).rstrip())


_DURATIONS = frozenset({"min", "p50", "p90", "p99", "max"})


def _text(name: str, value: Any) -> str:
    from pcli.codec.observe.lines import latency_text
    from pcli.codec.observe.printable import printable

    if value is None:
        return "-"
    if name in _DURATIONS:
        return latency_text(round(value * 1e9))
    if name == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if isinstance(value, float) else printable(value)
