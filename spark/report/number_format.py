"""Formats of figures in the report: durations, sizes, counts, times, names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from pcli.codec.observe.text_format import printable
from pcli.spark.input.read_plan import CLUSTER

_DURATIONS: Final = ((1e9 * 3600, "h"), (1e9 * 60, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def duration(ns: float) -> str:
    """Format a duration: ``3.2 ms``."""
    for unit, name in _DURATIONS:
        if abs(ns) >= unit:
            return f"{ns / unit:.3g} {name}"
    return "0 s"


def size(count: float) -> str:
    """Format a size: ``1.4 GB``."""
    for unit, name in _SIZES:
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"


def number(count: int) -> str:
    """Format a count: ``12,345``."""
    return f"{count:,}"


def figure(value: float) -> str:
    """Format a number with at most four significant digits: ``12,345``, ``0.0213``."""
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"


def moment(time_ns: int) -> str:
    """Format a time: ``2026-01-31 12:00:00.123 UTC``."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03d} UTC"


def short_topic(name: str | None) -> str:
    """Return a topic in its short form, without the parts that nearly all topics share."""
    return name_text(name).removeprefix("persistent://").removeprefix("public/default/")


def name_text(text: str | None) -> str:
    """Return a name from the wire with control characters escaped, or a dash if it is empty."""
    return printable(text) if text else "–"


def named(cluster: str, *rest: str | None) -> str:
    """Return cluster, topic, subscription and consumer in one line, without the default cluster."""
    words = [short_topic(rest[0]), *map(name_text, rest[1:])] if rest else []
    return " / ".join([*([name_text(cluster)] if cluster != CLUSTER else []), *words])
