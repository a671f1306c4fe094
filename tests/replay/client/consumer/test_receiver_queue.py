"""Permits: when they are granted, and how many; and the position at which a reader continues."""

import pytest

from pcli.replay.client.consumer.receiver_queue import ReceiverQueue, start_again
from pcli.replay.client.message_ids import ClientMessageId


@pytest.fixture
def flows():
    return []


def test_the_first_flow_is_the_whole_queue_then_halves(flows):
    queue = ReceiverQueue(10, flows.append)
    queue.increase(10)
    for _ in range(12):
        queue.increase()
    assert flows == [10, 5, 5]
    assert queue.available == 2


@pytest.mark.parametrize("size", [0, 1])
def test_small_queues_send_each_permit(flows, size):
    queue = ReceiverQueue(size, flows.append)
    queue.increase()
    queue.increase()
    assert flows == [1, 1]


def test_half_of_an_odd_queue_is_rounded_down(flows):
    queue = ReceiverQueue(3, flows.append)
    queue.increase()
    assert flows == [1]


def test_a_pause_holds_permits_back(flows):
    queue = ReceiverQueue(10, flows.append, paused=True)
    queue.increase(10)
    assert flows == []
    queue.resume()
    queue.pause()
    queue.increase(4)
    queue.resume()
    assert flows == [10]
    queue.increase()
    assert flows == [10, 5]


def test_zero_permits_send_no_flow(flows):
    queue = ReceiverQueue(1, flows.append, paused=True)
    queue.resume()
    assert flows == []


def test_the_position_after_a_reconnect_of_a_reader():
    start, taken = ClientMessageId(1, 0), ClientMessageId(2, 7)
    assert start_again(None, None, start) == start
    assert start_again(None, taken, start) == taken
    assert start_again(ClientMessageId(2, 9), taken, start) == ClientMessageId(2, 8)
    assert start_again(ClientMessageId(2, 9, -1, 3, 10), taken, start) == ClientMessageId(2, 9, -1, 2)
