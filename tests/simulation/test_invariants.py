"""Invariants, each with a conversation on the wire that it allows and one that it reports."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.message import Message
from simulation.contents import contents_of_block
from simulation.history import History, StoredEntry
from simulation.invariants.delivery import acknowledged_messages_are_not_delivered_again, every_message_is_delivered
from simulation.invariants.durability import confirmed_state_survives_a_kill
from simulation.invariants.flow_control import unacked_limits_are_respected
from simulation.invariants.scalable_assignments import (
    registered_consumers_survive_restarts,
    segments_have_one_owner,
)
from simulation.invariants.storage import every_receipt_is_a_stored_message

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame

SCALABLE = "topic://public/default/t"
TOPIC = "persistent://public/default/t"
LINK = SimpleNamespace(number=0)
FAILOVER, SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Shared
TXN = {"txnid_most_bits": 0, "txnid_least_bits": 6}
SEND = pb.CommandSend(producer_id=0, sequence_id=7)
RECEIPT = pb.CommandSendReceipt(producer_id=0, sequence_id=7, message_id=pb.MessageIdData(ledgerId=0, entryId=0))


def entry(*texts: bytes) -> bytes:
    """An entry with one message, or a batch."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    if len(texts) == 1:
        return push_entry(metadata, texts[0])
    metadata.num_messages_in_batch = len(texts)
    singles = [(pb.SingleMessageMetadata(payload_size=len(text)).SerializeToString(), text) for text in texts]
    return push_entry(metadata, b"".join(len(head).to_bytes(4) + head + text for head, text in singles))


def assignment(*segments: int) -> pb.ScalableConsumerAssignment:
    """An assignment of whole segments."""
    parts = [
        pb.ScalableAssignedSegment(segment_id=one, hash_start=0, hash_end=0, segment_topic=str(one)) for one in segments
    ]
    return pb.ScalableConsumerAssignment(layout_epoch=0, segments=parts)


class Cursor(SimpleNamespace):
    """A cursor that acknowledges the entries up to ``mark_delete``."""

    def is_deleted(self, offset: int) -> bool:
        return offset <= self.mark_delete


class Conversation:
    """Frames of one connection, and a run for the invariants. ``entries`` are those of the topic."""

    def __init__(self, *entries: bytes) -> None:
        self.now = 0
        self.subscriptions: dict[str, Any] = {}
        ledger = SimpleNamespace(next=len(entries))
        topic = SimpleNamespace(subscriptions=self.subscriptions, ledger=ledger, effective=lambda _: 0)
        settings = SimpleNamespace(scalableTopicConsumerSessionGracePeriodSeconds=10)
        self.broker = SimpleNamespace(
            topics={TOPIC: topic}, settings=settings, scalable_topics=SimpleNamespace(topics={})
        )
        self.history = History(self.broker)
        self.history.opened(LINK, self.now)
        for offset, data in enumerate(entries):
            one = StoredEntry(TOPIC, offset, (0, offset), data, contents_of_block(data), 0)
            self.history.stored.setdefault(TOPIC, []).append(one)
            self.history.by_position[0, offset] = one
        network = SimpleNamespace(broker=self.broker)
        self.run = SimpleNamespace(history=self.history, network=network, checks=Counter(), exempt=Counter())

    def client(self, body: Message, data: bytes = b"") -> None:
        self.history.bytes_passed(LINK, push_frame(body, data), self.now, from_client=True)

    def broker_sends(self, body: Message, data: bytes = b"", lost: bool = False) -> None:
        for frame in self.history.produced(LINK, push_frame(body, data), self.now, closing=False):
            frame.lost = lost

    def producer(self) -> None:
        self.client(pb.CommandProducer(topic=TOPIC, producer_id=0, request_id=1))
        self.broker_sends(pb.CommandProducerSuccess(request_id=1, producer_name="p"))

    def subscribe(self, kind: Any) -> None:
        self.client(
            pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=kind, consumer_id=0, request_id=1, durable=True)
        )
        self.broker_sends(pb.CommandSuccess(request_id=1))

    def message(self, offset: int, ack_set: int = 0) -> None:
        place = pb.MessageIdData(ledgerId=0, entryId=offset)
        body = pb.CommandMessage(consumer_id=0, message_id=place, ack_set=[ack_set] if ack_set else [])
        self.broker_sends(body, self.history.stored[TOPIC][offset].data)

    def ack(self, offset: int, ack_set: int = 0, kind: Any = pb.CommandAck.Individual, **fields: Any) -> None:
        place = pb.MessageIdData(ledgerId=0, entryId=offset, ack_set=[ack_set] if ack_set else [])
        self.client(pb.CommandAck(consumer_id=0, ack_type=kind, message_id=[place], **fields))

    def kill(self, mark_delete: int | None, *, complete: bool = False) -> None:
        """Kill the broker; ``mark_delete`` is that of the restored cursor, or None if there is no subscription."""
        self.history.closed(LINK, self.now, from_client=False)
        self.restore(mark_delete)
        self.history.restarted(self.broker, self.now, complete=complete)
        self.history.opened(LINK, self.now)

    def restore(self, mark_delete: int | None) -> None:
        self.subscriptions.clear()
        if mark_delete is not None:
            cursor = Cursor(mark_delete=mark_delete, ack_sets={}, read_position=0)
            left = len(self.history.stored.get(TOPIC, ())) - 1 - mark_delete
            self.subscriptions["s"] = SimpleNamespace(cursor=cursor, durable=True, backlog=left)

    def register(self, name: str, number: int, *segments: int) -> None:
        """Register a stream consumer, which gets these segments."""
        request = pb.CommandScalableTopicSubscribe(
            request_id=number, topic=SCALABLE, subscription="s", consumer_name=name, consumer_id=number,
            consumer_type=pb.STREAM,
        )  # fmt: skip
        self.client(request)
        self.broker_sends(pb.CommandScalableTopicSubscribeResponse(request_id=number, assignment=assignment(*segments)))

    def violations(self, invariant: Any) -> list[str]:
        self.history.drop_lost()
        return [one.text for one in invariant(self.run)]


@pytest.mark.parametrize("receipt_is_first", [True, False])
def test_a_receipt_precedes_the_response_to_close_producer(receipt_is_first):
    """SEND and CLOSE_PRODUCER arrive together."""
    one = Conversation(entry(b"m"))
    one.producer()
    one.client(SEND, entry(b"m"))
    one.client(pb.CommandCloseProducer(producer_id=0, request_id=2))
    responses = [RECEIPT, pb.CommandSuccess(request_id=2)]
    for body in responses if receipt_is_first else responses[::-1]:
        one.broker_sends(body)
    found = one.violations(every_receipt_is_a_stored_message)
    assert [text for text in found if "is closed" not in text] == []
    assert len(found) == (0 if receipt_is_first else 1)


@pytest.mark.parametrize("deletion_is_written", [True, False])
def test_a_subscription_with_the_name_of_a_deleted_one(deletion_is_written):
    """The response to UNSUBSCRIBE is lost with the broker. The next subscription starts after the entry."""
    one = Conversation(entry(b"m"))
    one.restore(-1)
    one.subscribe(SHARED)
    one.client(pb.CommandUnsubscribe(consumer_id=0, request_id=2))
    one.broker_sends(pb.CommandSuccess(request_id=2), lost=True)
    one.kill(None if deletion_is_written else -1)
    one.restore(0)
    one.subscribe(SHARED)
    one.kill(0)
    lost = "entry (0, 0) is acknowledged, although no consumer acknowledged it"
    found = one.violations(confirmed_state_survives_a_kill)
    assert [text.endswith(lost) for text in found] == ([] if deletion_is_written else [True])


@pytest.mark.parametrize("error", [pb.TransactionConflict, None])
def test_a_commit_applies_only_acknowledgements_without_an_error(error):
    """The broker restores a cursor without the acknowledgement."""
    one = Conversation(entry(b"m"))
    one.restore(-1)
    one.subscribe(SHARED)
    one.message(0)
    one.ack(0, request_id=2, **TXN)
    one.broker_sends(pb.CommandAckResponse(consumer_id=0, request_id=2, error=error, **TXN))
    one.client(pb.CommandEndTxn(request_id=3, txn_action=pb.COMMIT, **TXN))
    one.broker_sends(pb.CommandEndTxnResponse(request_id=3, **TXN))
    one.kill(-1, complete=True)
    assert len(one.violations(confirmed_state_survives_a_kill)) == (0 if error else 1)


@pytest.mark.parametrize(
    ("ack_set", "is_unloaded", "is_allowed"), [(1, True, True), (1, False, False), (0, True, False)]
)
def test_an_unload_loses_the_confirmed_acknowledgement_of_a_part_of_a_batch(ack_set, is_unloaded, is_allowed):
    """The broker restores a cursor without the acknowledgement; ``ack_set`` 0 is that of the whole batch."""
    one = Conversation(entry(b"a", b"b"))
    one.restore(-1)
    one.subscribe(SHARED)
    one.message(0)
    one.ack(0, ack_set, request_id=2)
    one.broker_sends(pb.CommandAckResponse(consumer_id=0, request_id=2))
    if is_unloaded:
        one.history.mark("unload", one.now, TOPIC)
    one.kill(-1)
    assert len(one.violations(confirmed_state_survives_a_kill)) == (0 if is_allowed else 1)


@pytest.mark.parametrize("is_in_transaction", [True, False])
def test_an_aborted_entry_after_the_read_position_is_redelivered_in_spite_of_the_limit(is_in_transaction):
    """The subscription may have one unacknowledged message. The entry was read and acknowledged before a seek."""
    one = Conversation(entry(b"a"), entry(b"b"))
    one.restore(-1)
    one.broker.topics[TOPIC].effective = lambda name: int(name == "maxUnackedMessagesPerSubscription")
    for read_position, offset in ((2, 1), (1, 0)):
        one.subscribe(SHARED)
        one.subscriptions["s"].cursor.read_position = read_position
        one.message(offset)
        if offset == 1:
            if is_in_transaction:
                one.ack(1, request_id=2, **TXN)
            one.client(pb.CommandSeek(consumer_id=0, request_id=3))
            one.broker_sends(pb.CommandCloseConsumer(consumer_id=0, request_id=1))
            one.broker_sends(pb.CommandSuccess(request_id=3))
    one.history.turn += 1
    one.message(1)
    assert len(one.violations(unacked_limits_are_respected)) == (0 if is_in_transaction else 1)


CUMULATIVE, INDIVIDUAL = pb.CommandAck.Cumulative, pb.CommandAck.Individual


@pytest.mark.parametrize(
    ("before", "kind", "unacked", "is_allowed"),
    [
        (0b011, CUMULATIVE, 0b110, True),  # the last message, and then up to the first
        (0b011, INDIVIDUAL, 0b110, False),
        (0b100, CUMULATIVE, 0b110, False),  # up to an earlier message
    ],
)
def test_a_cumulative_acknowledgement_of_a_batch_replaces_the_one_before(before, kind, unacked, is_allowed):
    """The unacknowledged messages before and after an acknowledgement, and whether these are delivered."""
    one = Conversation(entry(b"a", b"b", b"c"))
    one.restore(-1)
    one.subscribe(FAILOVER)
    one.message(0)
    one.ack(0, before)
    one.ack(0, unacked, kind)
    one.message(0, unacked)
    assert len(one.violations(acknowledged_messages_are_not_delivered_again)) == (0 if is_allowed else 1)


@pytest.mark.parametrize(("time", "is_allowed"), [(10_000, True), (9_999, False)])
def test_an_acknowledgement_in_a_transaction_that_is_timed_out_remains_pending(time, is_allowed):
    """The timeout is 10 s. The entry is in the backlog at the end, and another one is acknowledged."""
    one = Conversation(entry(b"a"), entry(b"b"))
    one.restore(-1)
    one.client(pb.CommandNewTxn(request_id=9, txn_ttl_millis=10_000, tc_id=0))
    one.broker_sends(pb.CommandNewTxnResponse(request_id=9, **TXN))
    one.subscribe(SHARED)
    one.message(0)
    one.message(1)
    one.now = time
    one.ack(0, request_id=2, **TXN)
    one.broker_sends(pb.CommandAckResponse(consumer_id=0, request_id=2, **TXN))
    one.ack(1)
    one.subscriptions["s"].cursor.is_deleted = lambda offset: offset == 1
    found = one.violations(every_message_is_delivered)
    assert len(found) == (0 if is_allowed else 1)


@pytest.mark.parametrize("is_notified", [True, False])
def test_a_segment_that_another_consumer_gets_is_taken_from_its_owner(is_notified):
    one = Conversation()
    one.register("a", 1, 0, 1)
    one.history.turn += 1
    if is_notified:
        one.broker_sends(pb.CommandScalableTopicAssignmentUpdate(consumer_id=1, assignment=assignment(0)))
    one.register("b", 2, 1)
    assert len(one.violations(segments_have_one_owner)) == (0 if is_notified else 1)


@pytest.mark.parametrize("time", [9_999, 10_000])
def test_a_start_restores_the_consumers_within_their_grace_periods(time):
    one = Conversation()
    one.register("a", 1, 0)
    one.history.closed(LINK, one.now, from_client=True)
    one.now = time
    one.kill(None)
    assert len(one.violations(registered_consumers_survive_restarts)) == (1 if time < 10_000 else 0)
