"""Permits of consumers over time, in columns: permits granted by FLOWs and used by MESSAGEs, by session and bucket.

Rules of this file
1. Permits are counted according to the rules of permit_ledger.py: a FLOW adds permits, and a MESSAGE uses the size of
   its batch minus the messages that its ack set excludes. The size comes from the MESSAGE; it is 1 if the metadata was
   not captured.
2. A window yields changes. A change contains the sums and the lowest prefix sum of a run of frames: the frames of one
   consumer within one bucket and between two events of its connection. Changes do not depend on how a session began.
3. permit_sessions.py scans the sums of each connection and computes the balance at the start of each part. These
   balances are used to convert the changes to rows (`permit_rows`). Rows of the same session and bucket from different
   windows or cuts are merged (`merge_permits`): the merged row has the sums, the minimum of the lowest balances, and
   the last balance. The table is therefore independent of the cuts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.observe.system_topics import is_system_subscription, is_system_topic
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import MESSAGE
from pcli.spark.columnar.frame_columns import Frames, Longs
from pcli.spark.columnar.permits.permit_sessions import TOTALS, event_rows, events_of
from pcli.spark.columnar.table_schema import BOOL, LONG, TEXT, column

BUCKET_NS: Final = 1_000_000_000
"""Length of a bucket in ns."""

CHANGES: Final = pa.schema(
    [
        *(TOTALS.field(name) for name in ("cut", "stream", "owner", "segment")),
        column("bucket_ns", LONG, "start of the bucket"),
        column("granted", LONG, "permits of the FLOWs"),
        column("used", LONG, "messages of the MESSAGEs"),
        column("lowest", LONG, "lowest difference of permits and messages after any frame"),
        column("frames", LONG, "number of FLOWs and MESSAGEs"),
        column("first_ns", LONG, "time of the earliest frame"),
        column("last_ns", LONG, "time of the latest frame"),
        column("first_frame", LONG, "number of the first frame"),
        column("last_frame", LONG, "number of the last frame"),
    ]
)
"""A row of sums for a run of frames of a consumer within one bucket, between two events."""

PERMITS: Final = pa.schema(
    [
        column("cluster", TEXT, "label of the cluster of the captures").with_nullable(nullable=False),
        column("topic", TEXT, "full name; null if the SUBSCRIBE was not captured"),
        column("subscription", TEXT, "name; null if it is unknown"),
        column("consumer", TEXT, "name in SUBSCRIBE; null if there is none or it is unknown"),
        column("system", BOOL, "true if the topic or the subscription is internal to the broker"),
        column("connection", LONG, "tcp.stream"),
        column("consumer_id", LONG, "its id on that connection"),
        column(
            "session",
            LONG,
            "frame of the SUBSCRIBE of this session; 0 if it was not captured, and balances are then relative",
        ),
        column("bucket_ns", LONG, "start of this second; seconds without FLOWs and MESSAGEs have no row"),
        column("granted", LONG, "permits granted by the FLOWs of this second, before the end of the session"),
        column(
            "used",
            LONG,
            "messages delivered in this second, excluding messages of a batch that were already acknowledged",
        ),
        column("balance", LONG, "permits at the end of the second"),
        column("lowest", LONG, "lowest balance after any frame of this second"),
        column("frames", LONG, "number of FLOWs and MESSAGEs"),
        column("first_ns", LONG, "time of the earliest of these frames"),
        column("last_ns", LONG, "time of the latest of these frames"),
        column("first_frame", LONG, "number of the first of these frames"),
        column("last_frame", LONG, "number of the last of these frames"),
    ]
)
PERMITS_ORDER: Final = ("cluster", "connection", "consumer_id", "session", "bucket_ns")

_FLOW: Final = BY_NAME["FLOW"].number
_PART: Final = ("cut", "stream", "owner", "segment")


@dataclass(frozen=True, slots=True)
class PermitParts:
    """The result for one window. The caller may replace the columns place, first_frame, last_frame, stream and cut."""

    changes: pa.RecordBatch
    """Rows of CHANGES."""
    events: pa.RecordBatch
    """Rows of permit_sessions.EVENTS."""


def costs(frames: Frames) -> Longs:
    """Return the number of permits that each MESSAGE uses. The values in the rows of other frames are undefined."""
    size = np.maximum(frames.batch, 1)
    sets = np.flatnonzero((frames.type == MESSAGE) & (frames.set_end > frames.set_start))
    if not len(sets):
        return size
    starts, counts = frames.set_start[sets], (frames.set_end - frames.set_start)[sets]
    owner = np.repeat(np.arange(len(sets)), counts)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Bits beyond the size of the batch are not counted, so the last word is masked.
    bits = np.clip(size[sets][owner] - 64 * nth, 0, 64).astype(np.uint64)
    words = frames.words[starts[owner] + nth].astype(np.uint64)
    kept = np.where(bits >= 64, words, words & ((np.uint64(1) << np.minimum(bits, np.uint64(63))) - np.uint64(1)))
    left = np.bincount(owner, np.bitwise_count(kept), len(sets)).astype(np.int64)
    size[sets] = left
    return size


def permit_parts(frames: Frames, numbers: Longs, *, cut: int = 0, seen: Counter[int] | None = None) -> PermitParts:
    """Return the changes and events of a window; ``numbers`` contains the numbers of its frames.

    ``cut`` labels a window, or several consecutive windows. For several windows, pass ``seen``, the number of earlier
    events of each connection in the cut, which this function updates.
    """
    places = frames.places
    rows = np.flatnonzero(((frames.type == _FLOW) | (frames.type == MESSAGE)) & (frames.owner >= 0))
    segments = _segments(frames, rows, Counter() if seen is None else seen)
    order = np.lexsort((rows, segments, frames.owner[rows], places.stream[rows]))
    rows, segments = rows[order], segments[order]
    times, flows = places.time_ns[rows], frames.type[rows] == _FLOW
    keys = [places.stream[rows], frames.owner[rows], segments, times - times % BUCKET_NS]
    first = _beginnings(keys)
    granted = np.where(flows, np.maximum(frames.messages[rows], 0), 0)
    used = np.where(flows, 0, costs(frames)[rows])
    last = np.append(first, len(rows))[1:] - 1
    sums = np.cumsum(granted - used)
    columns: dict[str, Any] = {
        "cut": np.full(len(first), cut, np.int64),
        **dict(zip(("stream", "owner", "segment", "bucket_ns"), (key[first] for key in keys), strict=True)),
        "granted": _sum(granted, first),
        "used": _sum(used, first),
        "lowest": _each(np.minimum, sums, first) - (sums - granted + used)[first],
        "frames": last - first + 1,
        "first_ns": _each(np.minimum, times, first),
        "last_ns": _each(np.maximum, times, first),
        "first_frame": numbers[rows[first]],
        "last_frame": numbers[rows[last]],
    }
    changes = pa.RecordBatch.from_arrays([pa.array(columns[name], LONG) for name in CHANGES.names], schema=CHANGES)
    return PermitParts(changes, events_of(frames, numbers))


def _segments(frames: Frames, rows: Longs, seen: Counter[int]) -> Longs:
    """Return the number of earlier events of the connection for each of ``rows``."""
    events, size, streams = event_rows(frames), len(frames), frames.places.stream
    keys = np.sort(streams[events] * size + events)
    found: Longs = np.searchsorted(keys, streams[rows] * size + rows) - np.searchsorted(keys, streams[rows] * size)
    known, place = np.unique(streams[rows], return_inverse=True)
    found += np.array([seen[stream] for stream in known.tolist()], np.int64)[place]
    seen.update(streams[events].tolist())
    return found


def _beginnings(keys: Sequence[Longs]) -> Longs:
    """Return the rows in which any of the columns differs from the previous row."""
    size = len(keys[0])
    changed = np.zeros(size, np.bool_)
    changed[:1] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changed)


def _sum(values: Longs, first: Longs) -> Longs:
    return _each(np.add, values, first)


def _each(what: np.ufunc, values: Longs, first: Longs) -> Longs:
    """Reduce each run of rows, given the first row of each run."""
    found: Longs = what.reduceat(values, first) if len(first) else np.zeros(0, np.int64)
    return found


def permit_totals(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Return the sums of each part of a session for PermitSessions; ``changes`` are all changes of one or more cuts."""
    how = [("first_frame", "min"), ("granted", "sum"), ("used", "sum")]
    found = pa.Table.from_batches([changes]).group_by(list(_PART), use_threads=False).aggregate(how)
    columns = [found[name].combine_chunks() for name in (*_PART, *("_".join(one) for one in how))]
    return pa.RecordBatch.from_arrays(columns, schema=TOTALS)


def permit_rows(changes: pa.RecordBatch, starts: pa.RecordBatch, *, cluster: str = "") -> pa.RecordBatch:
    """Return rows of PERMITS, not yet merged, from all changes of a cut and the starts of its parts.

    If a part has no start (its stream is excluded), its changes yield no rows.
    """
    table, known = pa.Table.from_batches([changes]), pa.Table.from_batches([starts])
    joined = table.join(known, list(_PART), join_type="inner", use_threads=False)
    joined = joined.sort_by([(name, "ascending") for name in (*_PART, "first_frame")]).combine_chunks()
    columns = {name: joined[name].to_numpy() for name in joined.column_names if joined[name].type == LONG}
    counts = joined["counts"].to_numpy(zero_copy_only=False)
    granted, used = np.where(counts, columns["granted"], 0), columns["used"]
    sums = np.cumsum(granted - used)
    first = _beginnings([columns[name] for name in _PART])
    lengths = np.diff(np.append(first, len(sums)))
    before = columns["start"] + sums - granted + used - np.repeat((sums - granted + used)[first], lengths)
    values = columns | {
        "connection": columns["stream"],
        "consumer_id": columns["owner"],
        "granted": granted,
        "balance": before + granted - used,
        "lowest": before + np.where(counts, columns["lowest"], -used),
    }
    arrays = {name: pa.array(values[name], LONG) for name in PERMITS.names if name in values}
    texts = {name: joined[name].combine_chunks() for name in ("topic", "subscription", "consumer")}
    arrays |= {"cluster": pa.array([cluster] * len(sums), TEXT), **texts}
    arrays["system"] = _system(texts["topic"], texts["subscription"])
    return pa.RecordBatch.from_arrays([arrays[name] for name in PERMITS.names], schema=PERMITS)


def _system(topics: pa.Array, subscriptions: pa.Array) -> pa.Array:
    pairs = zip(topics.to_pylist(), subscriptions.to_pylist(), strict=True)
    known: dict[tuple[str | None, str | None], bool] = {}
    found = []
    for pair in pairs:
        if pair not in known:
            known[pair] = is_system_topic(pair[0] or "") or is_system_subscription(pair[1] or "")
        found.append(known[pair])
    return pa.array(found, BOOL)


def merge_permits(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Merge rows of PERMITS to one row for each session and bucket, in PERMITS_ORDER."""
    table = pa.Table.from_batches(batches, PERMITS).sort_by([("last_frame", "ascending")])
    keys = [name for name in PERMITS.names if name not in _HOW]
    found = table.group_by(keys, use_threads=False).aggregate(list(_HOW.items()))
    names = [f"{name}_{_HOW[name]}" if name in _HOW else name for name in PERMITS.names]
    rows = found.select(names).rename_columns(PERMITS.names).cast(PERMITS)
    ordered = rows.sort_by([(name, "ascending") for name in PERMITS_ORDER]).combine_chunks()
    return pa.RecordBatch.from_arrays([one.combine_chunks() for one in ordered.columns], schema=PERMITS)


_HOW: Final = {
    "granted": "sum",
    "used": "sum",
    "balance": "last",
    "lowest": "min",
    "frames": "sum",
    "first_ns": "min",
    "last_ns": "max",
    "first_frame": "min",
    "last_frame": "max",
}
"""Functions that merge rows of the same session and bucket. The other columns of PERMITS are the key of a row."""
