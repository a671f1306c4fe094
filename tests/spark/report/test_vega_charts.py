"""Charts: their specifications contain no names, and their colours have enough contrast."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest

from pcli.spark.report.page_elements import Chart
from pcli.spark.report.report_data import INTERVALS, Clock
from pcli.spark.report.vega_charts import (
    COLORS,
    SEVERITY_COLORS,
    Bar,
    Mark,
    Series,
    bar_chart,
    live_spec,
    static_svg,
    time_chart,
)

CLOCK = Clock(1_795_000_000_000_000_000, 1_795_000_060_000_000_000)
EVIL = '</script><img src=x onerror=alert(1)>"\\" + x'
SVG = "{http://www.w3.org/2000/svg}"


def chart(*values: float | None, name: str = "a", unit: str = "unit", marks: tuple[Mark, ...] = ()) -> Chart:
    padded = [*values, *[values[-1]] * (INTERVALS - len(values))]
    found = time_chart("key", "Title", unit, [Series(name, padded)], CLOCK, marks)
    assert found is not None
    return found


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", [*COLORS, *SEVERITY_COLORS.values()])
def test_colours_have_a_contrast_of_3_to_1(color: str) -> None:
    """WCAG 2.1, success criterion 1.4.11, on the grounds of both modes."""
    grounds = re.findall(r"--ground: (#\w+)", files("pcli.spark.report").joinpath("page.css").read_text())
    assert {len(one) for one in grounds} == {4, 7}
    for ground in grounds:
        high, low = sorted((luminance(color), luminance(ground if len(ground) == 7 else f"#{ground[1:] * 2}")))[::-1]
        assert (high + 0.05) / (low + 0.05) >= 3, ground


def test_a_name_is_in_no_part_of_the_specification() -> None:
    """Vega-Lite inserts titles in expressions."""
    found = chart(1, 2, name=EVIL)
    assert "alert" not in json.dumps(found.spec)
    assert "alert" not in static_svg(found)
    assert found.names[0] == found.legend[0].name == EVIL


def test_the_text_of_a_finding_is_data_and_no_part_of_the_svg() -> None:
    found = chart(1, 2, marks=(Mark(CLOCK.first_ns, 0, "error", EVIL),))
    assert "alert" not in static_svg(found)
    bars = bar_chart("b", "t", [Bar("row", 1, 2, "error", EVIL)], SEVERITY_COLORS, CLOCK, "", caption="", alt="")
    assert "alert" not in static_svg(bars)
    assert bars.spec["data"]["values"][0]["text"] == EVIL


def test_a_chart_without_values_is_left_out() -> None:
    series = [Series("a", [0] * INTERVALS), Series("b", [None] * INTERVALS)]
    assert time_chart("key", "Title", "unit", series, CLOCK) is None


def test_an_axis_of_durations_is_logarithmic_only_if_all_values_are_positive() -> None:
    def scale(*values: float) -> str:
        return str(chart(*values, unit="ms").spec["layer"][0]["encoding"]["y"]["scale"].get("type"))

    assert scale(1, 1000) == "log"
    assert scale(1, 2) == scale(0, 1000) == "None"


@pytest.mark.parametrize(
    ("seconds", "label"),
    [(30, ["10 s", "11:06:50.000"]), (1200, ["200 s", "11:10:00"]), (200_000, ["50,000 s", "11-19 01:00:00"])],
)
def test_the_axis_shows_seconds_and_utc(seconds: int, label: list[str]) -> None:
    clock = Clock(CLOCK.first_ns, CLOCK.first_ns + seconds * 1_000_000_000)
    found = time_chart("key", "Title", "unit", [Series("a", [1] * INTERVALS)], clock)
    assert found is not None
    texts = [one.text for one in ET.fromstring(static_svg(found)).iter(f"{SVG}tspan")]
    assert texts[2:4] == label


def test_a_value_between_unknown_values_is_drawn_as_a_point() -> None:
    values: list[float | None] = [None] * INTERVALS
    values[5] = 3
    found = time_chart("key", "Title", "unit", [Series("a", values)], CLOCK)
    assert found is not None
    [points] = [layer for layer in found.spec["layer"] if layer["mark"]["type"] == "point"]
    assert points["data"]["values"] == [{"s": 2.5, "y": 3, "c": COLORS[0]}]


def test_the_table_of_a_chart_contains_its_values() -> None:
    table = chart(0, 4, 0).table
    assert table is not None
    assert table.head == ("seconds", "UTC", "a")
    assert [row[2] for row in table.rows] == ["4"]


def test_the_table_of_a_chart_of_ranges_contains_them() -> None:
    bars = [Bar("rule", 1, 2.5, "error", "text")]
    table = bar_chart("b", "t", bars, SEVERITY_COLORS, CLOCK, "", caption="", alt="").table
    assert table is not None
    assert table.rows == [("rule", "error", "1.000", "2.500", "11:06:41.000", "text")]


def test_all_charts_over_time_have_the_same_axis_and_can_be_zoomed() -> None:
    axes = [
        layer["encoding"]["x"]["scale"]["domain"]
        for one in (chart(1), chart(5, unit="ms"))
        for layer in live_spec(one)["layer"]
    ]
    assert set(map(tuple, axes)) == {(0, 60)}
