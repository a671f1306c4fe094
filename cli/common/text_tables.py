"""Tables: for people aligned text, for programs JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pcli.cli.common.output import json_text, write_line

__all__ = ["print_reasons", "print_rows", "print_tree"]


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
    from pcli.codec.observe.text_format import latency_text, printable

    if value is None:
        return "-"
    if name in _DURATIONS:
        return latency_text(round(value * 1e9))
    if name == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if isinstance(value, float) else printable(value)


_PLACES: Final = 3
"""Places that are named for one reason; the others are counted."""


def print_tree(titles: Sequence[str], rows: Iterable[str | Sequence[Any]]) -> None:
    """Print rows below their titles: values by column, or a text alone that is no part of the columns.

    None is ``?``, an empty text nothing. Columns without words stand to the right.
    """
    kept = list(rows)
    tables = [row for row in kept if not isinstance(row, str)]
    right = [not any(isinstance(row[column], str) and row[column] for row in tables) for column in range(len(titles))]
    cells = {id(row): [_tree_cell(value) for value in row] for row in tables}
    widths = [max(map(len, column)) for column in zip(titles, *cells.values())]
    for row in [titles, *kept]:
        if isinstance(row, str):
            write_line(_tree_cell(row))
            continue
        line = zip(cells.get(id(row), row), widths, right)
        write_line("  ".join(f"{cell:>{width}}" if far else f"{cell:<{width}}" for cell, width, far in line).rstrip())


def _tree_cell(value: Any) -> str:
    from pcli.codec.observe.text_format import printable

    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else printable(value)


def print_reasons(found: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Print why figures are not known, each reason once; ``found``: a place, and its object with "unknown"."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for place, figures in found:
        for name, reason in figures.get("unknown", {}).items():
            reasons.setdefault(reason, {}).setdefault(place, []).append(name)
    for reason, places in reasons.items():
        told = [f"{', '.join(names)} of {_tree_cell(place)}" for place, names in list(places.items())[:_PLACES]]
        more = f"; {len(places) - _PLACES} more" if len(places) > _PLACES else ""
        write_line(f"? {'; '.join(told)}{more}: {reason}")
