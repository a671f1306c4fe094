"""SEND: receipts, errors, and the faults that close the connection.

Expected values are those of a real 4.2.4 broker.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.topic_name import TopicName

T = "persistent://public/default/t"
N = "non-persistent://public/default/t"
START = 1_700_000_000_000


def metadata(**fields):
    return pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=START, **fields)


def send(sequence_id=0, producer_id=1, **fields):
    return pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, **fields)


def error(answer):
    """Return the name of the error in a response."""
    assert isinstance(answer, pb.CommandSendError), answer
    return pb.ServerError.Name(answer.error)


def place(answer):
    """Return the ledger and entry of a receipt."""
    assert isinstance(answer, pb.CommandSendReceipt), answer
    return answer.message_id.ledgerId, answer.message_id.entryId


GOOD = push_entry(metadata(), b"hello")
BAD = push_entry(metadata(), b"hello")[:-1] + b"O"
GARBAGE = push_entry(b"\xff\xff\xff", b"x")
DUPLICATE = (2**64 - 1, 2**64 - 1)


# -- receipts --------------------------------------------------------------------------------------------------------


def test_entry_ids_increase_within_a_ledger(client):
    client.producer()
    places = [place(client.one(send(number), GOOD)) for number in range(3)]
    assert places == [(places[0][0], number) for number in range(3)]


@pytest.mark.parametrize("fields", [{}, {"num_messages": 3}, {"marker": False}])
def test_the_fast_and_the_generic_path_return_the_same_receipt(client, fields):
    """With ``marker``, the command is parsed by protobuf instead of the fast reader."""
    client.producer()
    for sequence, highest, told in ((10, 12, 12), (20, 19, 0), (30, 30, 30), (40, None, 0)):
        more = fields if highest is None else {"highest_sequence_id": highest, **fields}
        receipt = client.one(send(sequence, **more), GOOD)
        assert (receipt.producer_id, receipt.sequence_id, receipt.highest_sequence_id) == (1, sequence, told)
        assert not receipt.message_id.HasField("partition")
        assert not receipt.message_id.HasField("batch_index")


def test_sequence_ids_may_repeat_without_deduplication(client):
    client.producer()
    assert [place(client.one(send(number), GOOD))[1] for number in (5, 5, 3, 0)] == [0, 1, 2, 3]


@pytest.mark.parametrize("entry", [b"xy", b"\x0e\x01\0\0\0\0", GARBAGE, push_entry(metadata(), b"", checksum=False)])
def test_entries_are_not_parsed(client, entry):
    client.producer()
    assert place(client.one(send(), entry))[1] == 0


def test_the_bytes_are_stored_unchanged(client, world):
    client.producer()
    client(send(), entry=GOOD)
    assert world.broker.topics[T].ledger.entry(0).data == GOOD


# -- errors of an entry ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, {"is_chunk": True}])
@pytest.mark.parametrize("topic", [T, N])
def test_a_wrong_checksum_is_only_an_error(client, topic, fields):
    client.producer(topic)
    assert error(client.one(send(**fields), BAD)) == "ChecksumError"
    assert place(client.one(send(**fields), GOOD))[1] == 0


@pytest.mark.parametrize(("highest", "told"), [(None, 10), (12, 12), (9, 10)])
def test_an_error_contains_the_highest_id(client, highest, told):
    client.producer()
    fields = {} if highest is None else {"highest_sequence_id": highest}
    assert client.one(send(10, **fields), BAD).sequence_id == told


@pytest.mark.parametrize("topic", [T, N])
def test_an_id_is_only_for_shadow_topics(client, topic):
    client.producer(topic)
    assert error(client.one(send(message_id=pb.MessageIdData(ledgerId=5, entryId=5)), GOOD)) == "NotAllowedError"


def test_transactions_are_disabled(client):
    client.producer()
    both = {"txnid_least_bits": 1, "txnid_most_bits": 77}
    assert error(client.one(send(**both), GOOD)) == "NotAllowedError"
    assert place(client.one(send(txnid_least_bits=1), GOOD))[1] == 0


# -- faults that close the connection --------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [b"x", b"\x0e\x01", b"\x0e\x01\0\0\0"])
def test_a_truncated_checksum(client, entry):
    client.producer()
    assert client(send(), entry=entry) == []
    assert client.closed


@pytest.mark.parametrize("fields", [{}, {"is_chunk": True}])
def test_an_unknown_producer(client, fields):
    assert client(send(producer_id=9, **fields), entry=GOOD) == []
    assert client.closed


def test_a_producer_that_the_client_closed(client):
    client.producer()
    client(pb.CommandCloseProducer(producer_id=1))
    assert client(send(), entry=GOOD) == []
    assert client.closed


def test_a_transaction_on_a_non_persistent_topic(client):
    client.producer(N)
    assert client(send(txnid_least_bits=1, txnid_most_bits=77), entry=GOOD) == []
    assert client.closed


# -- a producer that the broker closed -------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, {"is_chunk": True}])
def test_sends_in_flight_to_a_closed_producer_are_dropped(client, world, fields):
    client.producer()
    world.broker.unload(world.broker.topics[T])
    world.deliver()
    [closed] = client.hear()
    assert (closed.producer_id, closed.request_id) == (1, 2**64 - 1)
    assert client(send(**fields), entry=GOOD) == []
    assert not client.closed
    world.advance(30_000)
    client.hear()
    assert client(send(**fields), entry=GOOD) == []
    assert client.closed


# -- policies --------------------------------------------------------------------------------------------------------


def test_encryption_required(make_world):
    client = make_world(encryptionRequireOnProducer=True).client()
    client.producer(encrypted=True)
    keys = [pb.EncryptionKeys(key="k", value=b"x")]
    assert error(client.one(send(), GOOD)) == "MetadataError"
    assert error(client.one(send(), BAD)) == "ChecksumError"
    assert place(client.one(send(), push_entry(metadata(encryption_keys=keys), b"secret")))[1] == 0
    assert client(send(), entry=GARBAGE) == []
    assert client.closed


def test_enabling_encryption_closes_unencrypted_producers(client, world):
    client.producer(producer_id=1)
    client.producer(producer_id=2, encrypted=True)
    world.broker.policies.set_namespace("public/default", "encryptionRequired", True)
    world.deliver()
    [closed] = client.hear()
    assert (type(closed), closed.producer_id) == (pb.CommandCloseProducer, 1)
    assert error(client.one(send(producer_id=2), GOOD)) == "MetadataError"


def test_the_size_limit_of_a_topic_includes_all_bytes_after_the_command(client, world):
    client.producer()
    world.broker.policies.set_topic(TopicName.parse("t"), "maxMessageSize", 100)
    room = 100 - len(push_entry(metadata(), b""))
    assert place(client.one(send(), push_entry(metadata(), bytes(room))))[1] == 0
    large = push_entry(metadata(), bytes(room + 1))
    assert error(client.one(send(), large)) == "NotAllowedError"
    assert place(client.one(send(is_chunk=True), large))[1] == 1
    world.broker.policies.unset_topic(TopicName.parse("t"), "maxMessageSize")
    assert place(client.one(send(), large))[1] == 2


def test_the_brokers_limit_as_a_policy(client, world):
    client.producer()
    world.broker.policies.set_topic(TopicName.parse("t"), "maxMessageSize", 5_242_880)
    assert world.broker.topics[T].fast_path


def test_the_longest_delay(make_world):
    client = make_world(delayedDeliveryMaxDelayInMillis=5000).client()
    client.producer()
    assert place(client.one(send(), push_entry(metadata(deliver_at_time=START + 5000), b"")))[1] == 0
    late = push_entry(metadata(deliver_at_time=START + 5001), b"")
    assert error(client.one(send(), late)) == "NotAllowedError"
    assert place(client.one(send(), GOOD))[1] == 1
    assert client(send(), entry=GARBAGE) == []
    assert client.closed


def test_without_delayed_delivery_a_delay_is_ignored(make_world):
    client = make_world(delayedDeliveryMaxDelayInMillis=5000, delayedDeliveryEnabled=False).client()
    client.producer()
    assert place(client.one(send(), push_entry(metadata(deliver_at_time=START + 9000), b"")))[1] == 0


# -- publish rates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["maxPublishRatePerTopicInMessages", "brokerPublisherThrottlingMaxMessageRate"])
def test_an_exceeded_rate_pauses_reading_but_stores_the_message(make_world, setting):
    world = make_world(**{setting: 10})
    client, other = world.client(), world.client()
    client.producer()
    other.producer()
    assert place(client.one(send(num_messages=9), GOOD))[1] == 0
    assert client.connection.reading
    assert place(client.one(send(num_messages=6), GOOD))[1] == 1
    assert not client.connection.reading
    assert other.connection.reading
    # Five tokens are missing and one more is needed, at ten tokens a second.
    world.advance(599)
    assert not client.connection.reading
    world.advance(1)
    assert client.connection.reading
    assert not client.closed


@given(
    rate=st.integers(1, 200),
    messages=st.integers(1, 400),
    level=st.sampled_from(["maxPublishRatePerTopicInMessages", "brokerPublisherThrottlingMaxMessageRate"]),
    cuts=st.lists(st.integers(1, 30_000), max_size=5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_pipelined_messages_keep_the_rate(make_world, rate, messages, level, cuts):
    """All SENDs arrive at once, in pieces of any size; the receipts arrive at the rate."""
    world = make_world(**{level: rate})
    client = world.client()
    client.producer()
    stream = b"".join(push_frame(send(sequence_id=number), GOOD) for number in range(messages))
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    receipts = sum(len(client.raw(stream[low:high])) for low, high in pairwise(edges))
    assert receipts == min(messages, rate)
    for seconds in range(1, 3):
        world.advance(1000)
        receipts += len(client.hear())
        # An empty bucket resumes when it contains a hundredth of the rate; the message that empties it passes.
        assert abs(receipts - min(messages, rate * (1 + seconds))) <= 1 + rate // 100


def test_a_paused_connection_answers_nothing(make_world):
    world = make_world(maxPublishRatePerTopicInMessages=2)
    client = world.client()
    client.producer()
    assert len(client.raw(3 * push_frame(send(), GOOD) + push_frame(pb.CommandPing()))) == 2
    assert client.raw(push_frame(pb.CommandPing())) == []
    world.advance(500)
    assert len(client.hear()) == 1
    world.advance(500)
    assert [type(one) for one in client.hear()] == [pb.CommandPong] * 2


def test_bytes_are_limited_too(make_world):
    world = make_world(maxPublishRatePerTopicInBytes=100)
    client = world.client()
    client.producer()
    client(send(), entry=push_entry(metadata(), bytes(100)))
    assert not client.connection.reading


def test_removing_a_rate_resumes_reading(client, world):
    rate = {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": -1}
    world.broker.policies.set_topic(TopicName.parse("t"), "publishRate", rate)
    client.producer()
    client(send(), entry=GOOD)
    assert not client.connection.reading
    world.broker.policies.unset_topic(TopicName.parse("t"), "publishRate")
    assert client.connection.reading


# -- deduplication ---------------------------------------------------------------------------------------------------


@pytest.fixture
def careful(make_world):
    """A client of a broker with deduplication, with a producer p."""
    client = make_world(brokerDeduplicationEnabled=True).client()
    client.producer(producer_name="p")
    return client


def outcomes(client, *ids, **fields):
    """Return for each SEND the number of its entry, or 'dup'."""
    found = []
    for sequence, highest in ids:
        more = fields if highest is None else {"highest_sequence_id": highest, **fields}
        where = place(client.one(send(sequence, **more), GOOD))
        found.append("dup" if where == DUPLICATE else where[1])
    return found


def test_same_and_lower_ids_are_duplicates(careful):
    assert outcomes(careful, (0, None), (5, None), (5, None), (3, None), (6, None)) == [0, 1, "dup", "dup", 2]
    assert careful.one(send(6), GOOD).sequence_id == 6


def test_a_batch_is_checked_by_its_lowest_id(careful):
    assert outcomes(careful, (0, 2), (2, 4), (3, 5), (6, None), (7, 8)) == [0, "dup", 1, 2, 3]


def test_each_producer_name_has_its_own_ids(careful):
    careful.producer(producer_id=2, producer_name="q")
    assert place(careful.one(send(3), GOOD))[1] == 0
    assert place(careful.one(send(1, producer_id=2), GOOD))[1] == 1
    assert place(careful.one(send(1, producer_id=2), GOOD)) == DUPLICATE


def test_producer_success_contains_the_last_id(careful):
    outcomes(careful, (7, 9))
    careful(pb.CommandCloseProducer(producer_id=1))
    assert careful.producer(producer_name="p").last_sequence_id == 9
    assert careful.producer(producer_id=2, producer_name="new").last_sequence_id == -1


def test_minus_one_is_the_lowest_id(careful):
    assert outcomes(careful, (2**64 - 1, None), (2**64 - 1, None), (0, None), (5, 2**64 - 1)) == [0, "dup", 1, 2]


def test_only_the_last_chunk_is_checked(careful):
    def chunk(number):
        entry = push_entry(metadata(uuid="u", chunk_id=number, num_chunks_from_msg=2), b"part")
        return place(careful.one(send(0, is_chunk=True), entry))

    assert [chunk(number) == DUPLICATE for number in (0, 1, 0, 1)] == [False, False, False, True]


def test_a_chunk_without_metadata_closes_the_connection(careful):
    assert place(careful.one(send(0), GARBAGE))[1] == 0
    assert careful(send(1, is_chunk=True), entry=GARBAGE) == []
    assert careful.closed


def test_a_marker_is_neither_checked_nor_recorded(careful):
    assert outcomes(careful, (5, None)) == [0]
    assert outcomes(careful, (5, None), (9, None), marker=True) == [1, 2]
    typed = push_entry(metadata(marker_type=10), b"")
    assert place(careful.one(send(5), typed)) == DUPLICATE
    assert outcomes(careful, (8, None)) == [3]


def test_deduplication_starts_empty_and_survives_an_unload(client, world):
    client.producer(producer_name="p")
    assert outcomes(client, (9, None)) == [0]
    world.broker.policies.set_topic(TopicName.parse("t"), "deduplicationEnabled", True)
    assert outcomes(client, (9, None), (9, None), (8, None)) == [1, "dup", "dup"]
    world.broker.unload(world.broker.topics[T])
    world.deliver()
    client.hear()
    assert client.producer(producer_name="p").last_sequence_id == 9
    assert outcomes(client, (9, None), (10, None)) == ["dup", 0]
    world.broker.policies.set_topic(TopicName.parse("t"), "deduplicationEnabled", False)
    assert outcomes(client, (9, None)) == [1]


def test_non_persistent_topics_have_no_deduplication(make_world):
    client = make_world(brokerDeduplicationEnabled=True).client()
    client.producer(N, producer_name="p")
    assert outcomes(client, (5, None), (5, None)) == [0, 0]


# -- broker entry metadata -------------------------------------------------------------------------------------------


def test_interceptors_write_before_the_entry(make_world):
    package = "org.apache.pulsar.common.intercept."
    both = ["AppendIndexMetadataInterceptor", "AppendBrokerTimestampMetadataInterceptor"]
    world = make_world(brokerEntryMetadataInterceptors=[package + name for name in both])
    client = world.client()
    client.producer()
    for count, index in ((1, 0), (3, 3), (1, 4)):
        world.now += 10
        client(send(num_messages=count), entry=GOOD)
        entry = world.broker.topics[T].ledger.entry(world.broker.topics[T].ledger.next - 1)
        entry.parse()
        assert entry.data[entry.block :] == GOOD
        written = pb.BrokerEntryMetadata.FromString(entry.data[6 : entry.block])
        assert (written.index, written.broker_timestamp) == (index, world.now)


def test_an_entry_without_messages_has_the_previous_index(make_world):
    world = make_world(brokerEntryMetadataInterceptors=["AppendIndexMetadataInterceptor"])
    client = world.client()
    client.producer()
    found = []
    for count in (0, 1, 0):
        client(send(num_messages=count), entry=GOOD)
        entry = world.broker.topics[T].ledger.entry(len(found))
        entry.parse()
        found.append(pb.BrokerEntryMetadata.FromString(entry.data[6 : entry.block]).index)
    # Java's -1 in an unsigned field.
    assert found == [2**64 - 1, 0, 0]


def test_one_interceptor_alone(make_world):
    world = make_world(brokerEntryMetadataInterceptors=["x.AppendBrokerTimestampMetadataInterceptor"])
    client = world.client()
    client.producer()
    client(send(), entry=GOOD)
    entry = world.broker.topics[T].ledger.entry(0)
    entry.parse()
    written = pb.BrokerEntryMetadata.FromString(entry.data[6 : entry.block])
    assert written.HasField("broker_timestamp")
    assert not written.HasField("index")


# -- non-persistent topics -------------------------------------------------------------------------------------------


def test_non_persistent_entries_have_the_id_zero(client):
    client.producer(N)
    client.subscribe(N)
    client.flow(10)
    receipt, message = client(send(), entry=GOOD)
    assert place(receipt) == (0, 0)
    assert (message.message_id.ledgerId, message.message_id.entryId) == (0, 0)


# -- limits ----------------------------------------------------------------------------------------------------------


def test_full_storage_makes_all_producers_reconnect(world):
    world.broker.pool.max_backlog = 1000
    client, other = world.client(), world.client()
    client.producer()
    other.producer()
    entry = push_entry(metadata(), bytes(400))
    assert [place(client.one(send(number), entry))[1] for number in range(2)] == [0, 1]
    heard = client(send(2), entry=entry)
    assert [type(body) for body in heard] == [pb.CommandCloseProducer, pb.CommandSendError]
    assert error(heard[1]) == "PersistenceError"
    assert [type(body) for body in other.hear()] == [pb.CommandCloseProducer]
