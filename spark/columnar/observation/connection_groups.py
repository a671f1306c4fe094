"""Groups of connections that must be observed together because they are tied, directly or through other connections.

Rules of this file
1. Connections with the same addresses and ports are tied, because the later connection ends the earlier connection.
2. Connections with the same topic or transaction are tied, because they share the state of the topic or transaction.
3. Connections with the same ledger are tied if a consumer without a captured SUBSCRIBE receives messages of this
   ledger, because the ledger determines the consumer's topic. Connections with the same producer name are tied if SENDs
   without a captured PRODUCER contain the name, because the producer may reconnect under that name. In all other cases,
   the known topic ties the connections.
4. The two connections of a proxied conversation are tied: while the first connection waits for CONNECTED, the proxy
   sends the CONNECT of the second connection from the host that accepted the first connection, or to the address in the
   first CONNECT.
5. Hosts do not tie connections: their events are recorded (host_history.py).

The findings of the groups are therefore the same as the findings of the whole recording, with two exceptions. Memory
limits apply to each group. Consumers without a captured SUBSCRIBE and without a common ledger are in separate groups. A
Tracker of the whole recording assigns all of these consumers to one unnamed subscription, where events of different
topics may be mixed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Stream
from pcli.codec.observe.tracking.connections.repeated_connections import possible_copies

PACKED_FRAMES: Final = 100_000
"""Groups with fewer frames are combined, up to this number of frames."""

_MOST_FRONTS: Final = 256
"""Maximum number of connections that wait for CONNECTED; pcli.codec.observe.tracking has the same limit."""

_NEVER: Final = 1 << 62

Row = dict[str, Any]
"""A row of TIES."""
TieRows = dict[str, list[Row]]
"""Rows of TIES by kind."""
Owner = tuple[int, str, int]
"""A producer or a consumer: connection, side, id."""
Thing = tuple[str, Hashable]
"""Kind and name of a tie."""


def groups_of(
    ties: Iterable[pa.RecordBatch], streams: Mapping[int, Stream], frames: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Return the group of each connection. A group is identified by its lowest connection number.

    ``ties`` contains the rows of TIES of the whole recording, in any order, and ``streams`` all connections. ``frames``
    contains the number of frames of each connection and is used to combine small groups.
    """
    rows = rows_by_tie(ties)
    sets = Sets()
    for stream, other in (
        *same_ports(streams),
        *((row["stream"], (tie, row["text"])) for tie in ("topic", "transaction") for row in rows.get(tie, ())),
        *((row["stream"], other) for row, other in ties_without_opening(rows)),
        *by_proxy(rows, streams),
        *possible_copies(streams.values()),
    ):
        sets.join(stream, other)
    least: dict[Hashable, int] = {}
    for stream in sorted(streams):
        least.setdefault(sets.top(stream), stream)
    found = {stream: least[sets.top(stream)] for stream in streams}
    return found if frames is None else packed(found, frames)


def rows_by_tie(ties: Iterable[pa.RecordBatch]) -> TieRows:
    """Group rows of TIES by kind. Rows ``metadata`` become rows ``topic`` if the name is that of a scalable topic."""
    rows: TieRows = {}
    for row in (row for batch in ties for row in batch.to_pylist()):
        rows.setdefault(row["tie"], []).append(row)
    topics = rows.get("topic", [])
    names = {row["text"] for row in topics}
    topics += [row | {"tie": "topic"} for row in rows.pop("metadata", ()) if row["text"] in names]
    return rows


def owner_of(row: Row) -> Owner:
    """Return the producer or consumer to which a row of TIES belongs."""
    return row["stream"], row["side"], row["owner"]


def same_ports(streams: Mapping[int, Stream]) -> Iterator[tuple[int, Thing]]:
    """Yield each connection with the tie of its addresses and ports."""
    return ((one.number, ("ports", (one.client, one.server))) for one in streams.values())


def unopened(rows: TieRows) -> Iterator[Row]:
    """Yield rows with ledgers of consumers before SUBSCRIBE, and with names of producers before PRODUCER."""
    for opening, speaking, side in (("SUBSCRIBE", "ledger", "consumer"), ("PRODUCER", "sender", "producer")):
        opened: dict[Owner, int] = {}
        for row in rows.get(opening, ()):
            opened[owner_of(row)] = min(row["place"], opened.get(owner_of(row), _NEVER))
        for row in rows.get(speaking, ()):
            if row["side"] == side and row["place"] < opened.get(owner_of(row), _NEVER):
                yield row


def ties_without_opening(rows: TieRows) -> Iterator[tuple[Row, Thing]]:
    """Yield the rows whose ledgers and producer names tie connections, each with the tie.

    A producer may send after it was closed. Its SENDs are then treated as SENDs without a PRODUCER.
    """
    closed = {owner_of(row) for row in rows.get("CLOSE_PRODUCER", ())}
    found = [*unopened(rows), *(row for row in rows.get("sender", ()) if owner_of(row) in closed)]
    ledgers = {row["ledger"] for row in found if row["tie"] == "ledger"}
    names = {row["text"] for row in found if row["tie"] == "sender"}
    yield from ((row, ("ledger", row["ledger"])) for row in rows.get("ledger", ()) if row["ledger"] in ledgers)
    yield from ((row, ("name", row["text"])) for row in found if row["tie"] == "sender")
    yield from ((row, ("name", row["text"])) for row in rows.get("PRODUCER", ()) if row["text"] in names)


def by_proxy(rows: TieRows, streams: Mapping[int, Stream]) -> Iterator[tuple[int, int]]:
    """Yield pairs of the possible first connection and the second connection of a proxied conversation."""
    connected: dict[int, list[int]] = {}
    for row in rows.get("CONNECTED", ()):
        connected.setdefault(row["stream"], []).append(row["place"])
    fronts: deque[tuple[int, Stream]] = deque(maxlen=_MOST_FRONTS)
    for row in sorted(rows.get("CONNECT", ()), key=lambda row: int(row["place"])):
        place, back = row["place"], streams[row["stream"]]
        while fronts and fronts[0][0] < place:
            fronts.popleft()
        for until, front in fronts:
            if until > place and front.server != back.server:
                yield front.number, back.number
        until = min((one for one in connected.get(back.number, ()) if one > place), default=_NEVER)
        fronts.append((until, back))


def packed(found: Mapping[int, int], frames: Mapping[int, int]) -> dict[int, int]:
    """Combine small groups. Groups with adjacent numbers are combined first."""
    sizes: dict[int, int] = {}
    for stream, group in found.items():
        sizes[group] = sizes.get(group, 0) + frames.get(stream, 0)
    into: dict[int, int] = {}
    open_, room = -1, 0
    for group in sorted(sizes):
        if sizes[group] >= PACKED_FRAMES:
            into[group] = group
            continue
        if room < sizes[group] or open_ < 0:
            open_, room = group, PACKED_FRAMES
        into[group] = open_
        room -= sizes[group]
    return {stream: into[group] for stream, group in found.items()}


class Sets:
    """Sets of items that are joined in pairs. An item that was never joined is in a separate set."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def join(self, one: Hashable, other: Hashable) -> None:
        """Join the sets of two items."""
        top, under = self.top(one), self.top(other)
        if top != under:
            self._above[under] = top

    def top(self, item: Hashable) -> Hashable:
        """Return the current representative of an item's set."""
        path = []
        while (above := self._above.get(item, item)) != item:
            path.append(item)
            item = above
        for one in path:
            self._above[one] = item
        return item
