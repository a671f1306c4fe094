"""What the page is made of. Data only; page.html lays it out and escapes every text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Chart", "FindingText", "Section", "TableText"]


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing and the line below it."""

    svg: str
    """Of charts.py: nothing of the wire is in it."""
    caption: str


@dataclass(frozen=True, slots=True)
class TableText:
    """A table, all cells as text."""

    caption: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: frozenset[int] = frozenset()
    """Columns that stand on the right."""
    more: str = ""
    """What was left out; empty: nothing."""


@dataclass(frozen=True, slots=True)
class FindingText:
    """A finding in words."""

    severity: str
    head: str
    what: str
    advice: str
    opposite: str
    where: str


@dataclass(slots=True)
class Section:
    """A part of the page with a heading."""

    title: str
    anchor: str
    texts: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    findings: list[FindingText] = field(default_factory=list)
    tables: list[TableText] = field(default_factory=list)
