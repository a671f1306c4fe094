"""All figures of the report about messages, computed in one pass. The memory depends on names, not on messages.

Rules of this file
1. Columns are processed in batches, without an object per message; only the few slowest messages are kept as rows.
2. Durations are differences of the capture's timestamps. Publish: from SEND to SEND_RECEIPT. Dispatch: from SEND to the
   first MESSAGE of a subscription. Ack: from the first MESSAGE to a consumer to its ACK of the entry.
3. At the end of an interval, a consumer holds the messages that were delivered to it and not yet acknowledged. If an
   entry is delivered to a different consumer of the subscription, the first consumer no longer holds it, because it
   disconnected or sent a negative acknowledgement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.report.histograms import Histograms, Keys

__all__ = ["COLUMNS", "MessageFigures", "Span", "gather"]

COLUMNS: Final = ("cluster", "topic", "ledger", "entry", "producer", "deliveries", "marker", "state", "evidence")
"""The columns of ``messages`` that `gather` reads."""

SLOWEST: Final = 20
"""Number of slowest messages that the report shows."""

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """The time range of the report, in intervals of equal length."""

    first_ns: int
    last_ns: int
    stretches: int = 120

    @property
    def seconds(self) -> float:
        """Length of an interval."""
        return max(self.last_ns - self.first_ns, 1_000_000) / self.stretches / 1e9

    def places(self, times_ns: Longs) -> Longs:
        """Return the index of the interval for each time."""
        return ((times_ns - self.first_ns) / (self.seconds * 1e9)).astype(np.int64).clip(0, self.stretches - 1)

    def begins(self) -> list[float]:
        """Return the start of each interval, in seconds from the start of the range."""
        return [index * self.seconds for index in range(self.stretches)]


class _IntervalCounts:
    """Counts by key and interval."""

    def __init__(self, keys: Keys, span: Span) -> None:
        self._keys, self._span = keys, span
        self.counts = np.zeros((0, span.stretches), np.int64)

    def add(self, keys: Longs, times_ns: Longs, amounts: Longs) -> None:
        more = len(self._keys.names) - len(self.counts)
        if more > 0:
            self.counts = np.vstack([self.counts, np.zeros((more, self._span.stretches), np.int64)])
        np.add.at(self.counts, (keys, self._span.places(times_ns)), amounts)


@dataclass(slots=True)
class MessageFigures:
    """The figures of all messages."""

    span: Span
    entries: int = 0
    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Entries by state and evidence."""
    topics: Keys = field(default_factory=Keys)
    """(cluster, topic)."""
    subscriptions: Keys = field(default_factory=Keys)
    """(cluster, topic, subscription)."""
    consumers: Keys = field(default_factory=Keys)
    """(cluster, topic, subscription, consumer)."""
    publish: Histograms = field(init=False)
    dispatch: Histograms = field(init=False)
    ack: Histograms = field(init=False)
    published: _IntervalCounts = field(init=False)
    delivered: _IntervalCounts = field(init=False)
    acked: _IntervalCounts = field(init=False)
    held: _IntervalCounts = field(init=False)
    """Deliveries minus removals in each interval, by consumer. The running sum is the number of held messages."""
    redelivered: Counter[int] = field(default_factory=Counter)
    """Entries that were delivered more than once, by subscription number."""
    left: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Unacknowledged messages by evidence (a key of EVIDENCE), then by subscription number."""
    slowest: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """(duration in ns from SEND to the last ACK or delivery, row), slowest first."""

    def __post_init__(self) -> None:
        self.publish, self.dispatch, self.ack = (
            Histograms(self.topics), Histograms(self.subscriptions), Histograms(self.subscriptions),
        )  # fmt: skip
        self.published, self.delivered, self.acked, self.held = (
            _IntervalCounts(keys, self.span)
            for keys in (self.topics, self.subscriptions, self.subscriptions, self.consumers)
        )


def gather(batches: Iterable[pa.RecordBatch], span: Span) -> MessageFigures:
    """Compute the figures of all messages from batches with COLUMNS, in any order."""
    figures = MessageFigures(span)
    for batch in batches:
        batch = batch.filter(pc.invert(batch["marker"]))
        if batch.num_rows:
            _count(figures, batch)
            _take_published(figures, batch)
            _take_deliveries(figures, batch)
    return figures


def _count(figures: MessageFigures, batch: pa.RecordBatch) -> None:
    figures.entries += batch.num_rows
    pairs = pa.table({"state": batch["state"], "evidence": batch["evidence"]}).group_by(["state", "evidence"])
    for row in pairs.aggregate([([], "count_all")]).to_pylist():
        figures.states[row["state"], row["evidence"]] += row["count_all"]


def _take_published(figures: MessageFigures, batch: pa.RecordBatch) -> None:
    producer = batch["producer"]
    keys = figures.topics.numbers(batch["cluster"], batch["topic"])
    sent, receipt = _field(producer, "sent_ns"), _field(producer, "receipt_ns")
    seen = sent >= 0
    figures.published.add(keys[seen], sent[seen], np.maximum(_field(producer, "messages"), 1)[seen])
    both = seen & (receipt >= 0)
    figures.publish.add(keys[both], (receipt - sent)[both])


def _take_deliveries(figures: MessageFigures, batch: pa.RecordBatch) -> None:
    deliveries = batch["deliveries"]
    parent = pc.list_parent_indices(deliveries)
    flat = pc.list_flatten(deliveries)
    rows = parent.to_numpy(zero_copy_only=False).astype(np.int64)
    cluster, topic = batch["cluster"].take(parent), batch["topic"].take(parent)
    subscription, consumer = pc.struct_field(flat, "subscription"), pc.struct_field(flat, "consumer")
    groups = figures.subscriptions.numbers(cluster, topic, subscription)
    owners = figures.consumers.numbers(cluster, topic, subscription, consumer)
    sent = _field(batch["producer"], "sent_ns")[rows]
    came, acked = _field(flat, "delivered_ns"), _field(flat, "acked_ns")
    messages = np.maximum(_field(flat, "messages"), 1)
    there, was_acked, both = came >= 0, acked >= 0, (came >= 0) & (acked >= 0)
    pairs = rows * len(figures.subscriptions.names) + groups
    ends = np.where(was_acked, acked, _delivered_elsewhere(pairs, came))
    over = there & (ends >= 0)
    figures.delivered.add(groups[there], came[there], messages[there])
    figures.acked.add(groups[was_acked], acked[was_acked], messages[was_acked])
    figures.held.add(owners[over], ends[over], -messages[over])
    figures.held.add(owners[there], came[there], messages[there])
    figures.ack.add(groups[both], (acked - came)[both])
    timely = np.flatnonzero(there & (sent >= 0))
    timely = timely[np.argsort(came[timely], kind="stable")]  # after a gap, the first frame may not be the earliest
    timely = timely[np.unique(pairs[timely], return_index=True)[1]]
    figures.dispatch.add(groups[timely], (came - sent)[timely])
    _take_entries(figures, batch, flat, groups, rows, pairs)
    _take_slowest(figures, batch, rows, np.maximum(came, acked))


def _delivered_elsewhere(pairs: Longs, came_ns: Longs) -> Longs:
    """Return, for each delivery, when the entry was next delivered to a different consumer; -1 if never."""
    order = np.lexsort((came_ns, pairs))
    again = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    over = np.full(len(pairs), -1, np.int64)
    over[order[again]] = came_ns[order[again + 1]]
    return over


def _take_entries(
    figures: MessageFigures, batch: pa.RecordBatch, flat: pa.Array, groups: Longs, rows: Longs, pairs: Longs
) -> None:
    """Count each entry once per subscription, regardless of how many consumers received it."""
    left = np.maximum(_field(flat, "unacked"), 0)
    _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
    times = np.bincount(pair, _field(flat, "count"))
    figures.redelivered.update(groups[first[times > 1]].tolist())
    some = first[left[first] > 0]
    evidence = batch["evidence"].take(pa.array(rows[some])).to_pylist()
    for word, group, count in zip(evidence, groups[some].tolist(), left[some].tolist(), strict=True):
        figures.left[word][group] += count


def _take_slowest(figures: MessageFigures, batch: pa.RecordBatch, rows: Longs, ends: Longs) -> None:
    sent = _field(batch["producer"], "sent_ns")
    last = np.full(batch.num_rows, -1, np.int64)
    np.maximum.at(last, rows, ends)
    took = np.where((sent >= 0) & (last >= 0), last - sent, -1)
    for index in np.argsort(-took, kind="stable")[:SLOWEST]:
        if took[index] >= 0:
            figures.slowest.append((int(took[index]), batch.slice(int(index), 1).to_pylist()[0]))
    figures.slowest = sorted(figures.slowest, key=lambda one: -one[0])[:SLOWEST]


def _field(struct: pa.Array, name: str) -> Longs:
    """Return a numeric field of each struct; -1 for null."""
    column = pc.cast(pc.fill_null(pc.struct_field(struct, name), -1), pa.int64())
    result: Longs = column.to_numpy(zero_copy_only=False)
    return result
