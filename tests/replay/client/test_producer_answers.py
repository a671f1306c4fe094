"""Responses to a producer that a broker in memory never sends: the test plays the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer.producer import Producer
from pcli.replay.client.settings import ProducerSettings

T = "persistent://public/default/t"


def errors(results: list[Any]) -> list[str]:
    return [one.error if isinstance(one, ClientFailure) else str(one) for one in results]


class Hand:
    """A producer whose broker is the test."""

    def __init__(self, fake_broker: Any, **settings: Any) -> None:
        self.fake_broker = fake_broker()
        self.made: list[Any] = []
        self.producer = Producer(self.fake_broker.engine, T, ProducerSettings(**settings), self.made.append)
        self.producer.start()
        self.fake_broker.take_output()
        self.fake_broker.complete_handshake()
        [(_, self.requested)] = self.found()

    def found(self) -> Any:
        """Respond to the lookup; return the next commands."""
        number = 1 + 2 * max(0, self.producer.epoch + 1)
        response = pb.CommandLookupTopicResponse(
            brokerServiceUrl="pulsar://a:1", response="Connect", request_id=number, authoritative=True
        )
        return self.fake_broker.broker_sends(response)

    def accept(self) -> Any:
        """Send PRODUCER_SUCCESS."""
        body = pb.CommandProducerSuccess(request_id=self.requested.request_id, producer_name="p")
        return self.fake_broker.broker_sends(body)

    def receipt(self, sequence_id: int) -> Any:
        """Send SEND_RECEIPT."""
        place = pb.MessageIdData(ledgerId=1, entryId=sequence_id)
        return self.fake_broker.broker_sends(
            pb.CommandSendReceipt(producer_id=0, sequence_id=sequence_id, message_id=place)
        )

    def refuse(self, sequence_id: int, error: str) -> Any:
        """Send SEND_ERROR."""
        body = pb.CommandSendError(producer_id=0, sequence_id=sequence_id, message="no", error=error)
        return self.fake_broker.broker_sends(body)


@pytest.fixture
def hand(fake_broker: Any) -> Callable[..., Hand]:
    """Return a producer that the broker has accepted."""

    def make(**settings: Any) -> Hand:
        made = Hand(fake_broker, batchingEnabled=False, **settings)
        made.accept()
        assert made.made == [made.producer]
        return made

    return make


def sent(hand: Hand, count: int) -> list[Any]:
    results: list[Any] = []
    for number in range(count):
        hand.producer.send(OutgoingMessage(b"%d" % number), results.append)
    hand.fake_broker.take_output()
    return results


def test_late_and_unknown_receipts(hand: Callable[..., Hand]) -> None:
    one = hand()
    results = sent(one, 3)
    one.receipt(0)
    one.receipt(0)
    assert len(results) == 1
    assert one.fake_broker.shut == []
    one.receipt(2)
    assert len(results) == 1
    assert one.fake_broker.shut == [one.fake_broker.connections[0]]
    assert one.producer.state is State.CONNECTING


def test_a_checksum_error_on_the_network_is_resent(hand: Callable[..., Hand]) -> None:
    one = hand()
    results = sent(one, 3)
    again = one.refuse(0, "ChecksumError")
    assert [body.sequence_id for _, body in again] == [0, 1, 2]
    first = one.producer.pending.ops[0]
    first.frame = first.frame[:-1] + b"!"
    one.refuse(0, "ChecksumError")
    assert errors(results) == ["ChecksumError"]


def test_not_allowed_fails_one_entry(hand: Callable[..., Hand]) -> None:
    one = hand()
    results = sent(one, 2)
    one.refuse(1, "NotAllowedError")  # for an entry that is not the next one
    assert results == []
    one.refuse(0, "NotAllowedError")
    one.receipt(1)
    assert errors(results) == ["NotAllowedError", "1:1"]


def test_an_unknown_error_registers_the_producer_again(hand: Callable[..., Hand]) -> None:
    one = hand()
    results = sent(one, 2)
    one.refuse(0, "PersistenceError")
    assert one.fake_broker.shut == []
    [(_, lookup)] = one.fake_broker.run(100)
    response = pb.CommandLookupTopicResponse(
        brokerServiceUrl="pulsar://a:1", response="Connect", request_id=lookup.request_id, authoritative=True
    )
    [(_, one.requested)] = one.fake_broker.broker_sends(response)
    assert (one.requested.epoch, one.requested.producer_name) == (1, "p")
    assert [body.sequence_id for _, body in one.accept()] == [0, 1]
    assert results == []


def test_receipts_after_a_failed_entry_match_nothing(hand: Callable[..., Hand]) -> None:
    one = hand()
    sent(one, 2)
    one.refuse(0, "PersistenceError")
    one.receipt(1)
    assert one.fake_broker.shut == [one.fake_broker.connections[0]]


def test_a_producer_that_is_closed_before_it_is_ready_ends_the_connection(fake_broker: Any) -> None:
    one = Hand(fake_broker)
    done: list[Any] = []
    one.producer.close(done.append)
    assert done == [None]
    assert errors(one.made) == ["Closed"]
    one.accept()
    assert one.fake_broker.shut == [one.fake_broker.connections[0]]


def test_a_timed_out_registration_is_closed(fake_broker: Any) -> None:
    one = Hand(fake_broker)
    assert "CommandCloseProducer" in [body.DESCRIPTOR.name for _, body in one.fake_broker.run(30_000)]


@pytest.mark.parametrize(
    ("error", "results", "state"),
    [
        ("ProducerBlockedQuotaExceededException", ["ProducerBlockedQuotaExceededException"], State.CONNECTING),
        ("ProducerBlockedQuotaExceededError", [], State.CONNECTING),
        ("ProducerBusy", [], State.CONNECTING),
        ("ProducerFenced", ["ProducerFenced"], State.PRODUCER_FENCED),
        ("TopicTerminatedError", ["TopicTerminatedError"], State.TERMINATED),
        ("TopicNotFound", ["Closed"], State.CLOSED),
    ],
)
def test_a_producer_that_was_ready_is_refused(
    hand: Callable[..., Hand], error: str, results: list[str], state: State
) -> None:
    one = hand()
    waiting = sent(one, 1)
    one.fake_broker.broker_sends(pb.CommandCloseProducer(producer_id=0, request_id=2**64 - 1))
    [(_, lookup)] = one.fake_broker.run(100)
    response = pb.CommandLookupTopicResponse(
        brokerServiceUrl="pulsar://a:1", response="Connect", request_id=lookup.request_id, authoritative=True
    )
    [(_, requested)] = one.fake_broker.broker_sends(response)
    one.fake_broker.broker_sends(pb.CommandError(request_id=requested.request_id, error=error, message="no"))
    assert errors(waiting) == results
    assert one.producer.state is state


def test_a_retriable_refusal_is_retried_until_the_operation_time_out(fake_broker: Any) -> None:
    one = Hand(fake_broker)
    results = pb.CommandError(request_id=one.requested.request_id, error="ServiceNotReady", message="not yet")
    assert one.fake_broker.broker_sends(results) == []
    assert one.made == []
    [(_, lookup)] = one.fake_broker.run(100)
    one.fake_broker.run(29_800)
    response = pb.CommandLookupTopicResponse(
        brokerServiceUrl="pulsar://a:1", response="Connect", request_id=lookup.request_id, authoritative=True
    )
    [(_, requested)] = one.fake_broker.broker_sends(response)
    one.fake_broker.run(200)
    one.fake_broker.broker_sends(
        pb.CommandError(request_id=requested.request_id, error="ServiceNotReady", message="not yet")
    )
    assert errors(one.made) == ["ServiceNotReady"]
    assert one.producer.state is State.FAILED


def test_a_terminated_topic_ends_the_producer(hand: Callable[..., Hand]) -> None:
    one = hand()
    results = sent(one, 2)
    one.refuse(0, "TopicTerminatedError")
    assert errors(results) == ["TopicTerminatedError"] * 2
    assert one.producer.state is State.TERMINATED


def test_a_refused_close_closes_the_producer(hand: Callable[..., Hand]) -> None:
    one = hand()
    done: list[Any] = []
    results: list[Any] = []
    one.producer.send(OutgoingMessage(b"x"), results.append)
    one.producer.close(done.append)
    [_send, (_, close)] = one.fake_broker.take_output()
    one.fake_broker.broker_sends(pb.CommandError(request_id=close.request_id, error="UnknownError", message="no"))
    assert (errors(done), errors(results)) == (["UnknownError"], ["Closed"])
    assert one.producer.state is State.CLOSED
    assert one.fake_broker.engine.handlers == {}


def test_a_close_by_the_broker_before_the_producer_is_ready(fake_broker: Any) -> None:
    one = Hand(fake_broker)
    one.fake_broker.broker_sends(pb.CommandCloseProducer(producer_id=0, request_id=2**64 - 1))
    one.accept()
    assert one.made == []
    assert one.producer.state is State.CONNECTING


@pytest.mark.parametrize(("ready", "state"), [(False, State.FAILED), (True, State.CLOSED)])
def test_a_failed_lookup_fails_the_producer(fake_broker: Any, ready: bool, state: State) -> None:
    one = Hand(fake_broker)
    if ready:
        one.accept()
    one.producer.lost()
    one.producer.reconnect()
    [(_, lookup)] = one.fake_broker.run(100)
    response = pb.CommandLookupTopicResponse(
        response="Failed", request_id=lookup.request_id, error="TopicNotFound", message="no"
    )
    one.fake_broker.broker_sends(response)
    assert one.producer.state is state
    assert errors(one.made)[-1] == (str(one.producer) if ready else "TopicNotFound")
