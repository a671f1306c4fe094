"""Rejected messages: when their redelivery is requested, and which are requested together."""

import pytest

from pcli.replay.client.consumer.negative_acks_tracker import NO_PARTITION, NegativeAcksTracker
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.settings import ConsumerSettings, RedeliveryBackoff


@pytest.fixture
def refuse(fake_broker):
    network = fake_broker()
    start = network.now
    assert start % 256 == 0

    def make(delay, bits=8, backoff=None):
        due = []
        settings = ConsumerSettings(
            negativeAckRedeliveryDelayMicros=delay * 1000,
            negativeAckPrecisionBitCnt=bits,
            negativeAckRedeliveryBackoff=backoff,
        )
        nacks = NegativeAcksTracker(
            network.engine,
            settings,
            lambda ids: due.append((network.engine.now - start, sorted(one.entry for one in ids))),
        )
        return nacks, due, network.run

    return make


def test_the_first_negative_ack_waits_for_its_whole_delay(refuse):
    nacks, due, run = refuse(1000)
    nacks.add(ClientMessageId(1, 0))
    run(2000)
    assert due == [(1000, [0])]


def test_the_low_bits_of_due_times_are_cleared(refuse):
    nacks, due, run = refuse(1000)
    for entry in range(4):
        nacks.add(ClientMessageId(1, entry))
        run(100)
    run(5000)
    # Due at 1000, 1100, 1200, 1300; truncated to 768, 1024, 1024, 1280. The first timer has the full delay.
    assert due == [(1000, [0]), (1024, [1, 2]), (1280, [3])]


def test_without_precision_bits_due_times_are_exact(refuse):
    nacks, due, run = refuse(1000, bits=0)
    nacks.add(ClientMessageId(1, 0))
    run(10)
    nacks.add(ClientMessageId(1, 1))
    run(5000)
    assert due == [(1000, [0]), (1010, [1])]


def test_a_batch_is_one_entry_without_a_partition(fake_broker):
    got = []
    network = fake_broker()
    nacks = NegativeAcksTracker(network.engine, ConsumerSettings(negativeAckRedeliveryDelayMicros=100_000), got.append)
    for index in range(5):
        nacks.add(ClientMessageId(1, 7, 3, index, 5))
    network.run(100)
    assert got == [{ClientMessageId(1, 7, NO_PARTITION)}]


def test_a_delay_is_at_least_100_ms(refuse):
    nacks, due, run = refuse(0)
    nacks.add(ClientMessageId(1, 0))
    run(1000)
    assert due == [(100, [0])]


def test_a_shorter_back_off_does_not_advance_the_timer(refuse):
    nacks, due, run = refuse(0, bits=0, backoff=RedeliveryBackoff(minDelayMs=1000))
    nacks.add(ClientMessageId(1, 0), 2)
    nacks.add(ClientMessageId(1, 1), 0)
    run(10_000)
    assert due == [(4000, [0, 1])]


def test_nothing_is_requested_after_the_end(refuse):
    nacks, due, run = refuse(1000)
    nacks.add(ClientMessageId(1, 0))
    nacks.close()
    run(5000)
    assert due == []
