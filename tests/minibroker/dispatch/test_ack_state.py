"""dispatcherPauseOnAckStatePersistent: reading pauses while not all ranges of acknowledged entries can be stored.

The same conversation was held with a real 4.2.4 (managedLedgerMaxUnackedRangesToPersist=5).
"""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName


@pytest.fixture
def reader(make_world):
    """Return a consumer of a Shared subscription with 20 of 60 entries: functions to acknowledge and to read."""

    def make(kind=pb.CommandSubscribe.Shared, **settings):
        world = make_world(managedLedgerMaxUnackedRangesToPersist=5, **settings)
        client = world.client()
        client.subscribe(subType=kind)
        client.producer()
        ledger = [client.publish(sequence_id=number)[0].message_id.ledgerId for number in range(60)].pop()

        def acknowledge(*entries):
            ids = [pb.MessageIdData(ledgerId=ledger, entryId=entry) for entry in entries]
            acks = [pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[one]) for one in ids]
            return [one.message_id.entryId for one in client(*acks)]

        def redeliver(entry):
            place = pb.MessageIdData(ledgerId=ledger, entryId=entry)
            answer = client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=[place]))
            return [one.message_id.entryId for one in answer]

        def read(permits):
            return [one.message_id.entryId for one in client.flow(permits)]

        assert read(20) == list(range(20))
        return world, acknowledge, redeliver, read

    return make


def test_the_conversation_of_a_real_broker(reader):
    _, acknowledge, redeliver, read = reader(dispatcherPauseOnAckStatePersistentEnabled=True)
    assert acknowledge(1, 3, 5, 7, 9) == []
    assert read(2) == [20, 21]
    assert acknowledge(11) == []
    assert read(2) == []
    assert read(2) == []
    assert redeliver(0) == [0]
    assert acknowledge(2) == [22, 23, 24]
    assert read(3) == [25, 26, 27]
    assert acknowledge(13, 15, 17) == []
    assert read(3) == []
    assert acknowledge(0) == []
    assert acknowledge(4, 6, 8, 10, 12, 14, 16) == [28, 29, 30]


@pytest.mark.parametrize(
    ("kind", "enabled"), [(pb.CommandSubscribe.Shared, False), (pb.CommandSubscribe.Exclusive, True)]
)
def test_other_subscriptions_do_not_pause(reader, kind, enabled):
    _, acknowledge, _, read = reader(kind, dispatcherPauseOnAckStatePersistentEnabled=enabled)
    acknowledge(*range(1, 17, 2))
    assert read(2) == [20, 21]


def test_removing_the_policy_resumes_reading(reader):
    world, acknowledge, _, read = reader()
    topic, policies = TopicName.parse("t"), world.broker.policies
    policies.set_topic(topic, "dispatcherPauseOnAckStatePersistent", None)
    assert read(1) == [20]
    acknowledge(*range(1, 17, 2))
    assert read(2) == []
    policies.unset_topic(topic, "dispatcherPauseOnAckStatePersistent")
    assert read(1) == [21, 22, 23]
