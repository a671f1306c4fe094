"""Tables as aligned text that fits the terminal, or as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pcli.cli.common.output import print_json, text_width, write_line

_LEAST_COLUMN: Final = 8
"""Minimum width of a text column that is narrowed."""

_NAMED_PLACES: Final = 3
"""Maximum number of rows that are listed for one reason. The others are counted."""

_DURATIONS: Final = frozenset({"min", "p50", "p90", "p99", "max"})


def print_rows(rows: list[dict[str, Any]], output: str, titles: dict[str, str]) -> None:
    """Print rows as ``json``, ``ndjson`` or ``text``. ``titles`` contains the columns to show, in order."""
    if output != "text":
        print_json(rows, output)
        return
    right = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in titles]
    cells = [[_cell(name, row.get(name)) for name in titles] for row in rows]
    write_table(list(titles.values()), cells, right)


def _cell(name: str, value: Any) -> str:
    from pcli.codec.observe.text_format import latency_text, printable

    if value is None:
        return "-"
    if name in _DURATIONS:
        return latency_text(round(value * 1e9))
    if name == "share":
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if isinstance(value, float) else printable(value)


def print_tree(titles: Sequence[str], rows: Iterable[str | Sequence[Any]]) -> None:
    """Print the lines of `tree_lines`."""
    for line in tree_lines(titles, rows, text_width()):
        write_line(line)


def tree_lines(titles: Sequence[str], rows: Iterable[str | Sequence[Any]], width: int | None) -> Iterator[str]:
    """Yield rows below their titles, as `table_lines` does.

    A row is a sequence of values, or a string that spans all columns.
    None is printed as ``?``, and an empty string as an empty cell. Columns without text are aligned to the right.
    """
    kept = list(rows)
    tables = [row for row in kept if not isinstance(row, str)]
    right = [not any(isinstance(row[column], str) and row[column] for row in tables) for column in range(len(titles))]
    cells = [_tree_cell(row) if isinstance(row, str) else [_tree_cell(value) for value in row] for row in kept]
    yield from table_lines(titles, cells, right, width)


def _tree_cell(value: Any) -> str:
    from pcli.codec.observe.text_format import printable

    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else printable(value)


def write_table(titles: Sequence[str], rows: Sequence[str | Sequence[str]], right: Sequence[bool]) -> None:
    """Write the lines of `table_lines`, at most as wide as the terminal."""
    for line in table_lines(titles, rows, right, text_width()):
        write_line(line)


def table_lines(
    titles: Sequence[str], rows: Sequence[str | Sequence[str]], right: Sequence[bool], width: int | None
) -> Iterator[str]:
    """Yield titles and rows of cells. ``right`` contains the columns that are aligned to the right.

    If a table is wider than ``width``, its text columns are narrowed, the widest first. Their cells continue on
    further lines; a word is broken only if it is longer than its column.
    """
    tables = [row for row in rows if not isinstance(row, str)]
    widths = [max(map(len, column)) for column in zip(titles, *tables)]
    _shrink(widths, right, width)
    for row in [titles, *rows]:
        if isinstance(row, str):
            yield row
            continue
        for line in _lines(row, widths):
            padded = (f"{cell:>{size}}" if far else f"{cell:<{size}}" for cell, size, far in zip(line, widths, right))
            yield "  ".join(padded).rstrip()


def _shrink(widths: list[int], right: Sequence[bool], available: int | None) -> None:
    """Narrow the widest text columns until the table fits. Numbers are never broken."""
    if available is None:
        return
    texts = [column for column, far in enumerate(right) if not far]
    while texts and sum(widths) + 2 * (len(widths) - 1) > available:
        widest = max(texts, key=lambda column: widths[column])
        if widths[widest] <= _LEAST_COLUMN:
            return
        widths[widest] -= 1


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[Sequence[str]]:
    """Yield the lines of a row. Its cells are wrapped to the widths of their columns."""
    if all(len(cell) <= width for cell, width in zip(row, widths)):
        yield row
        return
    cells = [_wrapped(cell, width) for cell, width in zip(row, widths)]
    for number in range(max(map(len, cells))):
        yield [cell[number] if number < len(cell) else "" for cell in cells]


def _wrapped(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    indent = " " * min(len(cell) - len(cell.lstrip()), width // 2)
    return textwrap.wrap(cell.lstrip(), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=True)


def print_reasons(found: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Print why figures are unknown, once per reason. ``found`` contains pairs of a place and its JSON object."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for place, figures in found:
        for name, reason in figures.get("unknown", {}).items():
            reasons.setdefault(reason, {}).setdefault(place, []).append(name)
    for reason, places in reasons.items():
        named = [f"{', '.join(names)} of {_tree_cell(place)}" for place, names in list(places.items())[:_NAMED_PLACES]]
        more = f"; {len(places) - _NAMED_PLACES} more" if len(places) > _NAMED_PLACES else ""
        write_line(f"? {'; '.join(named)}{more}: {reason}")
