"""The report's charts, as SVG embedded in the page.

Rules of this file
1. Charts contain no text from the wire: series are called A, B, C, …, and a table on the page lists their names. Charts
   therefore need no escaping and no fonts for other alphabets.
2. Each chart has a title and a description for screen readers. The colours suit readers with colour vision deficiency
   (Okabe and Ito), and lines also differ by their dashes.
3. The same figures result in the same bytes: charts contain no dates and no random ids.
4. A chart fits the width of a phone without scrolling, with text of at least 8 px: 6 inches wide, text of 10 points.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

__all__ = ["LETTERS", "Series", "bars", "lines", "spans", "svg_of"]

LETTERS: Final = "ABCDEFGH"
"""Letters that name the series."""

_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
_DASHES: Final = ("-", "--", "-.", ":")

_SETTINGS: Final[Any] = {
    "svg.fonttype": "none",  # text is not converted to paths: files are smaller, and screen readers can read them
    "svg.hashsalt": "pcli",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}

_LEGEND: Final[Any] = {"handlelength": 1.6, "columnspacing": 1.0, "handletextpad": 0.4}
"""Options of a legend whose eight names fit in one line, in order."""

_WIDE: Final = 1000
"""Ratio of an axis's maximum to its minimum above which only powers of ten are labelled, to avoid overlaps."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart."""

    name: str
    """The name of the series: a letter or a fixed word."""
    x: Sequence[float]
    y: Sequence[float]


def lines(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    title: str,
    alt: str,
    log_x: bool = False,
    steps: bool = False,
) -> str:
    """Draw a line chart. If ``steps`` is set, each value is drawn as constant until the next value."""

    def draw(axes: Any) -> None:
        for index, one in enumerate(series):
            style = {"color": _COLOURS[index % len(_COLOURS)], "linestyle": _DASHES[index // len(_COLOURS) % 4]}
            axes.plot(
                one.x, one.y, label=one.name, linewidth=1.4, drawstyle="steps-post" if steps else "default", **style
            )
        if log_x:
            axes.set_xscale("log")
            low, high = axes.get_xlim()
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < _WIDE else (1,), numticks=10))
            axes.xaxis.set_major_formatter(FuncFormatter(_plain))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.legend(frameon=False, ncols=len(series), loc="lower left", **_LEGEND, bbox_to_anchor=(0, 1.0))

    return _drawn(draw, title, alt)


def bars(names: Sequence[str], values: Sequence[float], x_label: str, *, title: str, alt: str) -> str:
    """Draw a horizontal bar chart, with the first bar on top."""

    def draw(axes: Any) -> None:
        places = range(len(names))
        axes.barh(places, values, color=_COLOURS[0], height=0.65)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set_xlabel(x_label)
        axes.grid(visible=False, axis="y")

    return _drawn(draw, title, alt, height=0.5 + 0.3 * max(2, len(names)))


def spans(rows: Sequence[Sequence[tuple[float, float, str]]], x_label: str, *, title: str, alt: str) -> str:
    """Draw rows of intervals (begin, length, kind), with the first row on top; kind is one of a few fixed words."""

    def draw(axes: Any) -> None:
        words = list(dict.fromkeys(what for row in rows for _, _, what in row))
        for index, word in enumerate(words):
            colour, label = _COLOURS[index % len(_COLOURS)], word
            for place, row in enumerate(rows):
                stretches = [(begin, length) for begin, length, what in row if what == word]
                if stretches:
                    axes.broken_barh(stretches, (place - 0.35, 0.7), color=colour, label=label)
                    label = "_nolegend_"
        axes.set_yticks(range(len(rows)), [str(place + 1) for place in range(len(rows))])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(x_label)
        axes.grid(visible=False, axis="y")
        axes.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0), **_LEGEND)

    return _drawn(draw, title, alt, height=0.9 + 0.26 * max(2, len(rows)))


def svg_of(figure: Figure, title: str, alt: str) -> str:
    """Return a figure as an SVG element that fills the available width."""
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = target.getvalue()
    text = text[text.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    inner = text[text.index(">") + 1 :]
    head = (
        f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" role="img" aria-label="{escape(f"{title}. {alt}")}" {box[0]}>'
    )
    return f"{head}<title>{escape(title)}</title><desc>{escape(alt)}</desc>{_unique_ids(inner, title)}"


def _drawn(draw: Callable[[Any], None], title: str, alt: str, height: float = 2.6) -> str:
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(6.0, height), layout="constrained")
        axes = figure.add_subplot()
        axes.yaxis.set_major_locator(MaxNLocator(5))
        draw(axes)
        return svg_of(figure, title, alt)


def _unique_ids(svg: str, title: str) -> str:
    """Add a prefix to ids and references, because a page contains several charts."""
    prefix = re.sub(r"\W+", "-", title.lower())
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    return re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)


def _plain(value: float, _: int) -> str:
    return f"{value:g}"
