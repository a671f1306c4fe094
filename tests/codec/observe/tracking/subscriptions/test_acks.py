"""ACKs in transactions and of parts of batches, as a broker counts them."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.observe.tracking.statistics.broker_statistics import figures
from pcli.codec.proto import pb
from pcli.codec.wire.bits import words_of
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.constants import MINUS_ONE

TOPIC = "persistent://public/default/t"


class Working:
    """A Shared consumer, or one of another type, with handwritten frames."""

    def __init__(self, producing: Any, kind: int = 1, *, durable: bool = True) -> None:
        self.wire = producing
        producing.opens()
        body = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=kind, consumer_id=3, request_id=9)
        body.durable = durable
        producing.client(body)
        producing.broker(pb.CommandSuccess(request_id=9))
        producing.client(pb.CommandFlow(consumer_id=3, messagePermits=100))

    def is_sent(self, entry: int, messages: int, left: int = -1) -> None:
        body = pb.CommandMessage(consumer_id=3, ack_set=() if left < 0 else words_of(left))
        body.message_id.ledgerId, body.message_id.entryId = 7, entry
        about = pb.MessageMetadata(producer_name="p", sequence_id=entry, publish_time=1, num_messages_in_batch=messages)
        self.wire._see(self.wire.conversation.broker(body, push_entry(about, b"x"), 0))

    def acks(self, *parts: tuple[int, int], txn: int = -1) -> None:
        """Return the entries with the number of unacknowledged messages of each."""
        places = [pb.MessageIdData(ledgerId=7, entryId=entry, ack_set=words_of(left)) for entry, left in parts]
        body = pb.CommandAck(consumer_id=3, ack_type=0, message_id=places)
        if txn >= 0:
            body.txnid_most_bits, body.txnid_least_bits = 0, txn
        self.wire.client(body)

    def ends(self, txn: int, action: int) -> None:
        ids = {"txnid_most_bits": 0, "txnid_least_bits": txn, "request_id": 50 + txn}
        self.wire.client(pb.CommandEndTxn(txn_action=action, **ids))
        self.wire.broker(pb.CommandEndTxnResponse(**ids))

    def seeks(self) -> None:
        """Reset the cursor to the earliest message, and attach the consumer again."""
        wire = self.wire
        wire.client(pb.CommandSeek(consumer_id=3, request_id=20, message_id=pb.MessageIdData(ledgerId=7, entryId=0)))
        wire.broker(pb.CommandCloseConsumer(consumer_id=3, request_id=MINUS_ONE))
        wire.broker(pb.CommandSuccess(request_id=20))
        self._attaches_again()

    def is_reset(self) -> None:
        """An administrator resets the cursor; the producer stays open."""
        self.wire.broker(pb.CommandCloseConsumer(consumer_id=3, request_id=MINUS_ONE))
        self._attaches_again()

    def reopens(self) -> None:
        self.wire.client(pb.CommandCloseConsumer(consumer_id=3, request_id=22))
        self._attaches_again()

    def _attaches_again(self) -> None:
        wire = self.wire
        wire.client(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=3, request_id=21))
        wire.broker(pb.CommandSuccess(request_id=21))
        wire.client(pb.CommandFlow(consumer_id=3, messagePermits=100))

    def asks_again(self) -> None:
        self.wire.client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=3))

    def counts(self, left: int, txn: int = -1) -> int:
        """Acknowledge messages of entry 0; return the number of unacknowledged messages after that."""
        self.acks((0, left), txn=txn)
        return int(self.figure()["unackedMessages"])

    def figure(self) -> dict[str, Any]:
        lives = self.wire.tracker.subscriptions
        found: dict[str, Any] = figures(lives, self.wire.conversation.now)[TOPIC]["subscriptions"]["s"]["consumers"][0]
        return found

    @property
    def record(self) -> Any:
        [found] = self.wire.records("consumer")
        return found


@pytest.fixture
def working(producing: Any) -> Working:
    return Working(producing)


def test_an_ack_in_a_transaction_reduces_the_count_at_once(working: Working) -> None:
    """Consumer.individualAckWithTransaction; redelivered messages count again."""
    working.is_sent(0, 5)
    working.acks((0, 0b11100), txn=1)
    assert working.figure()["unackedMessages"] == 3
    working.ends(1, pb.ABORT)
    assert working.figure()["unackedMessages"] == 3
    working.is_sent(0, 5)
    assert working.figure()["unackedMessages"] == 8
    assert working.record.acked == 0


@pytest.mark.parametrize(("error", "unacked"), [("TransactionConflict", 5), ("NotAllowedError", 8)])
def test_a_refused_ack_in_a_transaction(working: Working, error: str, unacked: int) -> None:
    """A conflict reduces the count (verified on 4.2.4). A broker without transactions refuses the ACK first."""
    working.is_sent(0, 5)
    working.is_sent(1, 3)
    refused = pb.CommandAck(consumer_id=3, ack_type=0, request_id=70, txnid_most_bits=0, txnid_least_bits=2)
    refused.message_id.add(ledgerId=7, entryId=1)
    working.wire.client(refused)
    working.wire.broker(pb.CommandAckResponse(consumer_id=3, request_id=70, error=pb.ServerError.Value(error)))
    assert working.figure()["unackedMessages"] == unacked


def test_a_redelivery_of_all_messages_keeps_the_count_of_an_aborted_transaction(working: Working) -> None:
    """Messages that the transaction did not acknowledge count twice after the abort (verified on 4.2.4)."""
    working.is_sent(0, 5)
    working.acks((0, 0b11100), txn=1)
    working.ends(1, pb.ABORT)
    working.is_sent(0, 5)
    working.wire.client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=3))
    working.is_sent(0, 5)
    assert working.figure()["unackedMessages"] == 8


def test_another_consumer_acknowledges_in_a_transaction(working: Working) -> None:
    """The ACK counts for the consumer that holds the entry (verified on 4.2.4)."""
    working.is_sent(0, 5)
    body = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=4, request_id=10)
    working.wire.client(body)
    working.wire.broker(pb.CommandSuccess(request_id=10))
    ack = pb.CommandAck(consumer_id=4, ack_type=0, txnid_most_bits=0, txnid_least_bits=1)
    ack.message_id.add(ledgerId=7, entryId=0)
    working.wire.client(ack)
    assert [one.unacked for one in working.wire.records("consumer")] == [0, 0]


def test_a_transaction_that_commits_acknowledges(working: Working) -> None:
    working.is_sent(0, 5)
    working.acks((0, 0b11100), txn=1)
    working.acks((0, 0b00011), txn=1)
    assert (working.figure()["unackedMessages"], working.record.acked) == (0, 0)
    working.ends(1, pb.COMMIT)
    assert (working.figure()["unackedMessages"], working.record.acked) == (0, 5)
    assert working.record.ack_ages.count == 1
    assert working.record.unacked == 0


@pytest.mark.parametrize(("kind", "requested"), [(0, True), (1, True), (1, False)], ids=["all", "acked", "timed-out"])
def test_an_abort_redelivers_before_the_response(producing: Any, kind: int, requested: bool) -> None:
    """The broker redelivers before the coordinator responds, and after the timeout of a transaction without a request.

    On Exclusive, the entries that the transaction did not acknowledge are redelivered too.
    """
    working = Working(producing, kind)
    for entry in (0, 1):
        working.is_sent(entry, 1)
    working.acks((1, 0), txn=1)
    if requested:
        working.wire.client(pb.CommandEndTxn(txnid_least_bits=1, txn_action=pb.ABORT, request_id=51))
    for entry in (0, 1) if kind == 0 else (1,):
        working.is_sent(entry, 1)
    if requested:
        working.wire.broker(pb.CommandEndTxnResponse(txnid_least_bits=1, request_id=51))
    again = working.record.subscription.again
    assert {name: seen.count for name, seen in again.items()} == {
        "aborted" if requested else "expired": 2 if kind == 0 else 1
    }
    assert working.record.unacked == (0 if kind == 0 else 2)


def test_an_ack_with_a_batch_twice_makes_the_count_unknown(working: Working) -> None:
    """Broker 4.2.4 counts the messages once or for each id, depending on when its cursor has processed the first."""
    working.is_sent(0, 5)
    working.acks((0, 0b11110))
    assert working.figure()["unackedMessages"] == 4
    working.acks((0, 0b11100), (0, 0b11100))
    assert working.figure()["unackedMessages"] is None
    assert "more than once" in working.figure()["unknown"]["unackedMessages"]
    assert working.record.unacked == 3


def test_a_cumulative_ack_before_the_first_entry(producing: Any) -> None:
    """The C++ client acknowledges up to the entry before an incomplete batch: 7:-1."""
    working = Working(producing, kind=0)
    for entry in range(2):
        producing.sends(entry)
        producing.receipt(entry)
        working.is_sent(entry, 1)
    place = pb.MessageIdData(ledgerId=7, entryId=2**64 - 1)
    producing.client(pb.CommandAck(consumer_id=3, ack_type=1, message_id=[place]))
    found = figures(producing.tracker.subscriptions, producing.conversation.now)[TOPIC]["subscriptions"]["s"]
    assert found["msgBacklog"] == 2


@pytest.mark.parametrize(
    ("gap_s", "sent", "unacked"),
    [(0.05, -1, 2), (0.5, 0b11110, 2), (0.5, -1, 5)],
    ids=["just before the ACK", "with an ack set", "the broker ignores ack sets"],
)
def test_messages_that_the_broker_sent_before_it_processed_an_ack(
    working: Working, gap_s: float, sent: int, unacked: int
) -> None:
    """The MESSAGE contains messages that an ACK before it in the capture acknowledges."""
    working.is_sent(0, 5)
    if sent != -1:
        working.acks((0, sent))
    working.wire.client(
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=3, message_ids=[pb.MessageIdData(ledgerId=7, entryId=0)])
    )
    working.acks((0, 0b11000))
    working.wire.wait(gap_s)
    working.is_sent(0, 5, sent)
    assert working.figure()["unackedMessages"] == unacked


def test_an_entry_that_the_broker_sent_before_it_processed_its_ack(working: Working) -> None:
    """An ACK can be lost only if the subscription has no consumer in between."""
    working.is_sent(0, 1)
    place = pb.MessageIdData(ledgerId=7, entryId=0)
    working.wire.client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=3, message_ids=[place]))
    working.wire.client(pb.CommandAck(consumer_id=3, ack_type=0, message_id=[place]))
    working.wire.wait(0.5)
    working.is_sent(0, 1)
    assert working.figure()["unackedMessages"] == 0


def test_an_ack_of_an_entry_that_a_removed_subscription_has_received(producing: Any) -> None:
    """The client attaches its non-durable consumer again, and acknowledges a message that the broker sends again."""
    working = Working(producing, durable=False)
    working.is_sent(0, 1)
    producing.client(pb.CommandCloseConsumer(consumer_id=3, request_id=10))
    place = pb.MessageIdData(ledgerId=7, entryId=0)
    again = {"subscription": "s", "subType": 1, "durable": False, "start_message_id": place}
    producing.client(pb.CommandSubscribe(topic=TOPIC, consumer_id=3, request_id=11, **again))
    producing.broker(pb.CommandSuccess(request_id=11))
    producing.client(pb.CommandAck(consumer_id=3, ack_type=0, message_id=[place]))
    working.is_sent(0, 1)
    assert working.figure()["unackedMessages"] == 0


def test_an_ack_that_is_lost_while_the_subscription_has_no_consumer(working: Working) -> None:
    working.is_sent(0, 1)
    wire, place = working.wire, pb.MessageIdData(ledgerId=7, entryId=0)
    wire.client(pb.CommandAck(consumer_id=3, ack_type=0, message_id=[place]))
    wire.client(pb.CommandCloseConsumer(consumer_id=3, request_id=10))
    wire.client(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=3, request_id=11))
    wire.broker(pb.CommandSuccess(request_id=11))
    working.is_sent(0, 1)
    assert working.figure()["unackedMessages"] == 1


def test_an_ack_that_is_lost_with_its_connection(working: Working) -> None:
    """Another consumer remains attached."""
    wire, place = working.wire, pb.MessageIdData(ledgerId=7, entryId=0)
    wire.client(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=4, request_id=10))
    wire.broker(pb.CommandSuccess(request_id=10))
    working.is_sent(0, 1)
    wire.client(pb.CommandAck(consumer_id=3, ack_type=0, message_id=[place]))
    wire.client(pb.CommandCloseConsumer(consumer_id=3, request_id=11))
    wire.client(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=3, request_id=12))
    wire.broker(pb.CommandSuccess(request_id=12))
    working.is_sent(0, 1)
    found = figures(wire.tracker.subscriptions, wire.conversation.now)[TOPIC]["subscriptions"]["s"]
    assert found["unackedMessages"] == 1


def test_an_ack_after_the_broker_closed_the_consumer(producing: Any) -> None:
    """The broker has unloaded the topic when the ACK arrives, and sends CLOSE_CONSUMER after that."""
    working = Working(producing, kind=2)
    working.is_sent(0, 1)
    place = pb.MessageIdData(ledgerId=7, entryId=0)
    producing.client(pb.CommandAck(consumer_id=3, ack_type=1, message_id=[place]))
    producing.broker(pb.CommandCloseConsumer(consumer_id=3, request_id=MINUS_ONE))
    producing.client(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=4, request_id=10))
    producing.broker(pb.CommandSuccess(request_id=10))
    message = pb.CommandMessage(consumer_id=4, message_id=place)
    about = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    producing._see(producing.conversation.broker(message, push_entry(about, b"x"), 0))
    assert working.figure()["unackedMessages"] == 1


def test_a_message_shows_that_an_ack_set_was_lost(working: Working) -> None:
    """A topic without consumers was unloaded. The ACK just before the MESSAGE does not acknowledge its messages."""
    working.is_sent(0, 5)
    working.acks((0, 0b00100))
    wire = working.wire
    wire.ends()
    wire.wait(1)
    wire.client(pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=1, consumer_id=3, request_id=10), stream=1)
    wire.broker(pb.CommandSuccess(request_id=10), stream=1)
    place = pb.MessageIdData(ledgerId=7, entryId=0, ack_set=[0b01000])
    wire.client(pb.CommandAck(consumer_id=3, ack_type=0, message_id=[place]), stream=1)
    message = pb.CommandMessage(consumer_id=3, ack_set=[0b01000])
    message.message_id.ledgerId, message.message_id.entryId = 7, 0
    about = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=5)
    wire._see(wire.conversation.broker(message, push_entry(about, b"x"), 1))
    assert working.figure()["unackedMessages"] == 1


@pytest.mark.parametrize("reset", [Working.seeks, Working.is_reset], ids=["seek", "reset by an administrator"])
@pytest.mark.parametrize(
    ("known", "acks"),
    [
        (0b00010, ((0b01000, 1), (0, 1))),
        (0b00111, ((0b11011, 3), (0b01011, 2), (0b00011, 1), (0b00001, 0), (0, 0))),
    ],
    ids=["other messages", "more messages"],
)
def test_acks_of_a_batch_after_a_reset(working: Working, reset: Any, known: int, acks: Any) -> None:
    """A reset removes the ack sets of the cursor, and not those of the pending acks (verified on 4.2.4).

    The pending acks determine which messages are delivered and when no message is left. The number of acknowledged
    messages follows from the cursor. It can be too low: the count then remains until the consumer leaves.
    """
    working.is_sent(0, 5)
    working.acks((0, known))
    reset(working)
    working.is_sent(0, 5, known)
    assert working.figure()["unackedMessages"] == known.bit_count()
    assert [working.counts(left) for left, _ in acks] == [count for _, count in acks]
    working.wire.client(pb.CommandCloseConsumer(consumer_id=3, request_id=22))
    assert working.record.subscription.unacked == 0


def test_acks_of_a_batch_after_a_seek_and_in_a_transaction(working: Working) -> None:
    """The transaction changes the pending acks only. No message is left in them, so 2 remain counted (4.2.4)."""
    working.is_sent(0, 5)
    working.acks((0, 0b00111))
    working.seeks()
    working.is_sent(0, 5, 0b00111)
    assert [working.counts(0b11110, txn=1), working.counts(0b11001)] == [2, 2]
    working.asks_again()
    working.ends(1, pb.COMMIT)
    assert working.counts(0b00111) == 2


def test_acks_of_a_batch_whose_other_messages_are_in_a_transaction(working: Working) -> None:
    """Broker 4.2.4 counts an ACK too low at first, and then has no message left: 1 remains counted."""
    working.is_sent(0, 5)
    assert working.counts(0b11100, txn=1) == 3
    assert [working.counts(left) for left in (0b11011, 0b10111, 0b01111)] == [3, 2, 1]
    working.asks_again()
    assert working.figure()["unackedMessages"] == 1


def test_a_redelivery_of_a_batch_without_the_messages_in_a_transaction(working: Working) -> None:
    """The cursor has not acknowledged the messages that the MESSAGE does not contain (verified on 4.2.4)."""
    working.is_sent(0, 5)
    working.acks((0, 0b11100), txn=1)
    working.reopens()
    working.is_sent(0, 5, 0b11100)
    assert [working.counts(left) for left in (0b11011, 0b10111, 0b01111)] == [3, 2, 1]
    working.ends(1, pb.COMMIT)
    assert working.figure()["unackedMessages"] == 1


def test_a_redelivery_of_a_batch_with_acks_and_a_transaction(working: Working) -> None:
    """The MESSAGE lacks a message that is acknowledged, and one that is in the transaction (verified on 4.2.4)."""
    working.is_sent(0, 5)
    working.acks((0, 0b11110))
    working.acks((0, 0b11101), txn=1)
    working.reopens()
    working.is_sent(0, 5, 0b11100)
    assert working.counts(0b11011) == 2
    working.is_sent(0, 5, 0b11010)
    working.ends(1, pb.ABORT)
    assert [working.figure()["unackedMessages"], working.counts(0b10111), working.counts(0b01111)] == [5, 4, 3]


@pytest.mark.parametrize(("acked", "after_all"), [(False, 6), (True, 3)], ids=["none", "some"])
def test_a_conflict_with_a_batch_removes_the_pending_ack(working: Working, acked: bool, after_all: int) -> None:
    """The broker removes the pending ack if no message of the batch is acknowledged (verified on 4.2.4).

    Its messages remain counted until the consumer leaves.
    """
    working.is_sent(0, 5)
    working.is_sent(1, 5)
    working.acks((1, 0b11110))
    if acked:
        working.acks((0, 0b01111))
    places = [pb.MessageIdData(ledgerId=7, entryId=at, ack_set=[bits]) for at, bits in ((0, 0b11100), (1, 0b11110))]
    refused = {"ack_type": 0, "request_id": 70, "txnid_most_bits": 0, "txnid_least_bits": 2}
    working.wire.client(pb.CommandAck(consumer_id=3, message_id=places, **refused))
    error = pb.ServerError.Value("TransactionConflict")
    working.wire.broker(pb.CommandAckResponse(consumer_id=3, request_id=70, error=error))
    assert working.figure()["unackedMessages"] == 6 - acked
    working.acks((0, 0b00111))
    working.acks((0, 0b11011))
    assert working.figure()["unackedMessages"] == after_all


def test_a_redelivery_of_a_batch_after_a_seek(working: Working) -> None:
    """The cursor has more unacknowledged messages than the MESSAGE contains (verified on 4.2.4)."""
    working.is_sent(0, 5)
    working.acks((0, 0b00111))
    working.seeks()
    working.is_sent(0, 5, 0b00111)
    working.acks((0, 0b11011))
    working.acks((0, 0b01011))
    working.wire.client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=3))
    working.is_sent(0, 5, 0b00011)
    assert working.figure()["unackedMessages"] == 2
    working.acks((0, 0b00011))
    assert working.figure()["unackedMessages"] == 1


def test_discarded_messages_are_counted_not_entries(make_scene):
    """A client discards a batch that it cannot decrypt with one ACK."""
    scene = make_scene()
    source, sink = scene.actor(), scene.actor()
    source.producer()
    sink.subscribe(kind="Shared")
    sink.flow(100)
    source.publish(0)
    source.publish(1, 4)
    error = pb.CommandAck.DecryptionError
    for message in sink.messages:
        sink.ack(message.message_id, validation_error=error)
    record = scene.tracker.subscriptions.lifecycles.topics[TOPIC].subscriptions["s"].record.consumers["c1"]
    assert record.validation["DecryptionError"].count == 5
