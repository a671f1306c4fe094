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

__all__ = ["PACKED_FRAMES", "groups_of"]

PACKED_FRAMES: Final = 100_000
"""Small groups are put together until they have so many frames."""

_MOST_FRONTS: Final = 256
"""As many connections that wait for CONNECTED as tracking.legs remembers."""

_NEVER: Final = 1 << 62

_Row = dict[str, Any]
_Edge = tuple[int, Hashable]


def groups_of(
    ties: Iterable[pa.RecordBatch], streams: Mapping[int, Stream], frames: Mapping[int, int] | None = None
) -> dict[int, int]:
    """For each connection its group: the least connection in it.

    ``ties``: rows of TIES of the whole recording, in any order; ``streams``: all connections; ``frames``: how many
    frames each has: groups with few are put together.
    """
    rows: dict[str, list[_Row]] = {}
    for row in (row for batch in ties for row in batch.to_pylist()):
        rows.setdefault(row["tie"], []).append(row)
    sets = _Sets()
    for stream, other in (
        *((one.number, (one.client, one.server)) for one in streams.values()),
        *((row["stream"], (tie, row["text"])) for tie in ("topic", "transaction") for row in rows.get(tie, ())),
        *_by_ledger(rows),
        *_by_name(rows),
        *_by_proxy(rows, streams),
    ):
        sets.join(stream, other)
    found = {stream: sets.least(stream) for stream in streams}
    return found if frames is None else _packed(found, frames)


class _Sets:
    """Sets of connections and of what ties them, joined again and again."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}
        self._least: dict[Hashable, int] = {}

    def join(self, stream: int, other: Hashable) -> None:
        one, two = self._top(stream), self._top(other)
        if one != two:
            self._above[two] = one
            least = self._least.pop(two, stream)
            self._least[one] = min(self._least.get(one, stream), least)

    def least(self, stream: int) -> int:
        """The least connection of its set."""
        return self._least.get(self._top(stream), stream)

    def _top(self, item: Hashable) -> Hashable:
        path = []
        while (above := self._above.get(item, item)) != item:
            path.append(item)
            item = above
        for one in path:
            self._above[one] = item
        return item


def _first(rows: Iterable[_Row]) -> dict[tuple[int, int], int]:
    """When each owner on each connection was named first."""
    found: dict[tuple[int, int], int] = {}
    for row in rows:
        key = (row["stream"], row["owner"])
        found[key] = min(row["place"], found.get(key, _NEVER))
    return found


def _by_ledger(rows: Mapping[str, list[_Row]]) -> Iterator[_Edge]:
    subscribed = _first(rows.get("SUBSCRIBE", ()))
    seen = rows.get("ledger", [])
    wanted = {
        row["ledger"]
        for row in seen
        if row["owner"] >= 0 and row["place"] < subscribed.get((row["stream"], row["owner"]), _NEVER)
    }
    return ((row["stream"], ("ledger", row["ledger"])) for row in seen if row["ledger"] in wanted)


def _by_name(rows: Mapping[str, list[_Row]]) -> Iterator[_Edge]:
    asked, closed = rows.get("PRODUCER", []), rows.get("CLOSE_PRODUCER", ())
    opened, ended = _first(asked), {(row["stream"], row["owner"]) for row in closed}
    nameless = []
    for row in rows.get("sender", ()):
        key = (row["stream"], row["owner"])
        if key in ended or row["place"] < opened.get(key, _NEVER):
            nameless.append(row)
    names = {row["text"] for row in nameless}
    yield from ((row["stream"], ("name", row["text"])) for row in nameless)
    yield from ((row["stream"], ("name", row["text"])) for row in asked if row["text"] in names)


def _by_proxy(rows: Mapping[str, list[_Row]], streams: Mapping[int, Stream]) -> Iterator[_Edge]:
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


def _packed(found: Mapping[int, int], frames: Mapping[int, int]) -> dict[int, int]:
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
