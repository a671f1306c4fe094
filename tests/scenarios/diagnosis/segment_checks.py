"""The broker's statistics of a scalable topic compared with those of `pcli stats segments`.

Rules of this file
1. The capture must have the broker's epoch, and each segment of the broker's layout in the same state.
2. The backlog, the unacknowledged messages and the number of consumers of a subscription on a segment are equal, or the
   capture does not determine them. So are the segments of each stream consumer that is connected.
3. Before the request the capture can lag behind the broker, so each figure is compared with two times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenarios.diagnosis.execution import StatsSample

_UNKNOWN = object()
_COUNTS = ("backlog", "unacked", "consumers")


def segment_figures(stats: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the broker's statistics that are compared, by name."""
    found: dict[str, Any] = {"epoch": stats["layout"]["epoch"]}
    for number, one in stats["layout"]["segments"].items():
        found[f"state of {number}"] = one["state"].lower()
    for name, subscription in stats.get("subscriptions", {}).items():
        for number, one in subscription.get("segments", {}).items():
            found[f"backlog of {name} on {number}"] = one.get("msgBacklog")
            if one.get("msgBacklog"):  # the broker can count an entry that was acknowledged in two parts for ever
                found[f"unacked of {name} on {number}"] = one.get("unackedMessages")
            found[f"consumers of {name} on {number}"] = one.get("consumerCount")
        for one in subscription.get("consumers", ()) if subscription.get("type") == "STREAM" else ():
            if one["connected"]:
                found[f"assignment of {name} to {one['consumerName']}"] = sorted(one["segmentIds"])
    return found


def _ours(row: dict[str, Any]) -> dict[str, Any]:
    """Return the same figures of a row of `pcli stats segments`; an unknown one is None."""
    found = {"epoch": row["epoch"]}
    for one in row["segments"]:
        found[f"state of {one['segment']}"] = None if one["state"] == "unknown" else one["state"]
        for name, subscription in one["subscriptions"].items():
            found[f"backlog of {name} on {one['segment']}"] = subscription["msgBacklog"]
            found[f"unacked of {name} on {one['segment']}"] = subscription["unackedMessages"]
            found[f"consumers of {name} on {one['segment']}"] = len(subscription["consumers"])
    for one in row["consumers"]:
        if not one["end"]:
            found[f"assignment of {one['subscription']} to {one['consumer']}"] = one["segments"]
    return found


def differences_of_segments(
    sample: StatsSample, *ours: list[dict[str, Any]], partial: bool
) -> Iterator[tuple[str, str]]:
    """Yield each compared figure without its place, and how it differs; an empty string for a right figure.

    ``partial``: the capture lacks a part, and need not determine any figure.
    """
    rows = [next((_ours(row) for row in rows if row["topic"] == sample.topic), {}) for rows in ours]
    for name, value in segment_figures(sample.stats).items():
        figures = [row.get(name, _UNKNOWN) for row in rows]
        kind = name.split()[0]
        if value is None or None in figures or (_UNKNOWN in figures and (partial or kind in _COUNTS)):
            continue  # the capture does not determine it, or no consumer of it has opened the segment
        listed = partial and kind == "consumers"  # the list need not contain those that began before the capture
        right = value in figures or (kind in _COUNTS and min(figures) <= value and (listed or value <= max(figures)))
        shown = ["nothing" if one is _UNKNOWN else one for one in figures]
        yield kind, "" if right else f"{sample.topic}: {name}: the broker has {value}, pcli {shown}"
