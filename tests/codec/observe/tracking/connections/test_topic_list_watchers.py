"""Topic-list watchers, and the subscriptions of their clients."""

from __future__ import annotations

from pcli.codec.proto import pb

A1, A2, A3, A4 = (f"persistent://public/default/a{number}" for number in range(1, 5))


def watch(hash_="00000000", on=0):
    return pb.CommandWatchTopicList(
        request_id=5, watcher_id=1, namespace="public/default", topics_pattern="a.*", topics_hash=hash_
    )


def listed(*topics, hash_="11111111"):
    return pb.CommandWatchTopicListSuccess(request_id=5, watcher_id=1, topic=topics, topics_hash=hash_)


def update(*new, deleted=()):
    return pb.CommandWatchTopicUpdate(watcher_id=1, new_topics=new, deleted_topics=deleted, topics_hash="22222222")


def test_nothing_changed(wire):
    wire.hello()
    wire.client(watch("11111111"))
    wire.broker(listed())
    record = wire.connection()
    assert record.watchers == {1: (3, 3_000_000, "public/default a.*")}
    assert (record.watch_gaps.count, record.watch_missed) == (0, {})


def test_topics_created_without_a_watcher(wire, say):
    wire.hello()
    wire.client(say("Subscribe", topic=A1))
    wire.client(watch())
    wire.broker(listed(A1, A2))
    record = wire.connection()
    assert (record.watch_gaps.frames, record.watch_gaps.sample) == ([4, 5], f"{A1}, {A2}")
    assert record.watch_missed == {A2: (5, 5_000_000)}
    wire.hello(on=1)
    wire.client(say("Subscribe", topic=A2), on=1)
    assert record.watch_missed == {}


def test_a_subscription_of_another_client_does_not_count(wire, say):
    wire.hello()
    wire.client(watch())
    wire.broker(listed(A2))
    wire.open(1, client=("10.0.0.9", 40_000))
    wire.hello(on=1)
    wire.client(say("Subscribe", topic=A2), on=1)
    assert list(wire.connection().watch_missed) == [A2]


def test_updates_and_deletions(wire):
    wire.hello()
    wire.client(watch("11111111"))
    wire.broker(listed())
    wire.broker(update(A3, A4))
    wire.broker(update(deleted=[A3]))
    assert list(wire.connection().watch_missed) == [A4]


def test_a_closed_watcher(wire):
    wire.hello()
    wire.client(watch())
    wire.broker(listed(A2))
    wire.client(pb.CommandWatchTopicListClose(request_id=6, watcher_id=1))
    record = wire.connection()
    assert (record.watchers, record.watch_missed) == ({}, {})


def test_a_real_client_that_subscribes(corpus):
    from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
    from pcli.codec.observe.tracking.records.connection_records import CaptureRecord

    links = ConnectionTracker(CaptureRecord(), on_end=lambda *_: None)
    for facts in corpus.facts("java/pattern-watcher"):
        links.see(facts)
    records = [one for group, one in links.records() if group == "connection"]
    assert all(not one.watch_missed and not one.watch_gaps.count for one in records)
