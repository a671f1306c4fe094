"""The division of a group of connections that is too large for one task into parts of connections and parts of topics.

Rules of this file
1. The state of a connection depends on all its frames and on no topic. Connections with the same ports, and the
   connections of a proxied conversation, are in the same part.
2. The state of a topic depends on the traffic of its producers and consumers on all connections. This traffic and
   everything that is tied to it (connection_groups.py) form one part. From the connections, the part needs only the
   ends, the doubts, and the times of frames from the broker (partial_trackers.py).
3. The few commands that are not traffic are sent to every part that is related to their connection. A part's results
   about objects of other parts are dropped (`Division.is_of`).
4. For a producer without a captured PRODUCER, only the connection is known. All producers and consumers of that
   connection are therefore in one part, together with the connection's frames that belong to no producer or consumer.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import chain
from typing import Final

import pyarrow as pa

from pcli.codec.capture.frames import Stream
from pcli.codec.observe.tracking.connections.repeated_connections import possible_copies
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.records.connection_records import TransactionRecord
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord
from pcli.codec.observe.tracking.records.topic_records import KeyRecord, SubscriptionRecord, TopicRecord
from pcli.codec.wire.constants import MINUS_ONE
from pcli.spark.columnar.observation.connection_groups import (
    Owner,
    Sets,
    TieRows,
    by_proxy,
    owner_of,
    rows_by_tie,
    same_ports,
    ties_without_opening,
    unopened,
)

_SIDES: Final = ("producer", "consumer")

_CONNECTIONS: Final = 0.2
"""Cost of the observation of a divided group's connections, as a share of the cost of the whole group."""

_LEAST_GAIN: int = 100_000
"""Number of frames by which a division must shorten the work. One task observes this number in a few seconds."""


def groups_to_divide(sizes: Mapping[int, int], tasks: int) -> set[int]:
    """Return the largest groups, as many as shorten the work most if they are divided evenly.

    ``sizes`` contains the number of frames of each group, and ``tasks`` is the number of simultaneous tasks.
    """
    groups = sorted(sizes, key=lambda group: (-sizes[group], group))[: 2 * tasks]
    times = [divided_time(sizes, set(groups[:count]), tasks) for count in range(len(groups) + 1)]
    best = times.index(min(times))
    return set(groups[:best]) if times[0] - times[best] >= _LEAST_GAIN else set()


def divided_time(sizes: Mapping[int, int], divided: Container[int], tasks: int, heaviest: float = 0.0) -> float:
    """Return the time of the observation, as the time for a number of frames of one group.

    ``heaviest`` is `Division.heaviest`.
    """
    total = sum(size for group, size in sizes.items() if group in divided)
    works: list[float] = [size for group, size in sizes.items() if group not in divided]
    works += [total * _CONNECTIONS / tasks] * tasks
    loads = [0.0] * tasks
    for work in sorted(works, reverse=True):
        heapreplace(loads, loads[0] + work)
    return max(loads) + max(total / tasks, heaviest)


@dataclass(slots=True)
class Division:
    """The parts of a group: parts of topics, numbered from 0, and parts of connections, by lowest connection."""

    size: int = 0
    """Number of parts of topics."""
    heaviest: float = 0.0
    """Approximate number of frames in the largest part of topics."""
    links: dict[int, int] = field(default_factory=dict)
    """The part of connections to which each connection belongs."""
    owners: dict[Owner, int] = field(default_factory=dict)
    """The part of topics of each producer and consumer."""
    rest: dict[int, int] = field(default_factory=dict)
    """The part of topics that receives the frames of a connection's unknown producers and consumers."""
    receivers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The parts of topics that receive the commands of each connection."""
    things: dict[tuple[str, str], int] = field(default_factory=dict)
    """The part of each topic and transaction, by kind and name: ``("topic", …)``, ``("transaction", …)``."""

    def part_of(self, owner: Owner) -> int:
        """Return the part that receives the traffic of a producer or consumer."""
        return self.owners.get(owner, self.rest[owner[0]])

    def is_of(self, part: int, record: object) -> bool:
        """Return whether a record belongs to this part. The record must not be about a connection."""
        match record:
            case TopicRecord() | ScalableTopicRecord():
                return self._owns(part, "topic", record.name)
            case SubscriptionRecord() if record.topic.name:
                return self._owns(part, "topic", record.topic.name)
            case SubscriptionRecord():
                return any(self.is_of(part, one) for one in record.consumers.values())
            case KeyRecord():
                return self.is_of(part, record.subscription)
            case TransactionRecord():
                most, least = record.id
                return self._owns(part, "transaction", f"{most & MINUS_ONE}:{least & MINUS_ONE}")
            case ConsumerRecord() | ProducerRecord() if record.topic:
                return self._owns(part, "topic", record.topic)
            case ConsumerRecord() | ProducerRecord():
                side = _SIDES[isinstance(record, ConsumerRecord)]
                session = record.session
                return session is None or self.part_of((session.stream, side, session.id)) == part
        return True

    def _owns(self, part: int, kind: str, name: str) -> bool:
        return self.things.get((kind, name), 0) == part


def divide(
    ties: Iterable[pa.RecordBatch], streams: Mapping[int, Stream], frames: Mapping[int, int], size: int
) -> Division:
    """Divide the connections of a group into parts.

    ``ties`` contains the rows of TIES of these connections, in any order, and ``frames`` the number of frames of each
    connection. ``size`` is the approximate maximum number of frames in a part of topics.
    """
    rows = rows_by_tie(ties)
    owners = _owners(rows)
    sets = _sets(rows, owners, streams)
    things = {(tie, row["text"]) for tie in ("topic", "transaction") for row in rows.get(tie, ())}
    places, weights = _packed(sets, _shares(owners, streams), things, frames, size)
    division = Division(len(weights), max(weights, default=0.0), _links(rows, streams))
    for stream in streams:
        division.rest[stream] = places[sets.top(("rest", stream))]
    for owner in owners:
        division.owners[owner] = places[sets.top(owner)]
    for thing in things:
        division.things[thing] = places[sets.top(thing)]
    _assign_receivers(division, rows)
    return division


def _owners(rows: TieRows) -> list[Owner]:
    return sorted({owner_of(row) for row in chain.from_iterable(rows.values()) if row["side"]})


def _sets(rows: TieRows, owners: Iterable[Owner], streams: Mapping[int, Stream]) -> Sets:
    """Return sets of producers, consumers, topics, transactions and items ``"rest"`` that are observed together."""
    sets = Sets()
    for tie in ("topic", "transaction"):
        for row in rows.get(tie, ()):
            if row["side"]:
                sets.join(owner_of(row), (tie, row["text"]))
    for row, other in ties_without_opening(rows):
        sets.join(owner_of(row), other)
    lost = set()
    for row in unopened(rows):
        sets.join(("rest", row["stream"]), owner_of(row))
        if row["side"] == "producer":
            lost.add(row["stream"])
    first: set[int] = set()
    for owner in owners:
        if owner[0] in lost or owner[0] not in first:
            sets.join(("rest", owner[0]), owner)
        first.add(owner[0])
    return sets


def _shares(owners: Iterable[Owner], streams: Mapping[int, Stream]) -> dict[int, list[Hashable]]:
    """Return the items that share each connection's frames: its producers and consumers, or its item ``"rest"``."""
    shares: dict[int, list[Hashable]] = {}
    for owner in owners:
        shares.setdefault(owner[0], []).append(owner)
    return {stream: shares.get(stream, [("rest", stream)]) for stream in streams}


def _packed(
    sets: Sets, shares: Mapping[int, list[Hashable]], things: Iterable[Hashable], frames: Mapping[int, int], size: int
) -> tuple[dict[Hashable, int], list[float]]:
    """Return the part of each set, and the number of frames in each part.

    Sets are assigned from the largest to the smallest, each to the part with the fewest frames. The producers and
    consumers of a connection are assumed to have equal numbers of frames.
    """
    weights: dict[Hashable, float] = {sets.top(one): 0.0 for one in things}
    for stream, some in shares.items():
        for one in some:
            top = sets.top(one)
            weights[top] = weights.get(top, 0) + frames.get(stream, 0) / len(some)
    parts = [(0.0, part) for part in range(max(1, min(len(weights), int(sum(weights.values()) / size) + 1)))]
    heapify(parts)
    places = {}
    for top in sorted(weights, key=lambda top: (-weights[top], str(top))):
        weight, part = parts[0]
        places[top] = part
        heapreplace(parts, (weight + weights[top], part))
    return places, [weight for weight, _ in parts]


def _links(rows: TieRows, streams: Mapping[int, Stream]) -> dict[int, int]:
    sets = Sets()
    for one, other in (*same_ports(streams), *by_proxy(rows, streams), *possible_copies(streams.values())):
        sets.join(one, other)
    least: dict[Hashable, int] = {}
    return {stream: least.setdefault(sets.top(stream), stream) for stream in sorted(streams)}


def _assign_receivers(division: Division, rows: TieRows) -> None:
    """Set the parts that receive each connection's commands: the parts of the connection and of tied connections."""
    parts: dict[int, set[int]] = {}
    for stream, part in division.rest.items():
        parts.setdefault(division.links[stream], set()).add(part)
    for owner, part in division.owners.items():
        parts[division.links[owner[0]]].add(part)
    for tie in ("topic", "transaction"):
        for row in rows.get(tie, ()):
            parts[division.links[row["stream"]]].add(division.things[tie, row["text"]])
    division.receivers = {stream: tuple(sorted(parts[link])) for stream, link in division.links.items()}
