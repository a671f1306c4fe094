"""Messages that the driver completes: chunked messages, and messages that need a cumulative ACK of a different bucket.

Rules of this file
1. A chunked message is one row for all its chunks; each chunk is an entry. Chunks of a message have the same topic and
   uuid. The row has the id of the last chunk, which client libraries also use.
2. The unacknowledged part of a chunked message is counted in chunks, as pcli.codec.observe.tracking counts it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.observe.tracking.entry_metadata import FIELD, number_of, pull_fields, text_of
from pcli.codec.observe.tracking.records.lifecycle import MOST_CHUNKS
from pcli.codec.wire.frame import Frame
from pcli.spark.columnar.frame_columns import Longs, short
from pcli.spark.columnar.lifecycles.bucket_rows import consumers_of
from pcli.spark.columnar.lifecycles.entry_history import EntryAtSubscription
from pcli.spark.columnar.lifecycles.event_histories import (
    MessageRows,
    Row,
    finish_row,
    message_of,
    replay_at_subscriptions,
)
from pcli.spark.columnar.lifecycles.lifecycle_schemas import MESSAGES
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.state_certainty import MessageHistory, add_evidence

AckQuestions = tuple[Longs, Longs, Longs, Longs]
"""Subscriptions, ledgers, entries, and frames: the first cumulative ACK after the frame that covers the position."""


def questions_of(chunks: pa.Table, left: Sequence[MessageRows], facts: RecordingFacts) -> AckQuestions:
    """Return the cumulative ACKs that `messages_of_driver` needs."""
    consumers = consumers_of(chunks.combine_chunks(), facts)
    names = ("sub", "ledger", "entry", "delivered_number")
    rows = [tuple(one[name] for name in names) for some in left for one in some.consumed]
    more = np.array(rows, np.int64).reshape(-1, 4)
    columns = (consumers.sub, consumers.ledger, consumers.entry, consumers.delivered)
    sub, ledger, entry, since = (np.concatenate([one, more[:, at]]) for at, one in enumerate(columns))
    kept = np.isin(sub, list(facts.later_acks)) & (since >= 0)
    return sub[kept], ledger[kept], entry[kept], since[kept]


def messages_of_driver(
    chunks: pa.Table, left: Sequence[MessageRows], resolved: pa.Table, facts: RecordingFacts, cluster: str
) -> tuple[pa.Table, pa.Table, list[ChunkIds]]:
    """Return MESSAGES of these rows of all buckets: of usual messages, and of chunked messages with their ids.

    ``facts.cumulative_acks`` contains the answers.
    """
    rest = add_evidence([message_of(one, facts, cluster) for one in left], facts)
    return pa.Table.from_pylist(rest, MESSAGES), *join_chunks(chunks, resolved, facts, cluster)


_Place = tuple[int, int]

_Name = tuple[str, str, int]
"""Topic, uuid, and a counter of messages with this topic and uuid, from 0."""


@dataclass(frozen=True, slots=True)
class ChunkIds:
    """The ids of a chunked message."""

    places: list[_Place]
    """Ledger and entry of each captured chunk."""
    sent_number: int
    """Its SEND in RESOLVED; -1 if none was captured."""


def is_chunk(head: bytes) -> bool:
    """Return whether a MESSAGE contains a chunk; ``head`` contains its bytes up to the payload."""
    return bool(_chunk(head)[0])


def _chunk(head: bytes) -> tuple[str, int, int]:
    """Return uuid, chunk number and number of chunks; the uuid is empty if the MESSAGE is not a chunk."""
    parts = Frame.of(head).parts
    fields = pull_fields(head, parts.metadata_start, parts.metadata_end) if parts.metadata_start >= 0 else {}
    if FIELD["chunk_id"] not in fields:
        return "", -1, 0
    chunk, count = number_of(fields, FIELD["chunk_id"]), number_of(fields, FIELD["num_chunks_from_msg"])
    return text_of(fields, FIELD["uuid"]), short(chunk), short(count)


def join_chunks(
    consumed: pa.Table, resolved: pa.Table, facts: RecordingFacts, cluster: str
) -> tuple[pa.Table, list[ChunkIds]]:
    """Return MESSAGES of chunked messages, and the ids of each row.

    ``consumed`` contains the chunks of all buckets; ``resolved`` contains all rows of `resolve_sends`.
    """
    resolved = resolved.filter(pc.not_equal(resolved.column("uuid"), ""))
    whole: dict[_Name, MessageRows] = {}
    by_place: dict[_Place, list[Row]] = defaultdict(list)
    for row in consumers_of(consumed, facts).rows():
        by_place[row["ledger"], row["entry"]].append(row)
    places: dict[_Name, dict[_Place, int]] = defaultdict(dict)
    counts: dict[_Name, int] = {}
    taken: set[_Place] = set()
    for one in resolved.to_pylist():
        name = one["topic"], one["uuid"], 0
        if name in whole:
            name = one["topic"], one["uuid"], len(whole)
        whole[name], counts[name] = MessageRows(resolved=one), one["chunks"]
        places[name] = {(at["ledger"], at["entry"]): at["id"] for at in one["entries"] if at["ledger"] >= 0}
        taken.update(places[name])
    for place, rows in sorted(by_place.items(), key=_first_delivery):
        if place not in taken:
            _begin(place, rows, facts, whole, places, counts)
    found, ids = [], []
    for name, parts in whole.items():
        ids.append(ChunkIds(list(places[name]), -1 if parts.resolved is None else parts.resolved["sent_number"]))
        found.append(_row(name[1], parts, places[name], counts[name], by_place, facts, cluster))
    return pa.Table.from_pylist(add_evidence(found, facts), MESSAGES), ids


def _first_delivery(chunk: tuple[_Place, list[Row]]) -> int:
    first: int = min(one["delivered_number"] for one in chunk[1] if one["delivered_number"] >= 0)
    return first


def _begin(place: _Place, rows: list[Row], facts: RecordingFacts, whole: Any, places: Any, counts: Any) -> None:
    """Add a chunk whose SEND was not captured."""
    row = next(one for one in rows if one["head"] is not None)
    uuid, chunk, count = _chunk(row["head"])
    topic = facts.sessions[row["session"]].topic if row["session"] >= 0 else facts.ledger_topics.get(place[0], "")
    name = topic, uuid, 0
    whole.setdefault(name, MessageRows()).consumed += rows
    places[name][place] = chunk
    counts[name] = count


def _row(
    uuid: str, parts: MessageRows, places: dict[_Place, int], count: int, by_place: dict[_Place, list[Row]],
    facts: RecordingFacts, cluster: str,
) -> MessageHistory:  # fmt: skip
    if parts.resolved is None:
        parts.consumed.sort(key=lambda one: (one["delivered_number"] < 0, one["delivered_number"]))
    own, parts.consumed = parts.consumed, [] if parts.resolved is not None else parts.consumed[:1]
    row = message_of(parts, facts, cluster).row
    row["producer"]["messages"] = 1
    row["state"] = row["state"] if parts.resolved is not None and not parts.resolved["stored"] else ""
    parts.consumed = own + [one for place in places for one in by_place[place] if parts.resolved is not None]
    subs: dict[int, EntryAtSubscription] = {}
    for place in places:
        for number, sub in replay_at_subscriptions(by_place[place], facts, 1, row["topic"]).items():
            if number not in subs:
                subs[number] = sub
            else:
                subs[number].deliveries += sub.deliveries
                subs[number].unacked += sub.unacked
    for sub in subs.values():
        sub.deliveries.sort(key=lambda one: one.number)
    if places and parts.resolved is None:
        row["ledger"], row["entry"] = max(places)
    entries = (
        parts.resolved["entries"]
        if parts.resolved is not None
        else [{"id": chunk, "ledger": at[0], "entry": at[1]} for at, chunk in list(places.items())[:MOST_CHUNKS]]
    )
    entries = [{name: None if value == -1 else value for name, value in one.items()} for one in entries]
    row["chunk"] = {"uuid": uuid, "count": count, "entries": entries}
    return finish_row(row, subs, facts, parts)
