"""Figures of one pass over columns, compared with a loop over the same rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.lifecycles import EVIDENCE
from pcli.spark.report.message_figures import COLUMNS, Span, gather
from pcli.spark.tables.stored_tables import StoredTables


def rows_of(stored: StoredTables) -> list[dict[str, Any]]:
    return [row for row in stored.read("messages", COLUMNS).to_pylist() if not row["marker"]]


def span_of(stored: StoredTables) -> Span:
    captures = stored.read("captures").to_pylist()
    return Span(captures[0]["first_ns"], captures[0]["last_ns"])


def test_counts_by_state(stored: StoredTables) -> None:
    rows = rows_of(stored)
    found = gather(stored.batches("messages", COLUMNS), span_of(stored))
    assert found.entries == len(rows) > 10
    assert found.states == Counter((row["state"], row["evidence"]) for row in rows)


def test_durations_and_amounts_by_subscription(stored: StoredTables) -> None:
    rows = rows_of(stored)
    found = gather(stored.batches("messages", COLUMNS), span_of(stored))
    acks: dict[tuple[str, ...], list[int]] = {}
    delivered: Counter[tuple[str, ...]] = Counter()
    again: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        came = Counter[str]()
        for one in row["deliveries"]:
            came[one["subscription"]] += one["count"]
        again.update((row["cluster"], row["topic"] or "", name or "") for name, times in came.items() if times > 1)
        for one in row["deliveries"]:
            key = (row["cluster"], row["topic"] or "", one["subscription"] or "")
            delivered[key] += max(1, one["messages"])
            again[key] += one["count"] > 1
            if one["acked_ns"] is not None:
                acks.setdefault(key, []).append(one["acked_ns"] - one["delivered_ns"])
    assert acks
    assert again
    for number, key in enumerate(found.subscriptions.names):
        assert found.delivered.counts[number].sum() == delivered[key]
        assert found.ack.count(number) == len(acks.get(key, []))
        assert found.redelivered[number] == again[key]
        if key in acks:
            assert found.ack.longest_ns(number) == max(acks[key])


def test_dispatch_is_timed_to_the_first_delivery_of_a_subscription(stored: StoredTables) -> None:
    found = gather(stored.batches("messages", COLUMNS), span_of(stored))
    first: dict[tuple[str, ...], list[int]] = {}
    several = 0
    for row in rows_of(stored):
        came: dict[str | None, list[int]] = {}
        for one in row["deliveries"]:
            came.setdefault(one["subscription"], []).append(one["delivered_ns"] - row["producer"]["sent_ns"])
        for name, times in came.items():
            first.setdefault((row["cluster"], row["topic"] or "", name or ""), []).append(min(times))
            several += len(times) > 1
    assert several
    for number, key in enumerate(found.subscriptions.names):
        assert found.dispatch.count(number) == len(first[key])
        assert found.dispatch.longest_ns(number) == max(first[key])


def test_the_first_delivery_is_the_earliest(stored: StoredTables) -> None:
    """After a gap of the capture, frames can be reported later than frames with later times."""
    whole = stored.read("messages", COLUMNS)
    rows = whole.to_pylist()
    for row in rows:
        row["deliveries"].reverse()
    turned = pa.Table.from_pylist(rows, whole.schema)
    found, same = (gather(table.to_batches(), span_of(stored)) for table in (whole, turned))
    longest = {names: found.dispatch.longest_ns(key) for key, names in enumerate(found.subscriptions.names)}
    assert longest == {names: same.dispatch.longest_ns(key) for key, names in enumerate(same.subscriptions.names)}


def test_messages_held_at_the_end_are_the_unacknowledged_ones(stored: StoredTables) -> None:
    found = gather(stored.batches("messages", COLUMNS), span_of(stored))
    left: Counter[tuple[str, ...]] = Counter()
    for row in rows_of(stored):
        for place, one in enumerate(row["deliveries"]):
            later = {other["subscription"] for other in row["deliveries"][place + 1 :]}
            if one["acked_ns"] is None and one["subscription"] not in later:
                names = (row["cluster"], row["topic"] or "", one["subscription"] or "", one["consumer"] or "")
                left[names] += max(1, one["messages"])
    held = np.cumsum(found.held.counts, axis=1)
    assert held.max() > 0
    assert {name: int(held[key][-1]) for key, name in enumerate(found.consumers.names)} == {
        name: left[name] for name in found.consumers.names
    }


def test_unacknowledged_messages_by_evidence(stored: StoredTables) -> None:
    """The rows have all values of evidence, and two of three entries are unacknowledged."""
    whole = stored.read("messages", COLUMNS)
    rows = whole.to_pylist()
    for place, row in enumerate(rows):
        row["evidence"] = list(EVIDENCE)[place % len(EVIDENCE)]
        for one in row["deliveries"]:
            one["unacked"] = place // len(EVIDENCE) % 3
    table = pa.Table.from_pylist(rows, whole.schema)
    found = gather(table.to_batches(max_chunksize=7), span_of(stored))
    wanted: dict[str, Counter[str]] = {}
    for row in rows:
        left = {one["subscription"]: one["unacked"] for one in row["deliveries"]}
        for name, count in left.items():
            if count and not row["marker"]:
                wanted.setdefault(row["evidence"], Counter())[name or ""] += count
    assert len(wanted) == len(EVIDENCE)
    names = [name[-1] for name in found.subscriptions.names]
    assert {
        word: Counter({names[key]: count for key, count in counts.items()}) for word, counts in found.left.items()
    } == wanted


def test_the_slowest_are_first(stored: StoredTables) -> None:
    found = gather(stored.batches("messages", COLUMNS), span_of(stored))
    took = [duration for duration, _ in found.slowest]
    assert took == sorted(took, reverse=True)
    first = found.slowest[0][1]
    ends = [one["acked_ns"] or one["delivered_ns"] for one in first["deliveries"]]
    assert took[0] >= max(ends) - first["producer"]["sent_ns"] > 0


def test_batches_of_any_size_give_the_same(stored: StoredTables) -> None:
    table = stored.read("messages", COLUMNS)
    whole = gather(table.to_batches(), span_of(stored))
    single = gather(table.to_batches(max_chunksize=1), span_of(stored))
    assert single.states == whole.states
    assert [duration for duration, _ in single.slowest] == [duration for duration, _ in whole.slowest]
    assert single.publish.quantile_ns(0, 0.5) == whole.publish.quantile_ns(0, 0.5)
