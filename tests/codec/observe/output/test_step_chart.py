"""A number over time as a chart of block characters."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.observe.output.step_chart import HEIGHT, step_chart

SECOND = 1_000_000_000

VALUES = st.lists(st.tuples(st.integers(0, 10**10), st.integers(-2000, 2000)), min_size=1, max_size=40)


def drawn(*points: tuple[float, int], end: float, width: int = 35, zero: float = 0) -> list[str]:
    steps = [(round(at * SECOND), value) for at, value in points]
    return step_chart(steps, round(end * SECOND), zero_ns=round(zero * SECOND), width=width)


def test_a_value_that_falls_to_half_and_returns() -> None:
    assert drawn((0, 8), (1, 4), (2, 8), end=4) == [
        "8 │████████░       ░███████████████",
        "  │████████░       ░███████████████",
        "  │████████░       ░███████████████",
        "  │████████░       ░███████████████",
        "  │████████████████████████████████",
        "  │████████████████████████████████",
        "  │████████████████████████████████",
        "  │████████████████████████████████",
        "0 ┼────────────────────────────────",
        "   0.000 s     2.000 s      4.000 s",
    ]  # fmt: skip


def test_a_small_negative_value_is_below_the_zero_line() -> None:
    *_, zero, below, _ = drawn((0, 0), (1, 1000), (2, -1), end=4)
    assert zero == "   0 ┼─────────────────────────────"
    assert below == "  -1 │" + " " * 14 + "▔" * 15


def test_a_short_peak_is_faint_with_its_full_height() -> None:
    lines = drawn((0, 0), (1, 1000), (1.000001, 0), end=4)
    assert lines[0] == "1000 │       ░"
    assert [line.count("░") for line in lines] == [1] * HEIGHT + [0, 0]


def test_only_negative_values() -> None:
    zero, first, *_, last, axis = drawn((5, -5), (6, -10), end=25, zero=3, width=40)
    assert zero.startswith("  0 ┼──")
    assert first == "    │" + "█" * 35
    assert last == "-10 │ " + "█" * 34
    assert axis.split() == ["2.0", "s", "12.0", "s", "22.0", "s"]


def test_no_points_and_only_zeros() -> None:
    assert drawn(end=1) == []
    zero, _ = drawn((0, 0), end=1)
    assert zero == "0 ┼" + "─" * 32


@given(VALUES, st.integers(30, 200))
def test_every_chart_has_its_size_extremes_and_zero_line(points: list[tuple[int, int]], width: int) -> None:
    points.sort(key=lambda point: point[0])
    lines = step_chart(points, 10**10, zero_ns=0, width=width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= HEIGHT + 3
    labelled = [found for line in lines if (found := re.match(r" *(-?\d+) [│┼](.*)", line))]
    values = [value for _, value in points]
    wanted = sorted({max(0, *values), 0, min(0, *values)}, reverse=True)
    assert [int(found[1]) for found in labelled] == wanted
    for found in labelled:
        marks = "─" if found[1] == "0" else "▁▂▃▄▅▆▇█░" if int(found[1]) > 0 else "▔▀█"
        assert set(found[2]) & set(marks)
