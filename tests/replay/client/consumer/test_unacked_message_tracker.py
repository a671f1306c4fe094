"""The ack timeout, tick by tick."""

import pytest

from pcli.replay.client.consumer.unacked_message_tracker import UnackedMessageTracker
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.settings import ConsumerSettings, RedeliveryBackoff


@pytest.fixture
def track(fake_broker):
    network = fake_broker()
    start = network.now

    def make(timeout, tick, backoff=None):
        due = []
        settings = ConsumerSettings(
            ackTimeoutMillis=timeout, tickDurationMillis=tick, ackTimeoutRedeliveryBackoff=backoff
        )
        tracker = UnackedMessageTracker(
            network.engine, settings, lambda ids: due.append((network.engine.now - start, sorted(ids)))
        )
        return tracker, due, network.run

    return make


def test_redelivery_is_requested_within_one_tick_after_the_time_out(track):
    tracker, due, run = track(10_000, 1000)
    tracker.add(ClientMessageId(1, 0))
    run(999)
    tracker.add(ClientMessageId(1, 1))
    run(1)
    tracker.add(ClientMessageId(1, 2))
    run(20_000)
    assert due == [(11_000, [ClientMessageId(1, 0), ClientMessageId(1, 1)]), (12_000, [ClientMessageId(1, 2)])]
    assert len(tracker) == 0


def test_a_time_out_is_rounded_up_to_ticks(track):
    tracker, due, run = track(2500, 1000)
    tracker.add(ClientMessageId(1, 0))
    run(10_000)
    assert due == [(4000, [ClientMessageId(1, 0)])]


def test_a_tick_is_not_longer_than_the_time_out(track):
    tracker, due, run = track(1000, 5000)
    tracker.add(ClientMessageId(1, 0))
    run(10_000)
    assert due == [(2000, [ClientMessageId(1, 0)])]


def test_acknowledged_messages_are_removed(track):
    tracker, due, run = track(1000, 1000)
    for entry in range(5):
        tracker.add(ClientMessageId(1, entry))
    tracker.remove(ClientMessageId(1, 4))
    tracker.remove_till(ClientMessageId(1, 2))
    run(5000)
    assert due == [(2000, [ClientMessageId(1, 3)])]


def test_a_tracked_message_keeps_its_bucket(track):
    tracker, due, run = track(1000, 1000)
    tracker.add(ClientMessageId(1, 0))
    run(1500)
    tracker.add(ClientMessageId(1, 0))
    run(5000)
    assert [time for time, _ in due] == [2000]


def test_messages_of_a_removed_topic_are_removed(track):
    tracker, due, run = track(1000, 1000)
    tracker.add(ClientMessageId(1, 0, topic="a"))
    tracker.add(ClientMessageId(2, 0, topic="b"))
    tracker.remove_topic("a")
    run(5000)
    assert due == [(2000, [ClientMessageId(2, 0)])]


def test_the_back_off_starts_after_the_time_out(track):
    tracker, due, run = track(1000, 1000, RedeliveryBackoff(minDelayMs=1500, maxDelayMs=60_000))
    tracker.add(ClientMessageId(1, 0), 0)
    tracker.add(ClientMessageId(1, 1), 2)
    run(20_000)
    # They time out at 2,000, and again 1,500 and 6,000 later, at the next tick.
    assert due == [(4000, [ClientMessageId(1, 0)]), (8000, [ClientMessageId(1, 1)])]


def test_messages_in_back_off_can_be_acknowledged(track):
    tracker, due, run = track(1000, 1000, RedeliveryBackoff(minDelayMs=1500))
    tracker.add(ClientMessageId(1, 0))
    tracker.add(ClientMessageId(1, 1))
    run(2500)
    tracker.remove(ClientMessageId(1, 0))
    run(5000)
    assert due == [(4000, [ClientMessageId(1, 1)])]


def test_nothing_is_tracked_without_a_time_out(track):
    tracker, due, run = track(0, 1000)
    tracker.add(ClientMessageId(1, 0))
    tracker.remove_till(ClientMessageId(1, 0))
    run(100_000)
    assert due == []


def test_nothing_is_requested_after_the_end(track):
    tracker, due, run = track(1000, 1000)
    tracker.add(ClientMessageId(1, 0))
    tracker.close()
    run(5000)
    assert due == []
