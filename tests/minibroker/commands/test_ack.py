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


@pytest.mark.parametrize("kind", ["Individual", "Cumulative"])
@pytest.mark.parametrize("properties", [False, True])
def test_the_errors_of_version_5(make_world, kind, properties):
    """The texts of a real 5.0.1; tests/conform does not compare texts. Properties avoid the fast path."""
    client = make_world(version="5.0.1").client()
    client.subscribe()
    client.producer()
    ids = [client.publish(f"m{number}", number)[0].message_id for number in range(3)]
    kinds = {"ack_type": pb.CommandAck.AckType.Value(kind), "consumer_id": 1, "request_id": 7}
    kinds |= {"properties": [pb.KeyLongValue(key="k", value=1)]} if properties else {}
    ledger = ids[0].ledgerId
    after = pb.MessageIdData(ledgerId=ledger, entryId=3)
    answer = client.one(pb.CommandAck(message_id=[after], **kinds))
    exception = "org.apache.bookkeeper.mledger.ManagedLedgerException: "
    assert (answer.request_id, answer.error) == (7, pb.UnknownError)
    assert answer.message == f"{exception}Invalid mark deleted position"
    client(pb.CommandAck(message_id=[ids[2]], consumer_id=1, ack_type=pb.CommandAck.Cumulative))
    answer = client.one(pb.CommandAck(message_id=[ids[1]], **kinds))
    marked = "org.apache.bookkeeper.mledger.impl.ManagedCursorImpl$MarkDeletingMarkedPosition: "
    text = f"{exception}{marked}Mark deleting an already mark-deleted position. "
    text += f"Current mark-delete: {ledger}:2 -- attempted mark delete: {ledger}:1"
    assert answer.message == (text if kind == "Cumulative" else "")


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
