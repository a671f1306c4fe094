"""Chunked messages: their chunks, each an entry of its own, as one row.

Rules of this file
1. Chunks belong together by topic and uuid. The row has the id of the last chunk, as clients name such a message.
2. What a subscription has not acknowledged of it is counted in chunks (observe/tracking: deliveries, settling).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.observe.tracking.entry_metadata import FIELD, number_of, pull_fields, text_of
from pcli.codec.observe.tracking.records.lifecycle import MOST_CHUNKS
from pcli.codec.wire.frame import Frame
from pcli.spark.columnar.frame_columns import short
from pcli.spark.columnar.lifecycles.bucket_rows import consumers_of
from pcli.spark.columnar.lifecycles.entry_history import Sub
from pcli.spark.columnar.lifecycles.event_histories import Parts, Row, finish, follow, story_of
from pcli.spark.columnar.lifecycles.lifecycle_schemas import MESSAGES
from pcli.spark.columnar.lifecycles.recording_facts import Known
from pcli.spark.columnar.lifecycles.state_certainty import Story, weigh

__all__ = ["is_chunk", "join_chunks"]

_Place = tuple[int, int]

_Name = tuple[str, str, int]
"""Topic and uuid, and a number of its own for each further message of the same two; the first has 0."""


def is_chunk(head: bytes) -> bool:
    """Whether a MESSAGE brought a chunk; ``head`` are its bytes up to the payload."""
    return bool(_chunk(head)[0])


def _chunk(head: bytes) -> tuple[str, int, int]:
    """uuid, number of the chunk, number of chunks; an empty uuid: it is none."""
    parts = Frame.of(head).parts
    fields = pull_fields(head, parts.metadata_start, parts.metadata_end) if parts.metadata_start >= 0 else {}
    if FIELD["chunk_id"] not in fields:
        return "", -1, 0
    chunk, count = number_of(fields, FIELD["chunk_id"]), number_of(fields, FIELD["num_chunks_from_msg"])
    return text_of(fields, FIELD["uuid"]), short(chunk), short(count)


def join_chunks(consumed: pa.Table, settled: pa.Table, known: Known, cluster: str) -> pa.Table:
    """MESSAGES of chunked messages: ``consumed`` are the chunks of all buckets, ``settled`` those of `settle`, all."""
    settled = settled.filter(pc.not_equal(settled.column("uuid"), ""))
    whole: dict[_Name, Parts] = {}
    by_place: dict[_Place, list[Row]] = defaultdict(list)
    for row in consumers_of(consumed, known).rows():
        by_place[row["ledger"], row["entry"]].append(row)
    places: dict[_Name, dict[_Place, int]] = defaultdict(dict)
    counts: dict[_Name, int] = {}
    taken: set[_Place] = set()
    for one in settled.to_pylist():
        name = one["topic"], one["uuid"], 0
        if name in whole:
            name = one["topic"], one["uuid"], len(whole)
        whole[name], counts[name] = Parts(settled=one), one["chunks"]
        places[name] = {(at["ledger"], at["entry"]): at["id"] for at in one["entries"] if at["ledger"] >= 0}
        taken.update(places[name])
    for place, rows in by_place.items():
        if place not in taken:
            _begin(place, rows, known, whole, places, counts)
    found = []
    for name, parts in whole.items():
        found.append(_row(name[1], parts, places[name], counts[name], by_place, known, cluster))
    return pa.Table.from_pylist(weigh(found, known), MESSAGES)


def _begin(place: _Place, rows: list[Row], known: Known, whole: Any, places: Any, counts: Any) -> None:
    """A chunk whose SEND was not seen."""
    row = next(one for one in rows if one["head"] is not None)
    uuid, chunk, count = _chunk(row["head"])
    topic = known.sessions[row["session"]].topic if row["session"] >= 0 else known.ledgers.get(place[0], "")
    name = topic, uuid, 0
    whole.setdefault(name, Parts()).consumed += rows
    places[name][place] = chunk
    counts[name] = count


def _row(
    uuid: str, parts: Parts, places: dict[_Place, int], count: int, by_place: dict[_Place, list[Row]], known: Known,
    cluster: str,
) -> Story:  # fmt: skip
    if parts.settled is None:
        parts.consumed.sort(key=lambda one: (one["delivered_number"] < 0, one["delivered_number"]))
    own, parts.consumed = parts.consumed, [] if parts.settled is not None else parts.consumed[:1]
    row = story_of(parts, known, cluster).row
    row["producer"]["messages"] = 1
    row["state"] = row["state"] if parts.settled is not None and not parts.settled["stored"] else ""
    parts.consumed = own + [one for place in places for one in by_place[place] if parts.settled is not None]
    subs: dict[int, Sub] = {}
    for place in places:
        for number, sub in follow(by_place[place], known, 1, row["topic"]).items():
            if number not in subs:
                subs[number] = sub
            else:
                subs[number].handed += sub.handed
                subs[number].left += sub.left
    for sub in subs.values():
        sub.handed.sort(key=lambda one: one.number)
    if places and parts.settled is None:
        row["ledger"], row["entry"] = max(places)
    entries = (
        parts.settled["entries"]
        if parts.settled is not None
        else [{"id": chunk, "ledger": at[0], "entry": at[1]} for at, chunk in list(places.items())[:MOST_CHUNKS]]
    )
    entries = [{name: None if value == -1 else value for name, value in one.items()} for one in entries]
    row["chunk"] = {"uuid": uuid, "count": count, "entries": entries}
    return finish(row, subs, known, parts)
