"""The broker's statistics of a scalable topic compared with those of `pcli stats segments`.

Rules of this file
1. The capture must have the broker's epoch, and each segment of the broker's layout in the same state.
2. The backlog of a subscription on a segment is equal, or the capture does not determine it.
3. Before the request the capture can lag behind the broker, so each figure is compared with two times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["differences_of_segments", "has_layout", "segment_figures"]

_UNKNOWN = object()


def segment_figures(stats: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the broker's statistics that are compared, by name."""
    found: dict[str, Any] = {"epoch": stats["layout"]["epoch"]}
    for number, one in stats["layout"]["segments"].items():
        found[f"state of {number}"] = one["state"].lower()
    for name, subscription in stats.get("subscriptions", {}).items():
        for number, one in subscription.get("segments", {}).items():
            found[f"backlog of {name} on {number}"] = one.get("msgBacklog")
    return found


def _ours(row: dict[str, Any]) -> dict[str, Any]:
    """Return the same figures of a row of `pcli stats segments`; an unknown one is None."""
    found = {"epoch": row["epoch"]}
    for one in row["segments"]:
        found[f"state of {one['segment']}"] = None if one["state"] == "unknown" else one["state"]
        for name, subscription in one["subscriptions"].items():
            found[f"backlog of {name} on {one['segment']}"] = subscription["msgBacklog"]
    return found


def has_layout(rows: list[dict[str, Any]], topic: str) -> bool:
    """Return whether rows of `pcli stats segments` contain a topic with its layout."""
    return any(row["topic"] == topic and row["epoch"] is not None for row in rows)


def differences_of_segments(
    topic: str, theirs: dict[str, Any], *ours: list[dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield each compared figure without its place, and how it differs; an empty string for a right figure."""
    rows = [next((_ours(row) for row in rows if row["topic"] == topic), {}) for rows in ours]
    for name, value in segment_figures(theirs).items():
        figures = [row.get(name, _UNKNOWN) for row in rows]
        kind = name.split()[0]
        if None in figures or (kind == "backlog" and _UNKNOWN in figures):
            continue  # the capture does not determine it, or no consumer of it has opened the segment
        right = value in figures or (kind == "backlog" and min(figures) <= value <= max(figures))
        shown = ["nothing" if one is _UNKNOWN else one for one in figures]
        yield kind, "" if right else f"{topic}: {name}: the broker has {value}, pcli {shown}"
