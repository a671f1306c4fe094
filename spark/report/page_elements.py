"""The elements of the page, as plain data: page.html lays them out and escapes all text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pcli.spark.report.number_format import number


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    sort: float | None = None
    """The number by which rows are sorted; None for text."""
    href: str = ""
    """A link within the report; empty if none."""


def count_cell(value: int | None) -> Cell:
    """Return a cell with a count, or with a dash if the count is unknown."""
    return Cell("–", -1) if value is None else Cell(number(value), value)


@dataclass(frozen=True, slots=True)
class TableText:
    """A table. A cell is text, or a `Cell` with a number by which rows are sorted or with a link."""

    caption: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[Cell | str]]
    numbers: frozenset[int] = frozenset()
    """Indices of the columns that are aligned to the right."""
    more: str = ""
    """A note on rows that were omitted; empty if none."""


class Entry(NamedTuple):
    """A series in the legend of a chart."""

    name: str
    color: str
    dash: str
    """SVG's stroke-dasharray; empty for a solid line."""
    shape: str = ""
    """The path of a symbol; empty for a line."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, its legend, and the table of its data."""

    key: str
    """An id that is unique on the page."""
    title: str
    caption: str
    alt: str
    """A description for screen readers."""
    spec: dict[str, Any]
    """The Vega-Lite specification. It contains no text from the wire except as data."""
    names: tuple[str, ...] = ()
    """The names of the values v0, v1, … of a row of the data, for tooltips."""
    legend: tuple[Entry, ...] = ()
    table: TableText | None = None
    wide: bool = False
    """Whether the chart takes the whole width."""
    timed: bool = True
    """Whether the axis is the time that all charts share."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding as text."""

    severity: str
    head: str
    what: str
    advice: str
    opposite: str
    where: str
    show: str
    """The command that shows the evidence; empty if none."""


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings or groups of findings behind one line."""

    severity: str
    head: str
    what: str
    count: int
    groups: Sequence[FindingGroup] = ()
    findings: Sequence[Finding] = ()
    more: str = ""
    """A note on findings that were omitted; empty if none."""


@dataclass(frozen=True, slots=True)
class Form:
    """A search in the rows of a page of a server."""

    search: str
    """The text that the rows contain."""
    order: str = ""
    """The column by which the rows are sorted; empty for the order of the table."""
    columns: Sequence[str] = ()
    """The columns by which the rows can be sorted."""


@dataclass(slots=True)
class Section:
    """A section of the page with a heading."""

    title: str
    anchor: str
    texts: list[str] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)
    """Names and values."""
    charts: list[Chart] = field(default_factory=list)
    groups: list[FindingGroup] = field(default_factory=list)
    tables: list[TableText] = field(default_factory=list)
    parts: list[Section] = field(default_factory=list)
    """Sections of objects, folded."""
    links: list[tuple[str, str]] = field(default_factory=list)
    """Texts and addresses."""
