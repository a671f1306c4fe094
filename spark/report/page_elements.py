"""The elements of the page, as plain data: page.html lays them out and escapes all text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Chart", "FindingText", "Section", "TableText"]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and its caption."""

    svg: str
    """The output of charts.py; it contains no text from the wire."""
    caption: str


@dataclass(frozen=True, slots=True)
class TableText:
    """A table; all cells are text."""

    caption: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: frozenset[int] = frozenset()
    """Indices of the columns that are aligned to the right."""
    more: str = ""
    """A note on rows that were omitted; empty if none."""


@dataclass(frozen=True, slots=True)
class FindingText:
    """A finding as text."""

    severity: str
    head: str
    what: str
    advice: str
    opposite: str
    where: str


@dataclass(slots=True)
class Section:
    """A section of the page with a heading."""

    title: str
    anchor: str
    texts: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    findings: list[FindingText] = field(default_factory=list)
    tables: list[TableText] = field(default_factory=list)
