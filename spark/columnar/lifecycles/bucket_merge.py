"""The merge of one bucket: rows of producers and consumers that have the same message id.

Rules of this file
1. A message is usual if three conditions are met. Each subscription received it once, or twice with a REDELIVER of its
   id in between. Each subscription acknowledged it at most once, with all messages of its entry. The columns contain
   all data of the message. Usual messages never become Python objects. event_histories.py processes all other messages
   one by one.
2. An entry that was neither published nor delivered in the capture has no row, even if it was acknowledged.
3. Three kinds of messages are not identified by message ids: messages without a receipt (message_table.py),
   chunks (messages_of_driver.py), and the messages of non-persistent topics (event_histories.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.frame_columns import Bools, Longs, ranges
from pcli.spark.columnar.lifecycles.bucket_rows import Consumers, Producers, consumers_of, producers_of
from pcli.spark.columnar.lifecycles.cumulative_acks import acks_of_bucket, first_reaching
from pcli.spark.columnar.lifecycles.event_histories import (
    MessageRows,
    message_of,
    messages_of_non_persistent_topics,
    needs_later_acks,
)
from pcli.spark.columnar.lifecycles.lifecycle_schemas import MESSAGES, TIME_ORDER
from pcli.spark.columnar.lifecycles.message_table import UsualMessages, build_table, messages_without_receipt
from pcli.spark.columnar.lifecycles.messages_of_driver import is_chunk
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.row_operations import group_starts, joint_key, longs, order_of, ranked
from pcli.spark.columnar.lifecycles.state_certainty import add_evidence

_PARTS: Final = ("group", "delivered", "acked", "cumulative_ns", "cumulative_number", "redelivered")


_AT_ONCE: Final = 8192
"""Maximum number of messages without an id from `resolve_sends` that exist as objects at the same time."""
_FEW: Final = 32
"""Maximum number of rows that are inserted one by one."""
_FAR: Final = np.iinfo(np.int64).max


@dataclass(slots=True)
class MergedBucket:
    """The result of a bucket."""

    messages: pa.Table
    """Rows of MESSAGES."""
    chunks: pa.Table
    """Rows of CONSUMED that belong to chunks. `join_chunks` combines the chunks of all buckets into messages."""
    left: list[MessageRows]
    """Messages that need a cumulative ACK of a different bucket (`messages_left`)."""


def merge_bucket(
    published: pa.Table,
    consumed: pa.Table,
    resolved: pa.Table,
    cumulative: pa.Table,
    facts: RecordingFacts,
    cluster: str,
) -> MergedBucket:
    """Return the messages of one bucket.

    ``published``, ``consumed``, ``resolved`` and ``cumulative`` are all rows of the recording whose shuffle key belongs
    to the bucket, with the recording's numbers. ``published`` lacks the rows that `separate_candidates` removed, and
    includes the SENDs without a receipt (pairs_across_splits.py).
    """
    unanswered = messages_without_receipt(published, facts, cluster)
    published = published.filter(pc.greater_equal(published.column("receipt_number"), 0))
    resolved = resolved.filter(pc.equal(resolved.column("uuid"), ""))
    producers = producers_of(published.combine_chunks(), facts)
    consumers = consumers_of(consumed.combine_chunks(), facts)
    acks = acks_of_bucket(cumulative, facts, consumers.sub, consumers.ledger, consumers.entry)
    facts = replace(facts, cumulative_acks=acks)
    non_persistent = messages_of_non_persistent_topics(producers, consumers, resolved, facts, cluster)
    producers, consumers = producers.of_persistent_topics(), consumers.of_persistent_topics()
    idless = pc.less(resolved.column("ledger"), 0)
    idless_resolved = resolved.filter(
        pc.and_(idless, pc.or_(resolved.column("persistent"), pc.invert(resolved.column("stored"))))
    )
    batches = idless_resolved.to_batches(_AT_ONCE)
    lost = ([message_of(MessageRows(resolved=one), facts, cluster) for one in some.to_pylist()] for some in batches)
    groups = _MessageGroups(producers, consumers, resolved.filter(pc.invert(idless)))
    usual = groups.usual(facts)
    found = [(one, needs_later_acks(one, facts)) for one in groups.unusual()]
    unusual = [message_of(one, facts, cluster) for one, later in found if not later]
    rest = pa.concat_tables(
        pa.Table.from_pylist(add_evidence(some, facts), MESSAGES) for some in chain([non_persistent], lost, [unusual])
    )
    table = merge_in_order(build_table(usual, facts, cluster), rest)
    left = [one for one, later in found if later]
    return MergedBucket(merge_in_order(table, unanswered), groups.chunks(), left)


def merge_in_order(usual: pa.Table, rest: pa.Table) -> pa.Table:
    """Return both tables as one table.

    If ``rest`` is short, the result is in order of time. If ``rest`` is long, its rows are appended, because inserting
    them one by one would take too long.
    """
    if not 0 < len(rest) <= _FEW or not len(usual):
        return pa.concat_tables([usual, rest])
    rest = rest.sort_by([(name, "ascending") for name in TIME_ORDER])
    times = longs(usual, "first_ns")
    pieces, at = [], 0
    for row, one in enumerate(rest.select(["first_ns", "ledger", "entry"]).to_pylist()):
        low, high = np.searchsorted(times, [one["first_ns"], one["first_ns"] + 1]).tolist()
        same = usual.slice(low, high - low).select(["ledger", "entry"]).to_pylist()
        place = low + sum(_id(other) < _id(one) for other in same)
        pieces += [usual.slice(at, place - at), rest.slice(row, 1)]
        at = place
    return pa.concat_tables([*pieces, usual.slice(at)])


def _id(row: dict[str, Any]) -> tuple[int, int]:
    """Sort key of rows with the same time; rows without an id are last."""
    ledger, entry = (_FAR if row[name] is None else row[name] for name in ("ledger", "entry"))
    return ledger, entry


class _MessageGroups:
    """Rows grouped by message id. Groups are numbered in order of ids."""

    def __init__(self, producers: Producers, consumers: Consumers, resolved: pa.Table) -> None:
        self._producers, self._consumers, self._resolved = producers, consumers, resolved
        sizes = np.cumsum([len(producers.ledger), len(consumers.ledger)])
        sides = ((producers.ledger, producers.entry), (consumers.ledger, consumers.entry),
                 (longs(resolved, "ledger"), longs(resolved, "entry")))  # fmt: skip
        key = joint_key((np.concatenate([one[0] for one in sides]), np.concatenate([one[1] for one in sides])))
        order = order_of(key)
        group = np.empty(len(key), np.int64)
        group[order] = np.cumsum(group_starts(key.take(order))) - 1
        self._of_producers, self._of_consumers, self._of_resolved = np.split(group, sizes)
        self.count = int(group.max()) + 1 if len(group) else 0
        self.published = self._first(self._of_producers)
        self.odd = np.zeros(self.count, np.bool_)
        self.odd[self._of_resolved] = True
        self.odd[self._of_consumers[consumers.unusual]] = True
        self._chunk = np.zeros(self.count, np.bool_)
        heads = consumers.table.column("head")
        if heads.null_count < len(heads):
            found = [row for row, head in enumerate(heads.to_pylist()) if head is not None and is_chunk(head)]
            self._chunk[self._of_consumers[found]] = True

    def _first(self, groups: Longs) -> Longs:
        """Return the first of these rows in each group, or -1."""
        found = np.full(self.count, -1, np.int64)
        found[groups[::-1]] = np.arange(len(groups))[::-1]
        return found

    def usual(self, facts: RecordingFacts) -> UsualMessages:
        """Return the usual messages; mark all other groups in ``odd``."""
        usual = self._deliveries(facts)
        at = np.flatnonzero(~self.odd[usual.group])
        usual = UsualMessages(*(getattr(usual, name)[at] for name in _PARTS))
        there = np.zeros(self.count, np.bool_)
        there[usual.group] = True
        there |= self.published >= 0
        usual.groups = np.flatnonzero(there & ~self.odd & ~self._chunk)
        usual.published = self.published[usual.groups]
        if self._chunk.any():
            at = np.flatnonzero(~self._chunk[usual.group])
            for name in _PARTS:
                setattr(usual, name, getattr(usual, name)[at])
        usual.producers, usual.consumers = self._producers, self._consumers
        return usual

    def _deliveries(self, facts: RecordingFacts) -> UsualMessages:
        """Return one row for each pair of message and subscription whose rows are usual."""
        consumers = self._consumers
        subs, code = ranked(consumers.sub)
        key = self._of_consumers * max(1, len(subs)) + code
        order = order_of(key)
        begins = np.flatnonzero(group_starts(key.take(order))) if len(key) else order
        if not len(begins):
            none = np.zeros(0, np.int64)
            return UsualMessages(none, none, none, none, none, none)
        pairs = _Pairs(order, begins)
        deliveries, delivered = pairs.count_and_last(consumers.delivered)
        acks, acked = pairs.count_and_last(consumers.acked)
        nacks, _ = pairs.count_and_last(consumers.nacked)
        group, sub = self._of_consumers.take(pairs.first), code.take(pairs.first)
        early = (acked >= 0) & (delivered >= 0) & (consumers.acked[acked] < consumers.delivered[delivered])
        failed = (acked >= 0) & np.isin(consumers.acked[acked], list(facts.failed_acks)) if facts.failed_acks else early
        second = np.full(len(begins), -1, np.int64)
        some = np.flatnonzero((deliveries == 2) & (nacks == 1) & (acks <= 1) & ~failed)
        if len(some):
            places = ranges(begins[some], np.append(begins, len(order))[some + 1])
            places = places[consumers.delivered[order[places]] >= 0]
            both = order[places].reshape(-1, 2)
            both = np.take_along_axis(both, np.argsort(consumers.delivered[both], axis=1), axis=1)
            good = self._redelivered(both, acked[some], facts)
            second[some[good]], delivered[some[good]] = both[good, 1], both[good, 0]
        twice = second >= 0
        odd = (deliveries > 1) | (nacks > 0) | ((acks > 1) & (deliveries > 0)) | early | failed
        self.odd[group[odd & ~twice]] = True
        kept = np.flatnonzero((deliveries == 1) | twice)
        none = np.full(len(kept), -1, np.int64)
        usual = UsualMessages(group[kept], delivered[kept], acked[kept], none, none.copy(), second[kept])
        self._apply_cumulative_acks(usual, subs, sub[kept], facts)
        return usual

    def _redelivered(self, both: Longs, acked: Longs, facts: RecordingFacts) -> Bools:
        """Return the pairs that have a delivery, a REDELIVER for it, a second delivery, and then at most one ACK.

        The subscription must be Shared or Key_Shared, because on other subscriptions a REDELIVER requests all messages.
        """
        consumers = self._consumers
        first, second = both[:, 0], both[:, 1]
        individual = np.array([*(one.individual for one in facts.sessions), False])
        good: Bools = individual[consumers.session[first]] & individual[consumers.session[second]]
        good &= (consumers.nacked[first] > consumers.delivered[first]) & (
            consumers.nacked[first] < consumers.delivered[second]
        )
        good &= (acked < 0) | (consumers.acked[acked] > consumers.delivered[second])
        good &= ~np.isin(consumers.sub[first], [*facts.cumulative_acks, *facts.cursor_resets])
        return good

    def _apply_cumulative_acks(self, usual: UsualMessages, subs: Longs, code: Longs, facts: RecordingFacts) -> None:
        """Set, in ``usual``, the time and frame of the first cumulative ACK that covers each delivery."""
        consumers = self._consumers
        for place, sub in enumerate(subs.tolist()):
            marks = facts.cumulative_acks.get(sub)
            if marks is None or not len(marks.number):
                continue
            rows = np.flatnonzero(code == place)
            group, delivered = usual.group[rows], usual.delivered[rows]
            if not marks.plain:
                self.odd[group] = True
                continue
            mark = first_reaching(marks, consumers.ledger[delivered], consumers.entry[delivered])
            number = marks.number[mark]
            excluded = number <= consumers.delivered[delivered]
            if sub in facts.cursor_resets:
                sets = np.array(facts.cursor_resets[sub])
                excluded |= np.searchsorted(sets, number) != np.searchsorted(sets, consumers.delivered[delivered])
            self.odd[group[(mark >= 0) & excluded]] = True
            own = usual.acked[rows]
            first = (mark >= 0) & ((own < 0) | (number < consumers.acked[own]))
            usual.cumulative_ns[rows] = np.where(first, marks.time_ns[mark], -1)
            usual.cumulative_number[rows] = number
            usual.acked[rows] = np.where(first, -1, own)

    def unusual(self) -> list[MessageRows]:
        """Return the rows of each unusual message that is not a chunk."""
        odd: Bools = self.odd & ~self._chunk
        found = {group: MessageRows() for group in np.flatnonzero(odd).tolist()}
        for group, row in _picked(self._of_resolved, odd, self._resolved):
            found[group].resolved = row
        rows = np.flatnonzero(odd[self._of_producers])
        picked = self._producers.pick(rows)
        for row, group, publisher in zip(
            picked.table.to_pylist(), self._of_producers[rows].tolist(), picked.publisher.tolist(), strict=True
        ):
            if found[group].published is None:
                found[group].published, found[group].publisher = row, publisher
        rows = np.flatnonzero(odd[self._of_consumers])
        for row, group in zip(self._consumers.pick(rows).rows(), self._of_consumers[rows].tolist(), strict=True):
            found[group].consumed.append(row)
        return [one for one in found.values() if one.exists]

    def chunks(self) -> pa.Table:
        """Return all rows of CONSUMED whose entries are chunks."""
        rows = np.flatnonzero(self._chunk[self._of_consumers])
        return self._consumers.table.take(pa.array(rows))


class _Pairs:
    """Rows by message and subscription: ``order`` sorts them; ``begins`` contains each pair's start in that order."""

    def __init__(self, order: Longs, begins: Longs) -> None:
        self.first = order.take(begins)
        counts = np.diff(begins, append=len(order))
        # Most pairs have one row and need no sums.
        self._many = np.flatnonzero(counts > 1)
        counts = counts[self._many]
        self._rows = order.take(ranges(begins[self._many], begins[self._many] + counts))
        self._begins = np.cumsum(counts) - counts

    def count_and_last(self, numbers: Longs) -> tuple[Longs, Longs]:
        """Return how many rows of each pair have a number (not -1), and the last of these rows; -1 if there is none."""
        there = numbers.take(self.first) >= 0
        count, last = there.astype(np.int64), np.where(there, self.first, -1)
        if len(self._many):
            there = numbers.take(self._rows) >= 0
            count[self._many] = np.add.reduceat(there.astype(np.int64), self._begins)
            last[self._many] = np.maximum.reduceat(np.where(there, self._rows, -1), self._begins)
        return count, last


def _picked(groups: Longs, odd: Bools, table: pa.Table) -> list[tuple[int, dict[str, object]]]:
    rows = np.flatnonzero(odd[groups])
    return list(zip(groups[rows].tolist(), table.take(pa.array(rows)).to_pylist(), strict=True))
