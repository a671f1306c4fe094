"""A producer of a scalable topic, with a scripted broker."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.codec.scalable import key_hashes
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage

from .conftest import LEFT, RIGHT, ROOT, TOPIC, layout

KEYS = [f"k{number}" for number in range(12)]


def send(producer: Any, *payloads: int, results: dict[int, Any] | None = None) -> dict[int, Any]:
    """Send messages with keys; return the results by payload, which arrive later."""
    results = {} if results is None else results
    for payload in payloads:
        key = KEYS[payload % len(KEYS)]
        assert producer.send(OutgoingMessage(b"%d" % payload, key=key), partial(results.__setitem__, payload))
    return results


def stored(scripted: Any) -> dict[str, list[int]]:
    """Return the payloads of the SENDs by segment."""
    topics, found = {}, {ROOT: [], LEFT: [], RIGHT: []}
    for name, body, frame in scripted.sent:
        if name == "PRODUCER":
            topics[body.producer_id] = body.topic
        elif name == "SEND":
            found[topics[body.producer_id]].append(int(bytes(frame.payload)))
    return found


def expected(*payloads: int) -> tuple[list[int], list[int]]:
    """Return the payloads of the two children, in the order of their SENDs."""
    left = [one for one in payloads if key_hashes(KEYS[one % len(KEYS)].encode())[0] < 32768]
    return left, [one for one in payloads if one not in left]


def seal(scripted: Any, producer: int = 0) -> None:
    scripted.send(pb.CommandCloseProducer(producer_id=producer, request_id=(1 << 64) - 1))


def test_an_old_broker_is_reported_in_one_line(old_broker: Any) -> None:
    failure = old_broker.produce()
    assert failure.error == "NotSupported"
    assert "require a broker of Pulsar 5" in str(failure.to_error())


@pytest.mark.parametrize("error", ["TopicNotFound", "NotAllowedError"])
def test_a_refused_session_fails_at_once(scripted: Any, error: str) -> None:
    scripted.refuse = {TOPIC: [error]}
    assert scripted.produce() == ClientFailure(error, "no")


def test_segments_have_names_and_producers_with_their_first_message(scripted: Any) -> None:
    scripted.dag = layout(0, 1, 2)
    producer = scripted.produce(producerName="mine", batchingEnabled=False)
    assert scripted.take("PRODUCER") == []
    producer.send(OutgoingMessage(b"0"))
    scripted.step()
    (body,) = scripted.take("PRODUCER")
    assert (body.topic, body.producer_name) == (LEFT, "mine-seg-1")
    assert (body.user_provided_producer_name, body.txn_enabled) == (False, True)


def test_messages_without_a_receipt_are_sent_to_the_children_in_order(scripted: Any) -> None:
    producer = scripted.produce(batchingEnabled=False)
    results = send(producer, 0)
    scripted.step()
    scripted.receipts = False
    send(producer, *range(1, 20), results=results)
    scripted.step()
    scripted.sent.clear()
    seal(scripted)
    for number in range(5, 9):
        error = pb.CommandSendError(producer_id=0, sequence_id=number, error=pb.PersistenceError, message="fenced")
        scripted.send(error)
    send(producer, *range(20, 40), results=results)
    scripted.step()
    assert stored(scripted) == {ROOT: [], LEFT: [], RIGHT: []}
    scripted.receipts = True
    scripted.change(layout(1, 1, 2, sealed=(0,)))
    left, right = expected(*range(1, 40))
    assert stored(scripted) == {ROOT: [], LEFT: left, RIGHT: right}
    assert sorted(results) == list(range(40))
    assert not [one for one in results.values() if isinstance(one, ClientFailure)]


def test_messages_of_merged_segments_are_sent_in_their_order(scripted: Any) -> None:
    """With deduplication, the child would drop a message with a lower sequence id than the one before."""
    scripted.dag = layout(0, 1, 2)
    producer = scripted.produce(batchingEnabled=False)
    scripted.receipts = False
    send(producer, *range(10))
    scripted.step()
    assert all(stored(scripted)[one] for one in (LEFT, RIGHT))
    scripted.receipts = True
    scripted.change(layout(1, 0, sealed=(1, 2)))
    assert stored(scripted)[ROOT] == list(range(10))


def test_a_receipt_after_the_close_counts(scripted: Any) -> None:
    producer = scripted.produce(batchingEnabled=False)
    scripted.receipts = False
    results = send(producer, 0, 1, 2)
    scripted.step()
    scripted.sent.clear()
    seal(scripted)
    scripted.send(
        pb.CommandSendReceipt(producer_id=0, sequence_id=0, message_id=pb.MessageIdData(ledgerId=1, entryId=0))
    )
    assert list(results) == [0]
    scripted.change(layout(1, 1, 2, sealed=(0,)))
    left, right = expected(1, 2)
    assert stored(scripted) == {ROOT: [], LEFT: left, RIGHT: right}


def test_a_segment_that_refuses_its_producer_waits_for_the_layout(scripted: Any) -> None:
    producer, flushed = scripted.produce(batchingEnabled=False), []
    scripted.refuse = {ROOT: ["TopicTerminatedError"]}
    results = send(producer, *range(10))
    producer.flush(flushed.append)
    scripted.step(200)
    assert (results, flushed) == ({}, [])
    scripted.change(layout(0, 0))
    assert results == {}
    scripted.change(layout(1, 1, 2, sealed=(0,)))
    left, right = expected(*range(10))
    assert stored(scripted) == {ROOT: [], LEFT: left, RIGHT: right}
    assert (sorted(results), flushed) == (list(range(10)), [None])


def test_a_message_waits_for_a_layout_as_long_as_for_a_receipt(scripted: Any) -> None:
    producer = scripted.produce(batchingEnabled=False, sendTimeoutMs=1000)
    scripted.refuse = {ROOT: ["TopicTerminatedError"]}
    results = send(producer, 0)
    scripted.step(999)
    assert results == {}
    scripted.step(1)
    assert results[0].error == "TimeOut"


def test_the_session_is_opened_again_after_a_lost_connection(scripted: Any) -> None:
    producer = scripted.produce(batchingEnabled=False)
    scripted.receipts = False
    results = send(producer, 0, 1)
    scripted.step()
    scripted.take()
    scripted.dag = layout(1, 1, 2, sealed=(0,))
    scripted.receipts = True
    scripted.cut()
    scripted.step(200)
    assert [body.session_id for name, body, _ in scripted.sent if name == "SCALABLE_TOPIC_LOOKUP"] == [1]
    assert sorted(results) == [0, 1]


def test_a_closed_producer_closes_its_session_first(scripted: Any) -> None:
    producer = scripted.produce(batchingEnabled=False)
    send(producer, 0)
    scripted.step()
    scripted.sent.clear()
    closed: list[Any] = []
    producer.close(closed.append)
    scripted.step()
    assert [name for name, _, _ in scripted.sent] == ["SCALABLE_TOPIC_CLOSE", "CLOSE_PRODUCER"]
    assert closed == [None]
    assert send(producer, 1)[1].error == "Closed"
