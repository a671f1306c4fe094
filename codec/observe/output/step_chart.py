"""A number over time, drawn for a terminal with block characters.

Rules of this file
1. A column is a time interval. Its solid part extends to the lowest value and its faint part (``░``) to the highest, so
   that short peaks are visible at any width.
2. The zero line is always drawn, and negative values extend below it. Any value other than zero is visible.
3. Both sides of zero use the same scale. A line above zero has eight steps. A line below zero has only three steps,
   because no other block characters exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

HEIGHT: Final = 8
"""Number of lines for values; one line is added if a few values are on the other side of zero."""

_UP: Final = "▁▂▃▄▅▆▇█"
_FAINT: Final = "░"

_Point = tuple[int, int]
"""A time in ns, and the value from this time until the next point."""

_Span = tuple[int, int]
"""The lowest and highest values in a column."""


def step_chart(points: Sequence[_Point], end_ns: int, *, zero_ns: int, width: int) -> list[str]:
    """Return the lines of a chart. Each value lasts until the next point; the last value lasts until ``end_ns``.

    ``zero_ns`` is the origin of the time axis, and ``width`` is the total number of columns. If there are no points,
    the result is empty.
    """
    if not points:
        return []
    values = [value for _, value in points]
    top, bottom = max(0, *values), min(0, *values)
    span = max(1, top - bottom)
    unit = span / HEIGHT
    indent = max(len(str(top)), len(str(bottom)))
    chart_width = max(10, width - indent - 2)
    end_ns = max(end_ns, points[-1][0])
    columns = _columns(points, end_ns, chart_width)
    above, below = -(-top * HEIGHT // span), -(bottom * HEIGHT // span)
    lines = [_line(top if row == above else "", indent, (_over(one, row, unit) for one in columns))
             for row in range(above, 0, -1)]  # fmt: skip
    lines.append(f"{0:>{indent}} ┼{'─' * chart_width}")
    lines += [_line(bottom if row == below else "", indent, (_under(one, row, unit) for one in columns))
              for row in range(1, below + 1)]  # fmt: skip
    return [*lines, " " * (indent + 2) + _axis(points[0][0] - zero_ns, end_ns - zero_ns, chart_width)]


def _columns(points: Sequence[_Point], end_ns: int, chart_width: int) -> list[_Span]:
    begin = points[0][0]
    whole = max(1, end_ns - begin)
    found: list[_Span] = []
    value, at = points[0][1], 0
    for column in range(chart_width):
        low = high = value
        while at < len(points) and (
            column == chart_width - 1 or (points[at][0] - begin) * chart_width < (column + 1) * whole
        ):
            value = points[at][1]
            low, high = min(low, value), max(high, value)
            at += 1
        found.append((low, high))
    return found


def _line(label: object, indent: int, cells: Iterable[str]) -> str:
    return f"{label:>{indent}} │{''.join(cells)}".rstrip()


def _over(span: _Span, row: int, unit: float) -> str:
    """Return a cell of the given line above zero, counted from 1."""
    solid = span[0] / unit - row + 1
    if solid > 0:
        return _UP[min(7, max(0, round(solid * 8) - 1))]
    return _FAINT if span[1] / unit > row - 1 else " "


def _under(span: _Span, row: int, unit: float) -> str:
    """Return a cell of the given line below zero, counted from 1."""
    depth = -span[0] / unit - row + 1
    if depth <= 0:
        return " "
    return "▔" if depth < 0.25 else "▀" if depth < 0.75 else "█"


def _axis(first_ns: int, last_ns: int, chart_width: int) -> str:
    """Return the axis labels: the seconds at both ends and in the middle, with as many decimals as required."""
    digits = 3 if last_ns - first_ns < 10_000_000_000 else 1
    left, middle, right = (f"{ns / 1e9:.{digits}f} s" for ns in (first_ns, (first_ns + last_ns) // 2, last_ns))
    space = chart_width - len(left) - len(right)
    return f"{left}{middle:^{space}}{right}" if space > len(middle) + 1 else f"{left}{right:>{chart_width - len(left)}}"
