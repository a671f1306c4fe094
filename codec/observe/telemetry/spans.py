"""Spans and log records as data, with the names of OpenTelemetry's data model. Times are nanoseconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SEMANTIC_CONVENTIONS: Final = "1.44.0"
"""The version of OpenTelemetry's semantic conventions whose names the spans have."""

SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{SEMANTIC_CONVENTIONS}"

Attributes = dict[str, str | int | float | bool | tuple[int, ...]]
"""Attributes by name. An unknown value is absent."""


@dataclass(slots=True)
class Event:
    """An event of a span."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(slots=True)
class Link:
    """A link to a span, which can be in another trace."""

    trace_id: int
    span_id: int
    state: str = ""


@dataclass(slots=True)
class Span:
    """An ended span."""

    trace_id: int
    span_id: int
    name: str
    kind: str
    """``producer``, ``consumer`` or ``client``."""
    start_ns: int
    end_ns: int
    parent_id: int = 0
    """0 for the root of a trace."""
    parent_remote: bool = False
    """Whether an application exports the parent."""
    state: str = ""
    """The value of ``tracestate``."""
    attributes: Attributes = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    error: str = ""
    """The description of the status Error; empty for the status Unset."""


@dataclass(slots=True)
class LogRecord:
    """A finding as a log record."""

    time_ns: int
    severity: str
    """One of rules.finding.SEVERITIES."""
    body: str
    attributes: Attributes = field(default_factory=dict)
    trace_id: int = 0
    """The trace of a message whose frame is evidence; 0 if there is none."""
    span_id: int = 0
