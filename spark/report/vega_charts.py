"""The charts, as Vega-Lite specifications: interactive in the page, and as static SVG for print and without scripts.

Rules of this file
1. Specifications contain no text from the wire, because titles become part of Vega's expressions. Series are named v0,
   v1, …; the page shows their names in a legend of its own, and in tooltips that it fills with plain text.
2. All charts over time have the same axis: seconds since the start of the report's range, and UTC.
3. A series has a colour with a contrast of at least 3:1 to the light and to the dark background, and a dash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import vl_convert

from pcli.codec.observe.rules.finding import SEVERITIES
from pcli.codec.observe.text_format import printable
from pcli.spark.report.number_format import figure
from pcli.spark.report.page_elements import Chart, Entry, TableText
from pcli.spark.report.report_data import Clock

_VERSION: Final = "6.4"
"""The version of Vega-Lite, as vl-convert names it."""

COLORS: Final = ("#2a78c2", "#c8590a", "#1f8f6b", "#a8559b", "#8f7a00", "#5f74d8", "#8a6d5c", "#7a7f87")
_DASHES: Final = ((), (6, 3), (2, 2))
MAX_SERIES: Final = 8
"""Maximum number of series in a chart."""

SEVERITY_COLORS: Final = {"error": "#d0392e", "warning": "#b0740c", "note": "#5c7fa8"}
_SYMBOLS: Final = {"error": "M12 2h12l-6 9z", "warning": "M18 0l6 6-6 6-6-6z", "note": "M18 1a5 5 0 1 0 .01 0z"}
"""The shapes as SVG paths, for legends."""
_SHAPES: Final = {"error": "triangle-down", "warning": "diamond", "note": "circle"}

_CLIP: Final = re.compile(r"(?<=\"|#)clip\d+")

_HEIGHT: Final = 190
_WIDTHS: Final = {False: 520, True: 800}
"""Width of the static SVG, by `Chart.wide`."""

_DURATION: Final = (
    "datum.value >= 1000 ? format(datum.value / 1000, ',~r') + ' s' : format(datum.value, ',.3~r') + ' ms'"
)
"""The label of a duration in ms."""

_FINE: Final = 60
"""Seconds of an axis below which labels contain milliseconds; on a longer axis, those between seconds contain them."""

_LOG: Final = 30
"""Ratio of the largest to the smallest positive value from which the axis of a chart of durations is logarithmic."""

_CONFIG: Final[dict[str, Any]] = {
    "background": None,
    "view": {"stroke": None},
    "font": "system-ui, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "gridOpacity": 0.35},
    "aria": False,
    "mark": {"aria": False},
}


@dataclass(frozen=True, slots=True)
class Series:
    """A line: a value for each interval of the clock, None where it is unknown."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding in a chart."""

    time_ns: int
    end_ns: int
    """0 if the problem continues or its end is unknown."""
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A range in a chart of rows; times in the unit of the axis."""

    row: str
    """One of a few fixed texts."""
    begin: float
    end: float
    kind: str
    text: str
    """The text of the tooltip."""


def time_chart(
    key: str,
    title: str,
    unit: str,
    series: Iterable[Series],
    clock: Clock,
    marks: Sequence[Mark] = (),
    caption: str = "",
    *,
    wide: bool = False,
) -> Chart | None:
    """Return a line chart over time, or None if no series has a value other than 0.

    ``unit`` is the title of the other axis. If it is ``ms``, the values are durations: the axis may be logarithmic.
    Other values are drawn as constant until the next value.
    """
    drawn = [one for one in series if any(one.values)][:MAX_SERIES]
    if not drawn:
        return None
    y = _y_axis(unit, [value for one in drawn for value in one.values if value is not None])
    lines = [_line(index, y, steps=unit != "ms") for index in range(len(drawn))]
    layers = [*lines, *_lone_points(drawn, clock, y), _hover(), *_marks_layers(marks, clock)]
    names = tuple(printable(one.name) for one in drawn)
    highest = "; ".join(f"{name} at most {figure(_most(one.values))}" for name, one in zip(names, drawn))
    spec = _frame(layers, _rows(drawn, clock), clock)
    alt, table = f"{title}, {unit} over time: {highest}.", _table(title, unit, names, drawn, clock)
    return Chart(key, title, caption, alt, spec, names, _legend(names, marks), table, wide)


def _y_axis(unit: str, values: Sequence[float]) -> dict[str, Any]:
    """Return the encoding of the values of a chart over time, without the field."""
    axis: dict[str, Any] = {"title": unit, "tickCount": 4, "format": "~s"}
    scale: dict[str, Any] = {"zero": True, "nice": True}
    if unit == "ms":
        axis |= {"title": None, "labelExpr": _DURATION, "labelOverlap": "greedy", "labelSeparation": 12}
        if min(values) > 0 and max(values) > _LOG * min(values):
            scale = {"type": "log"}
    return {"type": "quantitative", "scale": scale, "axis": axis}


def _legend(names: Sequence[str], marks: Sequence[Mark]) -> tuple[Entry, ...]:
    lines = (
        Entry(name, COLORS[index % len(COLORS)], ",".join(map(str, _DASHES[index // 3 % 3])))
        for index, name in enumerate(names)
    )
    used = {mark.severity for mark in marks}
    shapes = (
        Entry(f"{one} (finding)", SEVERITY_COLORS[one], "", _SYMBOLS[one]) for one in SEVERITIES if one in used
    )  # fmt: skip
    return (*lines, *shapes)


def bar_chart(
    key: str,
    title: str,
    bars: Sequence[Bar],
    kinds: dict[str, str],
    clock: Clock | None,
    unit: str,
    *,
    caption: str,
    alt: str,
) -> Chart:
    """Return a chart of ranges in rows. ``kinds`` are the colours by kind. Without a clock, ``unit`` is the axis."""
    longest = clock.seconds if clock is not None else max(bar.end for bar in bars)
    rows = list(dict.fromkeys(bar.row for bar in bars))
    names = {"title": None, "labelLimit": 260, "minExtent": 10 + 7 * max(map(len, rows))}
    colors = {"domain": list(kinds), "range": list(kinds.values())}
    layer = {
        "mark": {"type": "bar", "tooltip": {"content": "data"}, "height": {"band": 0.7}, "cornerRadius": 2},
        "encoding": {
            "y": {"field": "row", "type": "nominal", "sort": None, "axis": names},
            "x": _x_axis(clock, longest, unit), "x2": {"field": "e"},
            "color": {"field": "kind", "type": "nominal", "legend": None, "scale": colors},
        },
        "params": [_zoom()],
    }  # fmt: skip
    spec = {"height": max(2, len(rows)) * 24, "layer": [layer], "data": {"values": _bar_rows(bars, longest)}}
    used = {bar.kind for bar in bars}
    legend = tuple(Entry(kind, color, "") for kind, color in kinds.items() if kind in used)
    table = _bar_table(title, bars, clock, unit)
    return Chart(key, title, caption, alt, spec, (), legend, table, wide=True, timed=clock is not None)


def _bar_rows(bars: Sequence[Bar], longest: float) -> list[dict[str, Any]]:
    """Return the data of a chart of ranges. A short range is extended until it is visible."""
    least = longest / 250
    return [
        {
            "row": bar.row, "s": _short(bar.begin), "e": _short(min(max(bar.end, bar.begin + least), longest)),
            "kind": bar.kind, "text": printable(bar.text),
        }
        for bar in bars
    ]  # fmt: skip


def static_svg(chart: Chart) -> str:
    """Return a chart as an SVG element without interaction."""
    spec = chart.spec | {"width": _WIDTHS[chart.wide], "config": _CONFIG}
    spec["layer"] = [_still(layer) for layer in chart.spec["layer"] if layer.get("name") != "hover"]
    return _own_ids(vl_convert.vegalite_to_svg(spec, vl_version=_VERSION), chart.key)


def live_spec(chart: Chart) -> dict[str, Any]:
    """Return the specification of the interactive chart, which is as wide as its place in the page."""
    return chart.spec | {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}, "config": _CONFIG}


def scripts() -> str:
    """Return the scripts of Vega, Vega-Lite and Vega-Embed, which define the global function vegaEmbed."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_VERSION)


def _own_ids(svg: str, key: str) -> str:
    """Return an SVG with ids of its own. Vega numbers the clip paths of all charts of a process."""
    ids = {one: f"{key}-clip-{index}" for index, one in enumerate(dict.fromkeys(_CLIP.findall(svg)))}
    return _CLIP.sub(lambda found: ids[found[0]], svg)


def _frame(layers: list[dict[str, Any]], rows: list[dict[str, Any]], clock: Clock) -> dict[str, Any]:
    for layer in layers:
        layer["encoding"]["x"] = layer["encoding"].get("x") or _x_axis(clock, clock.seconds, "")
    layers[0]["params"] = [_zoom()]
    return {"height": _HEIGHT, "layer": layers, "data": {"values": rows}}


def _line(index: int, y: dict[str, Any], *, steps: bool) -> dict[str, Any]:
    mark = {
        "type": "line", "color": COLORS[index % len(COLORS)], "strokeWidth": 1.8, "clip": True,
        "interpolate": "step-after" if steps else "linear",
        "strokeDash": list(_DASHES[index // 3 % 3]), "invalid": "break-paths-show-domains",
    }  # fmt: skip
    return {"mark": mark, "encoding": {"y": y | {"field": f"v{index}"}}}


def _hover() -> dict[str, Any]:
    """Return the layer with a line at the interval under the pointer, whose tooltip shows all values."""
    select = {"type": "point", "fields": ["s"], "nearest": True, "on": "pointermove", "clear": "pointerout"}
    shown = {"condition": {"param": "hover", "value": 0.7, "empty": False}, "value": 0}
    return {
        "name": "hover",
        "params": [{"name": "hover", "select": select}],
        "mark": {"type": "rule", "color": "#888", "tooltip": {"content": "data"}},
        "encoding": {"opacity": shown},
    }


def _lone_points(series: Sequence[Series], clock: Clock, y: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a layer with the values between two unknown values, of which a line shows nothing."""
    data = [
        {"s": _short(at * clock.step), "y": _short(value), "c": COLORS[place % len(COLORS)]}
        for place, one in enumerate(series)
        for at, (before, value, after) in enumerate(zip([None, *one.values], one.values, [*one.values[1:], None]))
        if value is not None and before is None and after is None
    ]
    color = {"field": "c", "type": "nominal", "scale": None, "legend": None}
    mark = {"type": "point", "filled": True, "size": 24, "opacity": 1, "clip": True}
    return (
        [{"data": {"values": data}, "mark": mark, "encoding": {"y": y | {"field": "y"}, "color": color}}]
        if data
        else []
    )


def _marks_layers(marks: Sequence[Mark], clock: Clock) -> list[dict[str, Any]]:
    """Return the layers with a dashed line and a symbol at the start of each finding, and a line to its end."""
    if not marks:
        return []
    data = [
        {
            "s": _short(clock.place(one.time_ns)), "e": _short(clock.place(one.end_ns or clock.last_ns)),
            "kind": one.severity, "text": printable(one.text),
        }
        for one in sorted(marks, key=lambda one: -SEVERITIES.index(one.severity))  # the most severe above the others
    ]  # fmt: skip
    scale = {"domain": list(SEVERITIES), "range": [SEVERITY_COLORS[one] for one in SEVERITIES]}
    shapes = {"domain": list(SEVERITIES), "range": [_SHAPES[one] for one in SEVERITIES]}
    color = {"field": "kind", "type": "nominal", "legend": None, "scale": scale}
    shape = {"field": "kind", "type": "nominal", "legend": None, "scale": shapes}
    line = {"type": "rule", "strokeDash": [3, 3], "opacity": 0.7, "clip": True}
    reach = {"type": "rule", "strokeWidth": 3, "opacity": 0.45, "clip": True, "tooltip": {"content": "data"}}
    point = {"type": "point", "filled": True, "size": 90, "opacity": 1, "tooltip": {"content": "data"}, "clip": True}
    return [
        {"data": {"values": data}, "mark": line, "encoding": {"color": color}},
        {
            "data": {"values": data},
            "mark": reach,
            "encoding": {"y": {"value": 7}, "x2": {"field": "e"}, "color": color},
        },
        {"data": {"values": data}, "mark": point, "encoding": {"y": {"value": 7}, "color": color, "shape": shape}},
    ]


def _x_axis(clock: Clock | None, longest: float, unit: str) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": unit or None, "tickCount": {"expr": "ceil(width / 160)"}, "grid": True}
    if clock is not None:
        day = "%m-%d " if len(clock.text(clock.first_ns)) > len("00:00:00.000") else ""
        parts = "true" if clock.seconds < _FINE else "datum.value % 1 != 0"
        layout = f"{parts} ? '{day}%H:%M:%S.%L' : '{day}%H:%M:%S'"
        time = f"utcFormat({clock.first_ns // 1_000_000} + 1000 * datum.value, {layout})"
        axis["labelExpr"] = f"[format(datum.value, ',.3~f') + ' s', {time}]"
    return {
        "field": "s",
        "type": "quantitative",
        "scale": {"domain": [0, _short(longest)], "nice": False},
        "axis": axis,
    }


def _zoom() -> dict[str, Any]:
    """Return the parameter that drags the axis, and zooms it if Ctrl is pressed, because the wheel scrolls the page."""
    select = {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey]"}
    return {"name": "zoom", "select": select, "bind": "scales"}


def _still(layer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in layer.items() if name != "params"}


def _rows(series: Sequence[Series], clock: Clock) -> list[dict[str, Any]]:
    return [
        {"s": _short(index * clock.step)}
        | {f"v{place}": None if value is None else _short(value) for place, value in enumerate(values)}
        for index, values in enumerate(zip(*(one.values for one in series)))
    ]


def _table(title: str, unit: str, names: tuple[str, ...], series: Sequence[Series], clock: Clock) -> TableText:
    """Return the data of a chart. Rows without values are left out."""
    rows = [
        (
            f"{index * clock.step:,.3f}", clock.text(clock.first_ns + round(index * clock.step * 1e9)),
            *("–" if one is None else figure(one) for one in values),
        )
        for index, values in enumerate(zip(*(one.values for one in series)))
        if any(values)
    ]  # fmt: skip
    head = ("seconds", "UTC", *names)
    caption = (
        f"{title}, {unit}. Each row is an interval of {figure(clock.step)} s; intervals without values are left out."
    )
    return TableText(caption, head, rows, frozenset((0, *range(2, len(head)))))


def _bar_table(title: str, bars: Sequence[Bar], clock: Clock | None, unit: str) -> TableText:
    """Return the data of a chart of ranges."""
    rows = [
        (
            bar.row, bar.kind, f"{bar.begin:,.3f}", f"{bar.end:,.3f}",
            *([clock.text(clock.first_ns + round(bar.begin * 1e9))] if clock is not None else []), printable(bar.text),
        )
        for bar in bars
    ]  # fmt: skip
    head = ("row", "kind", "begin", "end", *(["begin, UTC"] if clock is not None else []), "text")
    return TableText(f"{title}, {unit or 'seconds'}", head, rows, frozenset({2, 3}))


def _most(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=0)


def _short(value: float) -> float:
    """Return a number with few digits, for a small page."""
    rounded = float(f"{value:.7g}")
    return int(rounded) if rounded.is_integer() else rounded
