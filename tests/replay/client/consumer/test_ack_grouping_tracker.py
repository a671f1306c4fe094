"""Acknowledgements: how they are grouped, and when they are sent."""

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.consumer.ack_grouping_tracker import AckGroupingTracker
from pcli.replay.client.message_ids import AckSet, ClientMessageId
from pcli.replay.client.settings import ConsumerSettings

TOPIC = "persistent://public/default/orders"


class Acks:
    def __init__(self, fake_broker, *, persistent=True, **settings):
        self.fake_broker = fake_broker
        fake_broker.engine.connection_for(TOPIC, lambda connection: None)
        fake_broker.take_output()
        fake_broker.complete_handshake()
        self.done_with, self.till, self.results = [], [], []
        self.settled, self.settled_till = self.done_with.append, self.till.append
        self.number, self.persistent = 3, persistent
        self.grouping = AckGroupingTracker(fake_broker.engine, self, ConsumerSettings(**settings))
        self.grouping.connection = fake_broker.connections[0]

    def sent(self, milliseconds=0):
        """Return the ACKs sent at that time: type, ids, and the words of the ack sets."""
        sent_frames = self.fake_broker.run(milliseconds) if milliseconds else self.fake_broker.take_output()
        return [
            (
                pb.CommandAck.AckType.Name(body.ack_type),
                [(one.ledgerId, one.entryId, list(one.ack_set)) for one in body.message_id],
            )
            for _, body in sent_frames
        ]

    def add(self, *ids):
        for one in ids:
            self.grouping.add(one, self.results.append)


@pytest.fixture
def acks(fake_broker):
    return lambda **settings: Acks(fake_broker(), **settings)


def batch(entry, count):
    left = AckSet((1 << count) - 1)
    return [ClientMessageId(1, entry, -1, index, count, left) for index in range(count)]


def test_a_tick_sends_waiting_acks_in_order(acks):
    acks = acks()
    acks.sent(150)
    acks.add(ClientMessageId(1, 5), ClientMessageId(1, 2), *batch(1, 3)[:1], *batch(0, 2))
    assert acks.sent(49) == []
    assert acks.sent(1) == [("Individual", [(1, 0, []), (1, 2, []), (1, 5, []), (1, 1, [6])])]
    assert acks.results == [None] * 5
    assert acks.sent(1000) == []
    assert acks.fake_broker.engine.deadline > acks.fake_broker.now + 1000  # no timer if nothing is pending


def test_the_last_ack_of_a_batch_acknowledges_the_entry(acks):
    acks = acks()
    ids = batch(0, 3)
    acks.add(ids[0])
    assert acks.sent(100) == [("Individual", [(1, 0, [6])])]
    acks.add(ids[1])
    assert acks.sent(100) == [("Individual", [(1, 0, [4])])]
    assert acks.done_with == []
    acks.add(ids[2])
    assert acks.sent(100) == [("Individual", [(1, 0, [])])]
    assert acks.done_with == [ids[2]]


def test_large_ack_sets_have_several_words(acks):
    acks = acks()
    ids = batch(0, 1000)
    for one in ids[:-1]:
        acks.grouping.add(one)
    [(_, [(_, _, words)])] = acks.sent(100)
    assert words == [0] * 15 + [1 << 39]


def test_a_redelivered_batch_shares_the_waiting_ack_set(acks):
    acks = acks()
    first, again = batch(0, 3), batch(0, 3)
    acks.add(first[0], again[1])
    assert acks.sent(100) == [("Individual", [(1, 0, [4])])]


def test_without_batch_index_acks_only_complete_entries_are_sent(acks):
    acks = acks(batchIndexAckEnabled=False)
    ids = batch(0, 2)
    acks.add(ids[0])
    assert acks.sent(100) == []
    assert acks.results == [None]
    acks.add(ids[1])
    assert acks.sent(100) == [("Individual", [(1, 0, [])])]


@pytest.mark.parametrize(("indexes", "place"), [(True, (1, 5, [4])), (False, (1, 4, []))])
def test_a_cumulative_ack_within_a_batch(acks, indexes, place):
    acks = acks(batchIndexAckEnabled=indexes)
    acks.grouping.add_cumulative(batch(5, 3)[1])
    assert acks.sent(100) == [("Cumulative", [place])]


def test_only_the_last_cumulative_ack_is_sent_and_it_is_first(acks):
    acks = acks()
    for entry in (3, 9, 4):
        acks.grouping.add_cumulative(ClientMessageId(1, entry))
    acks.add(ClientMessageId(2, 0))
    assert acks.sent(100) == [("Cumulative", [(1, 9, [])]), ("Individual", [(2, 0, [])])]
    acks.grouping.add_cumulative(ClientMessageId(1, 9))
    assert acks.sent(1000) == []
    assert acks.till == [ClientMessageId(1, 3), ClientMessageId(1, 9), ClientMessageId(1, 4), ClientMessageId(1, 9)]


def test_a_full_group_is_sent_at_once(acks):
    acks = acks(maxAcknowledgmentGroupSize=3)
    acks.add(ClientMessageId(1, 0), ClientMessageId(1, 1))
    assert acks.sent() == []
    acks.add(ClientMessageId(1, 2))
    assert acks.sent() == [("Individual", [(1, 0, []), (1, 1, []), (1, 2, [])])]
    for entry in range(3):
        acks.add(batch(entry, 2)[0])
    assert acks.sent() == [("Individual", [(1, 0, [2]), (1, 1, [2]), (1, 2, [2])])]


def test_without_grouping_each_ack_is_sent_at_once(acks):
    acks = acks(acknowledgementsGroupTimeMicros=0)
    acks.add(ClientMessageId(1, 0), batch(1, 2)[0])
    acks.grouping.add_cumulative(batch(2, 3)[0])
    assert acks.sent() == [
        ("Individual", [(1, 0, [])]),
        ("Individual", [(1, 1, [2])]),
        ("Cumulative", [(1, 2, [6])]),
    ]


def test_acks_with_properties_are_sent_at_once(acks):
    acks = acks()
    acks.grouping.add_cumulative(ClientMessageId(1, 0), properties={"horizon": 5})
    [(_, body)] = acks.fake_broker.take_output()
    assert [(one.key, one.value) for one in body.properties] == [("horizon", 5)]


def test_all_chunks_are_acknowledged(acks):
    acks = acks()
    last = ClientMessageId(1, 4, first=ClientMessageId(1, 2))
    acks.grouping.chunks[last] = [ClientMessageId(1, 2), ClientMessageId(1, 3), ClientMessageId(1, 4)]
    acks.add(last)
    assert acks.sent(100) == [("Individual", [(1, 2, []), (1, 3, []), (1, 4, [])])]
    assert acks.grouping.chunks == {}


def test_an_ack_response_completes_all_acks_of_its_command(acks):
    acks = acks(ackReceiptEnabled=True)
    acks.add(ClientMessageId(1, 0), batch(1, 2)[0])
    [(_, body)] = acks.fake_broker.run(100)
    assert acks.results == []
    acks.fake_broker.broker_sends(pb.CommandAckResponse(consumer_id=3, request_id=body.request_id))
    assert acks.results == [None, None]
    acks.add(ClientMessageId(1, 5))
    [(_, body)] = acks.fake_broker.run(100)
    error = pb.CommandAckResponse(consumer_id=3, request_id=body.request_id, error=pb.PersistenceError, message="no")
    acks.fake_broker.broker_sends(error)
    assert acks.results[2].error == "PersistenceError"


def test_waiting_acks_survive_the_connection(acks):
    acks = acks()
    acks.add(ClientMessageId(1, 0))
    connection, acks.grouping.connection = acks.grouping.connection, None
    assert acks.sent(100) == []
    assert acks.grouping.duplicate(ClientMessageId(1, 0))
    acks.grouping.connection = connection
    assert acks.sent(100) == [("Individual", [(1, 0, [])])]
    assert acks.grouping.idle


def test_without_a_connection_acks_wait(acks):
    acks = acks(acknowledgementsGroupTimeMicros=0)
    acks.grouping.connection = None
    acks.add(ClientMessageId(1, 0))
    assert [str(one) for one in acks.results] == ["Disconnected: 1:0 cannot be acknowledged: there is no connection"]


def test_duplicates(acks):
    acks = acks()
    grouping = acks.grouping
    acks.add(ClientMessageId(1, 5), batch(6, 3)[1])
    assert grouping.duplicate(ClientMessageId(1, 5))
    assert grouping.duplicate(ClientMessageId(1, 5, -1, 2, 3))
    assert [grouping.duplicate(one) for one in batch(6, 3)] == [False, True, False]
    grouping.add_cumulative(batch(2, 3)[1])
    assert grouping.duplicate(ClientMessageId(1, 1))
    assert [grouping.duplicate(one) for one in batch(2, 3)] == [True, True, False]
    assert not grouping.duplicate(ClientMessageId(1, 2))


def test_a_seek_resets_the_tracker(acks):
    acks = acks()
    acks.add(ClientMessageId(1, 5))
    acks.grouping.add_cumulative(ClientMessageId(1, 3))
    acks.grouping.flush_and_clean()
    assert acks.sent() == [("Cumulative", [(1, 3, [])]), ("Individual", [(1, 5, [])])]
    assert acks.grouping.idle


def test_closing_sends_waiting_acks(acks):
    acks = acks()
    acks.add(ClientMessageId(1, 5))
    acks.grouping.close()
    assert acks.sent() == [("Individual", [(1, 5, [])])]


def test_non_persistent_topics_have_no_acks(acks):
    acks = acks(persistent=False)
    acks.add(ClientMessageId(1, 5))
    acks.grouping.add_cumulative(ClientMessageId(1, 5), acks.results.append)
    assert acks.sent(1000) == []
    assert acks.results == [None, None]


def test_unreadable_entries_are_acknowledged(acks):
    acks = acks()
    acks.grouping.refuse(ClientMessageId(1, 5), pb.CommandAck.ChecksumMismatch)
    [(_, body)] = acks.fake_broker.take_output()
    assert body.validation_error == pb.CommandAck.ChecksumMismatch
    assert body.message_id[0].entryId == 5
