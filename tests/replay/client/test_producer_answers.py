"""What a producer makes of answers that no broker in memory gives: the test plays the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer.producer import Producer
from pcli.replay.client.producer_settings import ProducerSettings

T = "persistent://public/default/t"


def errors(told: list[Any]) -> list[str]:
    return [one.error if isinstance(one, ClientFailure) else str(one) for one in told]


class Hand:
    """A producer whose broker the test plays."""

    def __init__(self, wire: Any, **settings: Any) -> None:
        self.wire = wire()
        self.made: list[Any] = []
        self.producer = Producer(self.wire.engine, T, ProducerSettings(**settings), self.made.append)
        self.producer.start()
        self.wire.hear()
        self.wire.shake()
        [(_, self.asked)] = self.found()

    def found(self) -> Any:
        """Answer the lookup; what is said then."""
        number = 1 + 2 * max(0, self.producer.epoch + 1)
        answer = pb.CommandLookupTopicResponse(
            brokerServiceUrl="pulsar://a:1", response="Connect", request_id=number, authoritative=True
        )
        return self.wire.say(answer)

    def accept(self) -> Any:
        """PRODUCER_SUCCESS."""
        body = pb.CommandProducerSuccess(request_id=self.asked.request_id, producer_name="p")
        return self.wire.say(body)

    def receipt(self, sequence_id: int) -> Any:
        """SEND_RECEIPT."""
        place = pb.MessageIdData(ledgerId=1, entryId=sequence_id)
        return self.wire.say(pb.CommandSendReceipt(producer_id=0, sequence_id=sequence_id, message_id=place))

    def refuse(self, sequence_id: int, error: str) -> Any:
        """SEND_ERROR."""
        body = pb.CommandSendError(producer_id=0, sequence_id=sequence_id, message="no", error=error)
        return self.wire.say(body)


@pytest.fixture
def hand(wire: Any) -> Callable[..., Hand]:
    """A producer that is accepted."""

    def make(**settings: Any) -> Hand:
        made = Hand(wire, batchingEnabled=False, **settings)
        made.accept()
        assert made.made == [made.producer]
        return made

    return make


def sent(hand: Hand, count: int) -> list[Any]:
    told: list[Any] = []
    for number in range(count):
        hand.producer.send(OutgoingMessage(b"%d" % number), told.append)
    hand.wire.hear()
    return told


def test_receipts_late_and_ahead(hand: Callable[..., Hand]) -> None:
    one = hand()
    told = sent(one, 3)
    one.receipt(0)
    one.receipt(0)
    assert len(told) == 1
    assert one.wire.shut == []
    one.receipt(2)
    assert len(told) == 1
    assert one.wire.shut == [one.wire.connections[0]]
    assert one.producer.state is State.CONNECTING


def test_a_damaged_checksum_on_the_way_is_sent_again(hand: Callable[..., Hand]) -> None:
    one = hand()
    told = sent(one, 3)
    again = one.refuse(0, "ChecksumError")
    assert [body.sequence_id for _, body in again] == [0, 1, 2]
    first = one.producer.pending.ops[0]
    first.frame = first.frame[:-1] + b"!"
    one.refuse(0, "ChecksumError")
    assert errors(told) == ["ChecksumError"]


def test_what_is_not_allowed_fails_alone(hand: Callable[..., Hand]) -> None:
    one = hand()
    told = sent(one, 2)
    one.refuse(1, "NotAllowedError")  # of nothing that is its turn
    assert told == []
    one.refuse(0, "NotAllowedError")
    one.receipt(1)
    assert errors(told) == ["NotAllowedError", "1:1"]


def test_an_error_without_a_name_registers_the_producer_anew_over_the_same_link(hand: Callable[..., Hand]) -> None:
    one = hand()
    told = sent(one, 2)
    one.refuse(0, "PersistenceError")
    assert one.wire.shut == []
    [(_, lookup)] = one.wire.run(100)
    answer = pb.CommandLookupTopicResponse(
        brokerServiceUrl="pulsar://a:1", response="Connect", request_id=lookup.request_id, authoritative=True
    )
    [(_, one.asked)] = one.wire.say(answer)
    assert (one.asked.epoch, one.asked.producer_name) == (1, "p")
    assert [body.sequence_id for _, body in one.accept()] == [0, 1]
    assert told == []


def test_what_was_sent_behind_a_failed_entry_fits_nothing(hand: Callable[..., Hand]) -> None:
    one = hand()
    sent(one, 2)
    one.refuse(0, "PersistenceError")
    one.receipt(1)
    assert one.wire.shut == [one.wire.connections[0]]


def test_a_producer_that_is_closed_before_it_is_ready_ends_the_connection(wire: Any) -> None:
    one = Hand(wire)
    done: list[Any] = []
    one.producer.close(done.append)
    assert done == [None]
    assert errors(one.made) == ["Closed"]
    one.accept()
    assert one.wire.shut == [one.wire.connections[0]]


def test_a_registration_that_is_not_answered_is_taken_back(wire: Any) -> None:
    one = Hand(wire)
    assert "CommandCloseProducer" in [body.DESCRIPTOR.name for _, body in one.wire.run(30_000)]


@pytest.mark.parametrize(
    ("error", "told", "state"),
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
    hand: Callable[..., Hand], error: str, told: list[str], state: State
) -> None:
    one = hand()
    waiting = sent(one, 1)
    one.wire.say(pb.CommandCloseProducer(producer_id=0, request_id=2**64 - 1))
    [(_, lookup)] = one.wire.run(100)
    answer = pb.CommandLookupTopicResponse(
        brokerServiceUrl="pulsar://a:1", response="Connect", request_id=lookup.request_id, authoritative=True
    )
    [(_, asked)] = one.wire.say(answer)
    one.wire.say(pb.CommandError(request_id=asked.request_id, error=error, message="no"))
    assert errors(waiting) == told
    assert one.producer.state is state


def test_a_refusal_that_passes_is_tried_again_until_the_operation_time_out(wire: Any) -> None:
    one = Hand(wire)
    told = pb.CommandError(request_id=one.asked.request_id, error="ServiceNotReady", message="not yet")
    assert one.wire.say(told) == []
    assert one.made == []
    [(_, lookup)] = one.wire.run(100)
    one.wire.run(29_800)
    answer = pb.CommandLookupTopicResponse(
        brokerServiceUrl="pulsar://a:1", response="Connect", request_id=lookup.request_id, authoritative=True
    )
    [(_, asked)] = one.wire.say(answer)
    one.wire.run(200)
    one.wire.say(pb.CommandError(request_id=asked.request_id, error="ServiceNotReady", message="not yet"))
    assert errors(one.made) == ["ServiceNotReady"]
    assert one.producer.state is State.FAILED


def test_a_topic_that_ends(hand: Callable[..., Hand]) -> None:
    one = hand()
    told = sent(one, 2)
    one.refuse(0, "TopicTerminatedError")
    assert errors(told) == ["TopicTerminatedError"] * 2
    assert one.producer.state is State.TERMINATED


def test_a_close_that_the_broker_refuses_is_one_all_the_same(hand: Callable[..., Hand]) -> None:
    one = hand()
    done: list[Any] = []
    told: list[Any] = []
    one.producer.send(OutgoingMessage(b"x"), told.append)
    one.producer.close(done.append)
    [_send, (_, close)] = one.wire.hear()
    one.wire.say(pb.CommandError(request_id=close.request_id, error="UnknownError", message="no"))
    assert (errors(done), errors(told)) == (["UnknownError"], ["Closed"])
    assert one.producer.state is State.CLOSED
    assert one.wire.engine.handlers == {}


def test_the_broker_closes_it_before_it_is_ready(wire: Any) -> None:
    one = Hand(wire)
    one.wire.say(pb.CommandCloseProducer(producer_id=0, request_id=2**64 - 1))
    one.accept()
    assert one.made == []
    assert one.producer.state is State.CONNECTING


@pytest.mark.parametrize(("ready", "state"), [(False, State.FAILED), (True, State.CLOSED)])
def test_a_topic_that_no_broker_has(wire: Any, ready: bool, state: State) -> None:
    one = Hand(wire)
    if ready:
        one.accept()
    one.producer.lost()
    one.producer.reconnect()
    [(_, lookup)] = one.wire.run(100)
    answer = pb.CommandLookupTopicResponse(
        response="Failed", request_id=lookup.request_id, error="TopicNotFound", message="no"
    )
    one.wire.say(answer)
    assert one.producer.state is state
    assert errors(one.made)[-1] == (str(one.producer) if ready else "TopicNotFound")
