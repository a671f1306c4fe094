"""The state of groups of connections that an incremental run keeps: the next run observes only the new frames.

Rules of this file
1. A group of a run continues the only kept group that contains any of its connections. If there are several, because a
   new connection ties them, or if a connection is now known to be different (its client, its protocol, or whether its
   server is a Pulsar server), the group is observed again from its first frame: the states of two Trackers cannot be
   merged, and the Tracker does not keep the records of all ended connections.
2. A group never loses connections, and small new groups are added to a small kept group. The number of kept groups
   therefore does not grow with the number of runs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.observation.connection_groups import PACKED_FRAMES, packed
from pcli.spark.columnar.observation.disjoint_sets import Sets

__all__ = ["KeptGroup", "KeptObservations", "continued_groups", "kept_streams"]


@dataclass(frozen=True, slots=True)
class KeptGroup:
    """The state of one group after the last frame that was read."""

    streams: dict[int, tuple[Any, ...]]
    """The connections of the group by number, each with the values on which the state depends."""
    path: str
    """Path of the file that contains the pickled `observe_group.Group`."""


@dataclass(frozen=True, slots=True)
class KeptObservations:
    """The states of all groups of a recording."""

    parts: int = 0
    """Number of captures that the states include."""
    groups: list[KeptGroup] = field(default_factory=list)


def kept_streams(
    streams: Mapping[int, Stream], used: Container[int], servers: Container[tuple[str, int]]
) -> dict[int, tuple[Any, ...]]:
    """Return connections in the form of `KeptGroup.streams`.

    ``used`` contains those with frames, notes or an end. ``servers`` contains the addresses of the Pulsar servers.
    """
    return {number: _values(one, servers) if number in used else () for number, one in streams.items()}


def _values(one: Stream, servers: Container[tuple[str, int]]) -> tuple[Any, ...]:
    return one.client, one.server, one.kind, one.midstream, one.opening, tuple(one.bases), one.server in servers


def continued_groups(
    found: Mapping[int, int],
    kept: KeptObservations,
    streams: Mapping[int, Stream],
    frames: Mapping[int, int],
    servers: Container[tuple[str, int]],
) -> tuple[dict[int, int], dict[int, KeptGroup]]:
    """Return the group of each connection, and the kept groups to continue, by group.

    ``found`` is the group of each connection according to `groups_of`, without combined groups. A group is identified
    by its lowest connection number. ``frames`` contains the number of frames of each connection, and ``servers`` the
    addresses of the Pulsar servers.
    """
    sets = Sets()
    for stream, group in found.items():
        sets.join(("group", group), stream)
    for place, one in enumerate(kept.groups):
        for stream in one.streams:
            sets.join(("kept", place), stream)
    least: dict[Any, int] = {}
    for stream in sorted(found):
        least.setdefault(sets.top(stream), stream)
    groups = {stream: least[sets.top(stream)] for stream in found}
    parts: dict[int, list[KeptGroup]] = {}
    for one in kept.groups:
        parts.setdefault(groups[next(iter(one.streams))], []).append(one)
    continued = {
        group: some[0] for group, some in parts.items() if len(some) == 1 and _is_same(some[0], streams, servers)
    }
    fresh = packed({stream: group for stream, group in groups.items() if group not in parts}, frames)
    return _with_fresh(groups | fresh, set(fresh.values()), continued, frames), continued


def _is_same(kept: KeptGroup, streams: Mapping[int, Stream], servers: Container[tuple[str, int]]) -> bool:
    return all(not values or _values(streams[number], servers) == values for number, values in kept.streams.items())


def _with_fresh(
    groups: dict[int, int], fresh: set[int], continued: Mapping[int, KeptGroup], frames: Mapping[int, int]
) -> dict[int, int]:
    """Add new groups to the smallest continued group, up to PACKED_FRAMES."""
    sizes: dict[int, int] = {}
    for stream, group in groups.items():
        sizes[group] = sizes.get(group, 0) + frames.get(stream, 0)
    into = min(continued, key=lambda group: sizes[group], default=-1)
    added = set()
    for group in sorted(fresh) if into >= 0 else ():
        if sizes[into] + sizes[group] <= PACKED_FRAMES:
            sizes[into] += sizes[group]
            added.add(group)
    return {stream: into if group in added else group for stream, group in groups.items()}
