"""Permits in columns equal the tracker's permits, for all divisions."""

from __future__ import annotations

import random
from collections import Counter
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from pcli.codec.capture import CapturedFrame, ReadOptions, Stream, read_capture
from pcli.codec.observe.tracking.tracker import Tracker, process_events
from pcli.codec.proto import pb
from pcli.codec.wire.bits import left_of, set_of
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.frame_columns import Frames
from pcli.spark.columnar.permits.permit_buckets import (
    PERMITS,
    costs,
    merge_permits,
    permit_parts,
    permit_rows,
    permit_totals,
)
from pcli.spark.columnar.permits.permit_sessions import PermitSessions

SECOND = 1_000_000_000


def parts_of(frames, cut, seen=None):
    numbers = np.array([one.number for one in frames], np.int64)
    return permit_parts(read_fields(places_of(frames)), numbers, cut=cut, seen=seen)


def one_cut(frames, size):
    """Return the table of a recording in windows of this size, as one cut."""
    seen = Counter()
    parts = [parts_of(frames[start : start + size], 0, seen) for start in range(0, len(frames), size)]
    changes = pa.concat_batches([one.changes for one in parts])
    starts = PermitSessions().starts([permit_totals(changes)], [one.events for one in parts])
    return merge_permits([permit_rows(changes, starts, cluster="c")])


def table(frames, cuts=(), legs=()):
    """Return the table of a recording that is cut before these rows; connections in ``legs`` are excluded."""
    edges = [0, *sorted(cuts), len(frames)]
    parts = [parts_of(frames[start:end], cut) for cut, (start, end) in enumerate(pairwise(edges))]

    def left(batch):
        return batch.filter(pa.compute.invert(pa.compute.is_in(batch["stream"], pa.array(list(legs), pa.int64()))))

    changes, events = [left(one.changes) for one in parts], [left(one.events) for one in parts]
    starts = PermitSessions().starts([permit_totals(one) for one in changes], events)
    return merge_permits([permit_rows(one, starts, cluster="c") for one in reversed(changes)])


@lru_cache(None)
def load(path):
    with path.open("rb") as file:
        return list(read_capture([(path.name, file)], ReadOptions(ends=True)))


def every(captures):
    for path in sorted(captures.rglob("*")):
        if path.suffix in (".pcap", ".pcapng"):
            items = load(path)
            frames = [one for one in items if isinstance(one, CapturedFrame)]
            if frames:
                yield path.name, items, frames


@pytest.mark.slow
def test_balances_are_those_of_the_tracker(captures):
    compared = 0
    for name, items, frames in every(captures):
        tracker = Tracker()
        process_events(items, tracker)
        records = list(tracker.records())
        legs = [record.stream for group, record in records if group == "connection" and record.leg_of >= 0]
        sessions = {}
        for row in table(frames, legs=legs).to_pylist():
            sessions.setdefault((row["connection"], row["consumer_id"], row["session"]), []).append(row)
        for group, record in records:
            # For a MESSAGE without metadata, only the SEND contains the number of messages.
            if group != "consumer" or record.session is None or "cut" in record.doubts:
                continue
            session, ledger = record.session, record.permits
            rows = sessions.get((session.stream, session.id, session.number), [])
            got = (sum(row["granted"] for row in rows), sum(row["used"] for row in rows))
            assert got == (ledger.flowed, ledger.delivered), name
            assert (rows[-1]["balance"] if rows else 0) == ledger.balance, name
            assert min([0, *(row["lowest"] for row in rows)]) == ledger.lowest, name
            if session.number:
                told = {(row["topic"], row["subscription"], row["consumer"], row["system"]) for row in rows}
                assert told <= {(record.topic, record.subscription_name, record.name or None, record.system)}, name
            compared += len(rows) > 0
    assert compared > 200


@pytest.mark.slow
def test_any_cuts_give_the_same_table(captures):
    rng = random.Random(3)
    several = 0
    for name, _, frames in every(captures):
        whole = table(frames)
        cuts = [rng.randrange(len(frames) + 1) for _ in range(rng.randrange(1, 6))]
        assert table(frames, cuts).equals(whole), f"{name} cut before {cuts}; a new column needs an entry in _HOW"
        assert one_cut(frames, rng.randrange(1 + len(frames) // 5, 2 + len(frames))).equals(whole), name
        several += whole.num_rows > 2
    assert several > 30


# -- handwritten frames


class Played:
    """Return frames of one connection, a tenth of a second apart."""

    def __init__(self):
        self.frames = []
        self._stream = Stream(7, ("10.0.0.1", 40_000), ("10.0.0.2", 6650), midstream=False)

    def say(self, body, entry=b"", *, client=True):
        data = push_frame(body, entry)
        number = len(self.frames) + 1
        place = (number, number, number * SECOND // 10, self._stream, client, 0, "start")
        self.frames.append(CapturedFrame(data, Frame.of(data).type, *place))
        return self

    def subscribe(self, request=1, consumer=1):
        topic, type_ = "persistent://public/default/t", pb.CommandSubscribe.Shared
        ids = {"consumer_id": consumer, "request_id": request, "consumer_name": "c"}
        return self.say(pb.CommandSubscribe(topic=topic, subscription="s", subType=type_, **ids))

    def success(self, request=1):
        return self.say(pb.CommandSuccess(request_id=request), client=False)

    def flow(self, permits, consumer=1):
        return self.say(pb.CommandFlow(consumer_id=consumer, messagePermits=permits))

    def message(self, batch=0, words=(), consumer=1):
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
        if batch:
            metadata.num_messages_in_batch = batch
        place = pb.MessageIdData(ledgerId=1, entryId=1)
        body = pb.CommandMessage(consumer_id=consumer, message_id=place, ack_set=words)
        return self.say(body, push_entry(metadata, b"x"), client=False)

    def close(self, consumer=1):
        return self.say(pb.CommandCloseConsumer(consumer_id=consumer, request_id=9))

    def rows(self, *columns):
        """Return the table, which must be equal for all cuts."""
        whole = table(self.frames)
        for cut in range(len(self.frames) + 1):
            assert table(self.frames, [cut]).equals(whole)
        assert one_cut(self.frames, 2).equals(whole)
        return [tuple(row[name] for name in columns) for row in whole.to_pylist()]


@pytest.fixture
def played():
    return Played()


def test_a_second_a_row(played):
    played.subscribe().success().flow(5).message(batch=7)  # 0.1 to 0.4 s
    for _ in range(8):
        played.message()
    rows = played.flow(20).rows("session", "bucket_ns", "granted", "used", "lowest", "balance", "frames")
    assert rows == [(1, 0, 5, 12, -7, -7, 7), (1, SECOND, 20, 3, -10, 10, 4)]


def test_messages_that_were_acknowledged_before_cost_nothing(played):
    rows = played.subscribe().flow(100).message(batch=70, words=[0, 5]).message(batch=3, words=[-1]).rows("used")
    assert rows == [(2 + 3,)]


def test_flows_after_the_end_do_not_count(played):
    played.subscribe().success().flow(5).close().flow(5).message()
    assert played.rows("granted", "used", "balance", "lowest", "frames") == [(5, 1, 4, 4, 3)]


def test_a_new_session_begins_with_nothing(played):
    played.subscribe().success().flow(5).close().success(9).subscribe(2).success(2).flow(3)
    assert played.rows("session", "balance") == [(1, 5), (6, 3)]


def test_subscribing_twice_changes_nothing(played):
    played.subscribe().success().flow(5).subscribe(2).success(2).flow(3)
    assert played.rows("session", "balance") == [(1, 8)]


def test_a_refused_consumer_has_no_permits(played):
    played.subscribe().say(pb.CommandError(request_id=1, error=0, message=""), client=False).flow(3)
    assert played.rows("granted", "balance") == [(0, 0)]


def test_without_a_subscribe_balances_are_relative(played):
    rows = played.message(batch=4).flow(1).subscribe().flow(2).rows("session", "topic", "consumer", "balance", "lowest")
    assert rows == [(0, None, None, -3, -4), (3, "persistent://public/default/t", "c", 2, 2)]


def test_consumers_do_not_mix(played):
    played.subscribe().subscribe(2, consumer=2).flow(5).flow(7, consumer=2).message().message(consumer=2).message()
    assert played.rows("consumer_id", "balance") == [(1, 3), (2, 6)]


def test_bit_sets_of_any_size():
    rng = random.Random(5)
    played = Played()
    wanted = []
    for _ in range(300):
        batch = rng.choice([1, 2, 63, 64, 65, 128, 200])
        words = [rng.getrandbits(64) - (1 << 63) for _ in range(rng.randrange(5))]
        played.message(batch=batch, words=words)
        wanted.append(left_of(set_of(words), batch) if words else batch)
    frames = read_fields(places_of(played.frames))
    assert isinstance(frames, Frames)
    assert costs(frames).tolist() == wanted


def test_no_changes_give_an_empty_table():
    empty = table([])
    assert (empty.num_rows, empty.schema) == (0, PERMITS)
