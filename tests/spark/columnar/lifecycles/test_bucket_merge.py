"""The rows of `messages` equal the lifecycles of the tracker, for every capture and division into splits."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture.frames import START, CapturedFrame, Stream
from pcli.codec.observe.tracking.records.lifecycle import STATES
from pcli.codec.observe.tracking.tracker import Tracker, process_events
from pcli.spark.columnar.lifecycles.bucket_merge import merge_in_order
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EVIDENCE, MESSAGES, TIME_ORDER

COARSER = {
    ("nack", "requested"), ("nack", "ack_timeout"), ("left", "reopened"), (None, "rewind"), ("seek", "left"),
    ("seek", None),
}  # fmt: skip
"""Values of ``again`` for one entry, and the values of the tracker for the whole consumer, which are less specific but
never blame a different cause.
"""

WITHOUT_SIZE = ("java/cut-packets", "python/30-snaplen-96")
"""Captures with truncated packets: a lifecycle has the captured size of the payload, a row its original size."""


def none(value):
    return None if value == -1 else value


def lives_of(recording):
    """Return the tracker's lifecycles by the identity of a row.

    Several lifecycles with one id are one row: the first was complete before a seek or a new subscription redelivered
    the message.
    """
    lives = []
    process_events(recording.items, Tracker(on_lifecycle=lives.append))
    found = defaultdict(list)
    for lifecycle in lives:
        found[key_of_life(lifecycle)].append(lifecycle)
    return found


def key_of_life(lifecycle):
    if lifecycle.ledger >= 0:
        return lifecycle.ledger, lifecycle.entry
    topic = lifecycle.topic and lifecycle.topic.name
    return (
        none(lifecycle.stream),
        topic,
        lifecycle.producer_name or None,
        none(lifecycle.sequence_id),
        none(lifecycle.sent_ns),
    )


def key_of_row(row):
    if row["ledger"] is not None:
        return row["ledger"], row["entry"]
    producer = row["producer"]
    return producer["connection"], row["topic"], producer["name"], producer["sequence_id"], producer["sent_ns"]


def told_by(lives):
    """Return the lifecycles of one id as plain values."""
    item = next((one for one in lives if one.receipt_frame or one.sent_frame), lives[0])
    left = {}
    for one in lives:
        left |= one.unacked
    state = item.state if not left else "unacked" if any(left.values()) else "acked"
    return {
        "topic": item.topic.name if item.topic else None, "partition": none(item.partition), "sent": none(item.sent_ns),
        "receipt": none(item.receipt_ns), "name": item.producer_name or None, "sequence": none(item.sequence_id),
        "highest": none(item.highest_sequence_id), "messages": item.messages, "batch": item.batch, "size": item.size,
        "key": item.key or None, "publish": item.publish_ms * 1_000_000 or None,
        "deliver_at": item.deliver_at_ms * 1_000_000 or None, "resends": len(item.resent),
        "others": list(item.other_ids), "error": item.error or None, "marker": item.marker, "txn": item.txn,
        "chunks": [(one[0], none(one[2]), none(one[3])) for one in item.chunks], "state": state, "left": left,
        "deliveries": deliveries_of_lives(lives),
    }  # fmt: skip


def deliveries_of_lives(lives):
    """For each consumer on its connection: first time, count, redeliveries, messages, first whole ack, first nack."""
    found = defaultdict(list)
    for lifecycle in lives:
        for subscription, deliveries in lifecycle.deliveries.items():
            for one in deliveries:
                found[subscription, one.stream, one.consumer.name].append(one)
    rows = []
    for (subscription, stream, _), group in found.items():
        acks = [ack for one in group for ack in one.acks if ack.effective and not ack.left]
        again = [one.again[1] for one in group if one.again[0]]
        rows.append((
            subscription, stream, group[0].time_ns, len(group), max(one.redelivery_count for one in group),
            group[0].messages, (acks[0].time_ns, acks[0].kind) if acks else (None, None), again[0] if again else None,
        ))  # fmt: skip
    return sorted(rows)


def told_by_row(row):
    producer = row["producer"]
    chunk, txn = row["chunk"], row["txn"]
    left = {name_of(one): one["unacked"] for one in row["deliveries"] if one["unacked"] is not None}
    return {
        "topic": row["topic"], "partition": row["partition"], "sent": producer["sent_ns"],
        "receipt": producer["receipt_ns"], "name": producer["name"], "sequence": producer["sequence_id"],
        "highest": producer["highest_sequence_id"], "messages": producer["messages"], "batch": producer["batch"],
        "size": producer["size"], "key": producer["key"], "publish": producer["publish_ns"],
        "deliver_at": producer["deliver_at_ns"], "resends": producer["resends"],
        "others": [(one["ledger"], one["entry"]) for one in producer["other_ids"]], "error": producer["error"],
        "marker": row["marker"], "txn": txn and (txn["most"], txn["least"]),
        "chunks": [(one["id"], one["ledger"], one["entry"]) for one in chunk["entries"]] if chunk else [],
        "state": row["state"], "left": left, "deliveries": deliveries_of_row(row),
    }  # fmt: skip


def whys_of(row, lives):
    """Return the cause of the last redelivery to each consumer, from the row and from the tracker."""
    found = {}
    for lifecycle in lives:
        for subscription, deliveries in lifecycle.deliveries.items():
            found |= {(subscription, one.stream, one.consumer.name): one.why or None for one in deliveries}
    for one in row["deliveries"]:
        key = name_of(one), one["connection"], one["consumer"]
        if key in found:  # those with a name
            yield one["again"], found[key]


def times_of(row):
    times = [row["producer"]["sent_ns"], row["producer"]["receipt_ns"]]
    return [one for one in (*times, *(delivery["delivered_ns"] for delivery in row["deliveries"])) if one is not None]


def name_of(delivery):
    """Return the tracker's name for the subscription of a consumer whose SUBSCRIBE was not captured."""
    return delivery["subscription"] or f"{delivery['connection']}#{delivery['consumer_id']}"


def deliveries_of_row(row):
    """Like `deliveries_of_lives`; a consumer that returned with a different id on its connection is one."""
    found = defaultdict(list)
    for one in row["deliveries"]:
        found[name_of(one), one["connection"], one["consumer"]].append(one)
    rows = []
    for (subscription, stream, _), group in found.items():
        acks = [(one["acked_ns"], one["ack_type"]) for one in group if one["acked_ns"] is not None]
        again = [one["nacked_ns"] for one in group if one["nacked_ns"] is not None]
        rows.append((
            subscription, stream, group[0]["delivered_ns"], sum(one["count"] for one in group),
            max(one["redelivery_count"] for one in group), group[0]["messages"], acks[0] if acks else (None, None),
            again[0] if again else None,
        ))  # fmt: skip
    return sorted(rows)


@pytest.mark.slow
def test_messages_equal_the_lifecycles_of_the_tracker(whole):
    states, evidence, again = Counter(), Counter(), Counter()
    for name in whole:
        recording, bulk = whole.made(name)
        rows = bulk.messages()
        lives = lives_of(recording)
        by_key = {key_of_row(row): row for row in rows}
        assert len(by_key) == len(rows), name
        assert by_key.keys() == lives.keys(), name
        for key, row in by_key.items():
            want, got = told_by(lives[key]), told_by_row(row)
            if name in WITHOUT_SIZE:
                want["size"] = got["size"]
            assert got == want, (name, key)
            assert row["first_ns"] == min(times_of(row)), (name, key)
            if not row["chunk"]:
                again.update(whys_of(row, lives[key]))
        states.update(row["state"] for row in rows)
        evidence.update(row["evidence"] for row in rows)
    assert {pair for pair in again if pair[0] != pair[1]} <= COARSER
    assert {"nack", "rewind", "left", "lost", "unload", "seek"} <= {cause for cause, _ in again}
    # All states occur, and all values of evidence except one that no capture of the corpus has, and one that only
    # incremental runs write.
    assert states.keys() == STATES.keys()
    assert evidence.keys() | {"capture_start", "late"} == EVIDENCE.keys()


@pytest.mark.slow
def test_any_splits_windows_and_buckets_give_the_same_rows(few, bulk):
    dice = random.Random(7)
    for name in few:
        recording, in_one = few.made(name)
        whole = as_text(in_one)
        assert as_text(bulk(recording, dice)) == whole, name
        assert as_text(bulk(recording, dice, told_apart=True)) == whole, name


def proxied(recording):
    """The first connection of a recording through a TCP proxy on the capturing host."""
    front = Stream(0, ("10.0.0.1", 40_000), ("10.0.0.5", 6650), midstream=False)
    back = Stream(1, ("10.0.0.5", 50_000), ("10.0.0.2", 6650), midstream=False)
    items = []
    for frame in recording.frames:
        if frame.stream is recording.frames[0].stream:
            for stream in (front, back) if frame.from_client else (back, front):
                number = len(items) + 1
                place = (number, number, frame.time_ns + number, stream, frame.from_client, frame.offset, START)
                items.append(CapturedFrame(frame.data, frame.type, *place))
    return items


def test_both_connections_of_a_proxied_conversation_count_once(whole, bulk, recorded):
    recording = recorded(proxied(whole.recording("java/cumulative-ack")))
    tables = bulk(recording)
    assert tables.facts.duplicate_connections == {1}
    rows, lives = {key_of_row(row): row for row in tables.messages()}, lives_of(recording)
    assert len(rows) > 50
    assert {key: told_by_row(row) for key, row in rows.items()} == {key: told_by(one) for key, one in lives.items()}
    assert {one["connection"] for row in rows.values() for one in row["deliveries"]} == {0}
    assert {row["connection"] for row in tables.exchanges()} == {0}


def as_text(bulk):
    return [sorted(json.dumps(row, sort_keys=True) for row in rows) for rows in (bulk.messages(), bulk.exchanges())]


def test_the_table_has_its_schema(few):
    for merged in few.made(next(iter(few)))[1].merged:
        assert merged.messages.schema.equals(MESSAGES, check_metadata=True)


IDS = st.one_of(st.just((None, None)), st.tuples(st.integers(0, 2), st.integers(0, 3)))
PLACES = st.lists(st.tuples(st.integers(0, 3), IDS), max_size=40)


def table_of(places):
    blank = {"cluster": "", "marker": False, "state": "", "evidence": ""}
    rows = [blank | {"first_ns": time, "ledger": ledger, "entry": entry} for time, (ledger, entry) in places]
    table = pa.Table.from_pylist(rows, MESSAGES)
    return table.sort_by([(name, "ascending") for name in TIME_ORDER])


@given(PLACES, PLACES)
def test_unusual_messages_are_inserted_in_order(usual, rest):
    found = merge_in_order(table_of(usual), table_of(rest[::-1])).select(TIME_ORDER)
    expected = table_of(usual + rest).select(TIME_ORDER)
    if len(rest) <= 32 or not usual:
        assert found.to_pylist() == expected.to_pylist()
    assert found.num_rows == expected.num_rows
