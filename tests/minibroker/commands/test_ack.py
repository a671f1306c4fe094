"""ACK: the positions that a cumulative acknowledgement can have. Expected values are those of a real 4.2.4 broker."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb

T = "persistent://public/default/t"


@pytest.fixture
def consumer(world):
    """A consumer of two ledgers with three entries each; another topic has the ledger between them."""
    client = world.client()
    client.subscribe()
    client.producer()
    for number in range(3):
        client.publish(f"a{number}", number)
    client.producer("other", producer_id=2)
    world.broker.unload(world.broker.topics[T])
    world.deliver()
    client.hear()
    client.producer()
    for number in range(3, 6):
        client.publish(f"b{number}", number)
    client.subscribe()
    client.flow()
    return client


@pytest.mark.parametrize(
    ("ledger", "entry", "mark_delete"),
    [
        pytest.param("first", 1, 1, id="an entry"),
        pytest.param("first", 100, 2, id="after the end of a closed ledger"),
        pytest.param("between", 0, 2, id="in a ledger of another topic"),
        pytest.param("last", -1, 2, id="before the first entry of a ledger"),
        pytest.param("last", 3, -1, id="after the last entry"),
        pytest.param("after", 0, -1, id="in a ledger that does not exist yet"),
    ],
)
def test_a_cumulative_ack_up_to(world, consumer, ledger, entry, mark_delete):
    topic = world.broker.topics[T]
    first, last = (one.id for one in topic.ledger.ledgers)
    ids = {"first": first, "between": first + 1, "last": last, "after": last + 1}
    assert last > first + 1
    place = pb.MessageIdData(ledgerId=ids[ledger], entryId=entry % 2**64)
    consumer(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[place]))
    cursor = topic.subscriptions["sub"].cursor
    assert cursor.mark_delete == mark_delete
    if entry == -1:
        assert cursor.mark_delete_position == (last, -1)
