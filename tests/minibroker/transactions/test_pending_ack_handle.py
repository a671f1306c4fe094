"""Pending acknowledgements: what tests/conform does not show."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.transactions.pending_ack_handle import PendingAckHandle

ONE, TWO = (0, 1), (0, 2)
E = (7, 3)
"""An entry."""


class Target:
    """A subscription whose first entry has the id 7:0. Its acknowledgements are recorded."""

    def __init__(self) -> None:
        self.mark_delete_place = (7, -1)
        self.acknowledged: set[Any] = set()
        self.sets: dict[Any, int] = {}
        self.calls: list[Any] = []

    def is_acknowledged(self, place: Any) -> bool:
        return place <= self.mark_delete_place or place in self.acknowledged

    def ack_set(self, place: Any) -> int | None:
        return self.sets.get(place)

    def apply_individual(self, acks: Any) -> None:
        self.calls.append(dict(acks))

    def apply_cumulative(self, place: Any, bits: int | None) -> None:
        self.calls.append((place, bits))

    def redeliver_aborted(self, places: Any, *, ended: bool) -> None:
        self.calls.append((list(places), ended))


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def handle(target: Target) -> PendingAckHandle:
    return PendingAckHandle(target, "t", "sub")


def text(refused: Any) -> str:
    assert refused.value.code == pb.TransactionConflict
    return refused.value.text.rpartition("TransactionConflictException: ")[2]


def test_the_texts_of_conflicts(handle, target):
    handle.acknowledge(ONE, [(E, None, 0)])
    with pytest.raises(Refused) as pending:
        handle.acknowledge(TWO, [(E, None, 0)])
    handle.acknowledge(TWO, [((7, 4), 0b10, 2)])
    with pytest.raises(Refused) as of_a_batch:
        handle.acknowledge(TWO, [((7, 4), 0b10, 2)])
    target.acknowledged.add((7, 5))
    with pytest.raises(Refused) as acknowledged:
        handle.acknowledge(TWO, [((7, 5), None, 0)])
    assert [text(one) for one in (pending, of_a_batch, acknowledged)] == [
        "[t][sub] Transaction:(0,2) try to ack message:7:3 (ackSet is null) in pending ack status.",
        "[t][sub] Transaction:(0,2) try to ack batch message:7:4 (ackSet with long[] size of 1) in pending ack status.",
        "[t][sub] Transaction:(0,2) try to ack message:7:5 (ackSet is null) already acked before.",
    ]


def test_a_large_batch(handle, target):
    """The ack set of 70 messages has two words; the zero words at its end are missing."""
    handle.acknowledge(ONE, [(E, (1 << 64) - 1, 70)])
    handle.acknowledge(TWO, [(E, (1 << 70) - 2, 70)])
    with pytest.raises(Refused):
        handle.acknowledge(TWO, [(E, (1 << 70) - 2, 70)])
    handle.abort(TWO, 0)
    assert handle.places[E] == ((1 << 64) - 1, 70)
    handle.abort(ONE, 0)
    assert handle.places == {}


def test_a_commit_keeps_the_messages_of_other_transactions_pending(handle, target):
    handle.acknowledge(ONE, [(E, 0b1110, 4)])
    handle.acknowledge(TWO, [(E, 0b1101, 4)])
    handle.commit(ONE, 0)
    assert target.calls == [{E: 0b1110}]
    assert handle.places == {E: (0b1100, 4)}


def test_entries_before_the_mark_delete_position_are_forgotten(handle, target):
    handle.acknowledge(ONE, [((7, entry), None, 0) for entry in range(4)])
    target.mark_delete_place = (7, 2)
    handle.forget((7, 2))
    assert list(handle.places) == [(7, 3)]
    handle.commit(ONE, 0)
    assert list(target.calls[0]) == [(7, entry) for entry in range(4)]


@pytest.mark.parametrize(
    ("first", "second", "later"),
    [
        ((E, None), ((7, 4), None), True),
        ((E, None), ((7, 2), None), False),
        ((E, 0b1110), (E, 0b1100), True),
        ((E, 0b1100), (E, 0b1110), False),
        ((E, 0b1100), (E, None), True),
        ((E, None), (E, 0b1100), False),
        ((E, None), (E, None), False),
    ],
)
def test_a_cumulative_acknowledgement_moves_forwards(handle, first, second, later):
    handle.acknowledge_cumulative(ONE, *first)
    if later:
        handle.acknowledge_cumulative(ONE, *second)
    else:
        with pytest.raises(Refused):
            handle.acknowledge_cumulative(ONE, *second)


def test_an_unload_keeps_open_transactions(handle, target):
    handle.acknowledge(ONE, [(E, 0b1110, 4), ((7, 4), None, 0)])
    handle.acknowledge(TWO, [((7, 5), None, 0)])
    handle.record_batch_ack((7, 6), 0b01)
    handle.acknowledge_cumulative(ONE, (7, 5), None)
    target.acknowledged = {(7, 5)}
    target.mark_delete_place = (7, 1)
    handle.reload(0)
    assert handle.places == {E: (0b1110, 4), (7, 4): (None, 0)}
    assert (list(handle.transactions), handle.cumulative) == ([ONE], (ONE, (7, 5), None))
    target.mark_delete_place = (7, 5)
    handle.reload(0)
    assert (handle.transactions, handle.cumulative) == ({}, None)


def test_the_low_water_mark_does_not_restart_delivery_on_exclusive(scene):
    ids = [scene.publish(text) for text in ("m0", "m1")]
    scene.subscribe("Exclusive")
    scene.ack(ids[0], (9, 1))
    scene.ack(ids[1], (9, 2))
    end = pb.CommandEndTxnOnSubscription(
        subscription={"topic": scene.topic.full_name, "subscription": "sub"},
        txn_action=pb.COMMIT,
        txnid_most_bits=9,
        txnid_least_bits=2,
        txnid_least_bits_of_low_watermark=1,
    )
    assert not scene.coordinator.one(end).HasField("error")
    assert (scene.received(), scene.subscription.pending_ack_handle.transactions) == ([], {})


def test_redelivery_counts_continue_after_an_abort(scene):
    message_id = scene.publish("m0")
    scene.subscribe()
    scene.consumer(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))
    txn = scene.begin()
    scene.add_subscription(txn)
    scene.ack(message_id, txn)
    scene.end(txn, pb.ABORT)
    [again] = scene.consumer.hear()
    assert again.redelivery_count == 2


@pytest.mark.parametrize(
    ("in_transaction", "again"),
    [((0, 1), ["m0", "m1", "m2"]), ((0, 2), ["m0", "m2", "m1", "m2"])],
    ids=["next", "later"],
)
def test_an_abort_before_entries_are_read_again(scene, in_transaction, again):
    """They are redelivered, and then read, except those at the read position (verified on 4.2.4)."""
    ids = [scene.publish(f"m{number}") for number in range(3)]
    scene.subscribe()
    txn = scene.begin()
    scene.add_subscription(txn)
    for number in in_transaction:
        scene.ack(ids[number], txn)
    scene.consumer(pb.CommandCloseConsumer(consumer_id=1))
    scene.consumer.subscribe(scene.topic.full_name, 2, subscription="sub", subType=pb.CommandSubscribe.Shared)
    scene.end(txn, pb.ABORT)
    scene._say(pb.CommandFlow(consumer_id=2, messagePermits=1000))
    assert scene.received() == again


def test_the_owner_of_an_entry_is_unblocked(make_scene):
    """An acknowledgement in a transaction counts at once: the consumer may receive more."""
    scene = make_scene(maxUnackedMessagesPerConsumer=2)
    ids = [scene.publish(f"m{number}") for number in range(4)]
    assert scene.subscribe() == ["m0", "m1"]
    txn = scene.begin()
    scene.ack(ids[0], txn)
    assert scene.received() == ["m2"]


def test_a_declared_batch_size_needs_no_memory(scene):
    place = scene.publish("m0")
    scene.subscribe()
    place.batch_size, place.ack_set[:] = (1 << 31) - 1, [1]
    assert scene.ack(place, (0, 0)) == 0
    end = {"subscription": {"topic": scene.topic.full_name, "subscription": "sub"}, "txn_action": pb.ABORT}
    scene.coordinator.one(pb.CommandEndTxnOnSubscription(txnid_most_bits=0, txnid_least_bits=0, **end))
    assert scene.subscription.pending_ack_handle.places == {}


def test_many_acknowledged_entries_are_forgotten(handle, target):
    """An old unacknowledged entry does not keep the memory of the entries after it."""
    handle.acknowledge(ONE, [((7, 0), None, 0)])
    for entry in range(1, 5_000):
        handle.acknowledge(TWO, [((7, entry), None, 0)])
        handle.forget((7, entry))
    assert list(handle.places) == [(7, 0)]
    assert len(handle._sorted_places) < 1_100
    target.mark_delete_place = (7, 5_000)
    handle.forget((7, 4_999))
    assert (handle.places, handle._sorted_places) == ({}, [])


def test_an_ack_set_with_more_messages_than_the_batch_counts_none(scene):
    place = scene.publish("m0")
    scene.subscribe()
    place.batch_size, place.ack_set[:] = 1, [0b111]
    assert scene.ack(place, (9, 1)) == 0
    assert scene.subscription.consumers[0].messages_acked == 0
