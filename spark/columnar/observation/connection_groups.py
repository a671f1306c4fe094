"""Which connections must be observed together: those that are tied, directly or through others.

Rules of this file
1. Connections with the same addresses and ports on both ends: the later one ends the earlier one.
2. A topic, a transaction: all that is kept of them is kept once.
3. A ledger, when a consumer without SUBSCRIBE gets messages of it: through it its topic is found. A producer's name,
   when SENDs without PRODUCER carry it: it may come back under that name. Both only then: who has told its topic is
   tied by that.
4. Two legs of a conversation through a proxy: the second one's CONNECT comes from the host, or goes to the address,
   that the first one means, while the first one waits for its CONNECTED (tracking.legs).
5. Hosts tie nothing: what happens to them is written down (hosting.py).

So each group's findings are those of the whole recording, with two exceptions. Bounds on memory are those of a group.
And consumers without SUBSCRIBE that have no ledger in common are strangers to each other here, while a Tracker of all
keeps them in one book without a name: there an event of one topic may be taken for one of another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.observation.disjoint_sets import Sets

__all__ = [
    "PACKED_FRAMES",
    "Owner",
    "by_proxy",
    "groups_of",
    "owner_of",
    "packed",
    "rows_by_tie",
    "same_ports",
    "strange",
    "tied_by_strangers",
]

PACKED_FRAMES: Final = 100_000
"""Small groups are put together until they have so many frames."""

_MOST_FRONTS: Final = 256
"""As many connections that wait for CONNECTED as tracking.legs remembers."""

_NEVER: Final = 1 << 62

Row = dict[str, Any]
"""A row of TIES."""
TieRows = dict[str, list[Row]]
"""Rows of TIES, by what they are."""
Owner = tuple[int, str, int]
"""A producer or a consumer: connection, side, id."""
Thing = tuple[str, Hashable]
"""What ties, and what it is called."""


def groups_of(
    ties: Iterable[pa.RecordBatch], streams: Mapping[int, Stream], frames: Mapping[int, int] | None = None
) -> dict[int, int]:
    """For each connection its group: the least connection in it.

    ``ties``: rows of TIES of the whole recording, in any order; ``streams``: all connections; ``frames``: how many
    frames each has: groups with few are put together.
    """
    rows = rows_by_tie(ties)
    sets = Sets()
    for stream, other in (
        *same_ports(streams),
        *((row["stream"], (tie, row["text"])) for tie in ("topic", "transaction") for row in rows.get(tie, ())),
        *((row["stream"], other) for row, other in tied_by_strangers(rows)),
        *by_proxy(rows, streams),
    ):
        sets.join(stream, other)
    least: dict[Hashable, int] = {}
    for stream in sorted(streams):
        least.setdefault(sets.top(stream), stream)
    found = {stream: least[sets.top(stream)] for stream in streams}
    return found if frames is None else packed(found, frames)


def rows_by_tie(ties: Iterable[pa.RecordBatch]) -> TieRows:
    """Rows of TIES, by what they are."""
    rows: TieRows = {}
    for row in (row for batch in ties for row in batch.to_pylist()):
        rows.setdefault(row["tie"], []).append(row)
    return rows


def owner_of(row: Row) -> Owner:
    """Whom a row of TIES speaks of."""
    return row["stream"], row["side"], row["owner"]


def same_ports(streams: Mapping[int, Stream]) -> Iterator[tuple[int, Thing]]:
    """Connections with their addresses and ports."""
    return ((one.number, ("ports", (one.client, one.server))) for one in streams.values())


def strange(rows: TieRows) -> Iterator[Row]:
    """Ledgers of consumers before they subscribe, and names of producers before they are opened."""
    for opening, speaking, side in (("SUBSCRIBE", "ledger", "consumer"), ("PRODUCER", "sender", "producer")):
        opened: dict[Owner, int] = {}
        for row in rows.get(opening, ()):
            opened[owner_of(row)] = min(row["place"], opened.get(owner_of(row), _NEVER))
        for row in rows.get(speaking, ()):
            if row["side"] == side and row["place"] < opened.get(owner_of(row), _NEVER):
                yield row


def tied_by_strangers(rows: TieRows) -> Iterator[tuple[Row, Thing]]:
    """Rows with ledgers and with names of producers that tie, each with what it is tied to.

    A producer that was closed may have sent after that, which is as if it had not been opened.
    """
    closed = {owner_of(row) for row in rows.get("CLOSE_PRODUCER", ())}
    found = [*strange(rows), *(row for row in rows.get("sender", ()) if owner_of(row) in closed)]
    ledgers = {row["ledger"] for row in found if row["tie"] == "ledger"}
    names = {row["text"] for row in found if row["tie"] == "sender"}
    yield from ((row, ("ledger", row["ledger"])) for row in rows.get("ledger", ()) if row["ledger"] in ledgers)
    yield from ((row, ("name", row["text"])) for row in found if row["tie"] == "sender")
    yield from ((row, ("name", row["text"])) for row in rows.get("PRODUCER", ()) if row["text"] in names)


def by_proxy(rows: TieRows, streams: Mapping[int, Stream]) -> Iterator[tuple[int, int]]:
    """The second legs, each with what may be its first."""
    connected: dict[int, list[int]] = {}
    for row in rows.get("CONNECTED", ()):
        connected.setdefault(row["stream"], []).append(row["place"])
    fronts: deque[tuple[int, Stream, str]] = deque(maxlen=_MOST_FRONTS)
    for row in sorted(rows.get("CONNECT", ()), key=lambda row: int(row["place"])):
        place, back = row["place"], streams[row["stream"]]
        while fronts and fronts[0][0] < place:
            fronts.popleft()
        for until, front, url in fronts:
            if until > place and front.server != back.server and _leads(front, url, back):
                yield front.number, back.number
        until = min((one for one in connected.get(back.number, ()) if one > place), default=_NEVER)
        fronts.append((until, back, row["text"]))


def _leads(front: Stream, url: str, back: Stream) -> bool:
    return front.server[0] == back.client[0] or url.rpartition("/")[2] == f"{back.server[0]}:{back.server[1]}"


def packed(found: Mapping[int, int], frames: Mapping[int, int]) -> dict[int, int]:
    """Put small groups together, neighbours first."""
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
