"""Tracking of producers compared with truth files and with the mini-broker's statistics."""

import pytest

from pcli.codec.observe import Observer
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb

COUNTED = [
    "java/batching", "java/chunks-interleaved", "java/compaction", "java/dedup", "java/key-based-batcher",
    "java/message-shapes", "java/non-persistent", "java/size-limits", "java/txn-abort", "java/txn-partitions",
    "go/chunks", "go/key-based-batcher", "rust/batching", "python/07-chunked", "python/23-dedup",
    "python/38-repeated-reordered", "flex/02-shared-key-shared",
]  # fmt: skip
"""Complete captures that begin before their topics exist and whose topics are never unloaded."""


@pytest.mark.parametrize("name", COUNTED)
def test_topic_counters_equal_the_brokers(corpus, name):
    truth = corpus.truth(name)
    until = truth["capture"]["stats_at"] * 1e9
    observer, tracker = Observer(), Tracker()
    for frame in corpus.frames(name):
        if frame.time_ns <= until:
            tracker.see(observer.see(frame))
    topics = {record.name: record for group, record in tracker.records() if group == "topic"}
    for topic, stats in truth["stats"].items():
        if "msgInCounter" in stats:
            record = topics[topic]
            assert (record.messages_in, record.bytes_in) == (stats["msgInCounter"], stats["bytesInCounter"])


def test_every_message_of_the_application_has_a_lifecycle(corpus):
    name = "python/28-busy-system"
    observer, lives = Observer(), []
    tracker = Tracker(on_lifecycle=lives.append)
    for frame in corpus.frames(name):
        tracker.see(observer.see(frame))
    tracker.finish()
    found = {(life.topic.name, f"{life.ledger}:{life.entry}") for life in lives if life.topic}
    produced = [event for event in corpus.truth(name)["events"] if event["type"] == "produced"]
    assert produced
    for event in produced:
        ledger, entry, *_ = event["message_id"].split(":")
        assert (event["topic"], f"{ledger}:{entry}") in found


def test_an_unloaded_topic_and_a_reconnected_producer(make_scene):
    scene = make_scene()
    client = scene.actor()
    client.producer()
    client.publish(0)
    scene.unload()
    client.producer()
    client.publish(1)
    scene.finish()
    [record] = [one for group, one in scene.tracker.records() if group == "producer"]
    assert (record.sessions, list(record.ends), record.receipts) == (2, ["broker"], 2)
    assert sorted(life.sequence_id for life in scene.lives) == [0, 1]


def test_lost_receipts(make_scene):
    scene = make_scene()
    scene.fault("drop times=2 on pulsar.type == 'SEND_RECEIPT'")
    client = scene.actor()
    client.producer()
    for number in range(4):
        client.publish(number)
    client(pb.CommandCloseProducer(producer_id=1))
    scene.finish()
    [record] = [one for group, one in scene.tracker.records() if group == "producer"]
    assert (record.receipts, record.unreceipted.count, record.out_of_order.count) == (2, 2, 0)
    assert sorted((life.sequence_id, life.state) for life in scene.lives if life.state == "lost") == [
        (0, "lost"), (1, "lost"),
    ]  # fmt: skip


def test_records_can_be_requested_at_any_time(producing):
    producing.opens()
    producing.sends(0)
    assert [producing.record().open_sends for _ in range(2)] == [1, 1]
    producing.receipt(0)
    assert producing.record().open_sends == 0


HASHES = {"entry_hash_min": 3, "entry_hash_max": 3}


@pytest.mark.parametrize(
    ("name", "hashes", "found"), [("a-seg-1", {}, True), ("p", HASHES, True), ("p", {}, False), ("p", HASHES, False)]
)
def test_a_producer_of_a_v5_client_whose_opening_is_not_in_the_capture(producing, name, hashes, found):
    """The first frame about it can be a receipt, and its topic can be known after all."""
    if not found and hashes:
        producing.opens(name)
    producing.receipt(4)
    producing.sends(5, producer_name=name, **hashes)
    assert producing.record(name).on_segment == found
