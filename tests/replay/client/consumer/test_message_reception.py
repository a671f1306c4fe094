"""Invalid entries: acknowledgements, permits, and the messages that are delivered nevertheless."""

import pytest

from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.compression import compress
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.settings import ConsumerSettings, DeadLetterPolicy

HEAD = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}


class Receiving:
    """A consumer whose connection receives the test's frames instead of the broker's."""

    def __init__(self, network, **settings):
        made = []
        given = {"topicNames": ("orders",), "subscriptionName": "work", "receiverQueueSize": 1}
        network.engine().subscribe(ConsumerSettings(**given | settings), made.append)
        self.network, self.consumer = network, network.wait_for(made)
        network.clear_frames()

    def message(self, entry=b"", entry_id=0, **fields):
        body = pb.CommandMessage(consumer_id=0, **fields)
        body.message_id.ledgerId, body.message_id.entryId = 9, entry_id
        self.raw(push_frame(body, entry))

    def raw(self, data):
        self.network.engines[0].received(self.consumer.connection, data, self.network.now)
        self.network.deliver_all()

    @property
    def flows(self):
        return [body.messagePermits for body in self.network.sent("FLOW")]

    @property
    def errors(self):
        return [pb.CommandAck.ValidationError.Name(body.validation_error) for body in self.network.sent("ACK")]

    @property
    def waiting(self):
        return [message.data for message in self.consumer.queue.messages]


@pytest.fixture
def receive(network):
    return lambda **settings: Receiving(network, **settings)


def entry(payload=b"hello", **metadata):
    return push_entry(pb.MessageMetadata(**HEAD | metadata), payload)


def batch(count, broken=False, **single):
    singles = [(pb.SingleMessageMetadata(sequence_id=n, **single), b"m-%d" % n) for n in range(count)]
    payload = join_batch(singles)
    return entry(payload[:-2] if broken else payload, num_messages_in_batch=count)


def test_a_valid_message_is_delivered(receive):
    receiving = receive()
    receiving.message(entry())
    assert (receiving.waiting, receiving.flows, receiving.errors) == ([b"hello"], [], [])


def test_a_wrong_checksum(receive):
    receiving = receive()
    good = entry()
    receiving.message(good[:-1] + b"x")
    assert (receiving.waiting, receiving.flows, receiving.errors) == ([], [1], ["ChecksumMismatch"])


def test_malformed_metadata(receive):
    receiving = receive()
    receiving.message(push_entry(b"\xff\xff", b"hello"))
    receiving.message(push_entry(b"", b"hello"))
    assert receiving.errors == ["ChecksumMismatch"] * 2


@pytest.mark.parametrize(("whole", "permits"), [(False, [1]), (True, [5])])
def test_an_unreadable_batch_returns_one_permit_or_all(receive, whole, permits):
    receiving = receive(wholeEntryPermits=whole)
    receiving.message(entry(b"junk", compression=pb.ZLIB, uncompressed_size=10, num_messages_in_batch=5))
    assert (receiving.waiting, receiving.flows, receiving.errors) == ([], permits, ["DecompressionError"])


@pytest.mark.parametrize(("whole", "permits"), [(False, [1]), (True, [3])])
def test_the_ack_set_determines_the_permits_of_an_unreadable_entry(receive, whole, permits):
    receiving = receive(wholeEntryPermits=whole)
    receiving.message(entry()[:-1] + b"x", ack_set=[0b10110])
    assert receiving.flows == permits


@pytest.mark.parametrize(("whole", "permits"), [(False, [1]), (True, [1])])
def test_the_valid_messages_of_a_malformed_batch_are_delivered(receive, whole, permits):
    receiving = receive(wholeEntryPermits=whole)
    receiving.message(batch(3, broken=True))
    assert receiving.waiting == [b"m-0", b"m-1"]
    assert (receiving.flows, receiving.errors) == (permits, ["BatchDeSerializeError"])


def test_compressed(receive):
    receiving = receive()
    data = compress(pb.LZ4, b"x" * 1000)
    receiving.message(entry(data, compression=pb.LZ4, uncompressed_size=1000))
    assert receiving.waiting == [b"x" * 1000]


def test_a_decompressed_size_above_the_maximum_is_discarded(receive):
    receiving = receive()
    receiving.consumer.connection.max_message_size = 4
    receiving.message(entry())
    assert receiving.errors == ["UncompressedSizeCorruption"]


SEALED = {"encryption_keys": [pb.EncryptionKeys(key="k", value=b"?")], "encryption_param": b"0" * 12}


def test_without_a_key_the_message_is_left_to_the_ack_time_out(receive):
    receiving = receive(ackTimeoutMillis=1000)
    receiving.message(entry(**SEALED))
    assert (receiving.waiting, receiving.flows, receiving.errors) == ([], [], [])
    receiving.network.run(3000)
    assert len(receiving.network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")) == 1


def test_without_a_key_the_message_can_be_discarded(receive):
    receiving = receive(cryptoFailureAction="DISCARD")
    receiving.message(entry(num_messages_in_batch=5, **SEALED))
    assert (receiving.flows, receiving.errors) == ([5], ["DecryptionError"])


def test_without_a_key_the_message_can_be_delivered_encrypted(receive):
    receiving = receive(cryptoFailureAction="CONSUME")
    receiving.message(entry(num_messages_in_batch=5, **SEALED))
    [message] = receiving.consumer.queue.messages
    assert (message.data, message.arrival.encrypted, message.id) == (b"hello", True, ClientMessageId(9, 0))


def test_messages_excluded_by_the_ack_set_have_no_permits(receive):
    receiving = receive()
    receiving.message(batch(5), ack_set=[0b01101])
    assert (receiving.waiting, receiving.flows) == ([b"m-0", b"m-2", b"m-3"], [])
    first, *rest = [message.id for message in receiving.consumer.queue.messages]
    for one in rest:
        receiving.consumer.acknowledge(one)
    assert first.acks.bits == 1


def test_compacted_messages_return_their_permits(receive):
    receiving = receive()
    receiving.message(batch(3, compacted_out=True))
    assert (receiving.waiting, receiving.flows) == ([], [3])


@pytest.mark.parametrize(("inclusive", "first"), [(True, 2), (False, 3)])
def test_a_reader_starts_within_a_batch(receive, inclusive, first):
    receiving = receive(
        subscriptionMode="NonDurable", startMessageId=ClientMessageId(9, 0, -1, 2), resetIncludeHead=inclusive
    )
    receiving.message(batch(5))
    assert receiving.waiting == [b"m-%d" % n for n in range(first, 5)]
    assert receiving.flows == [first]


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_reader_starts_at_an_entry(receive, inclusive):
    receiving = receive(subscriptionMode="NonDurable", startMessageId=ClientMessageId(9, 0), resetIncludeHead=inclusive)
    receiving.message(entry(b"first"))
    receiving.message(entry(b"second"), entry_id=1)
    # Omitted messages return no permits, as in 4.2.4.
    assert receiving.waiting == [b"first", b"second"][not inclusive :]
    assert receiving.flows == []


def test_acknowledged_messages_are_not_delivered_again(receive):
    receiving = receive()
    receiving.message(entry())
    receiving.message(batch(3), entry_id=1)
    ids = [message.id for message in receiving.consumer.queue.messages]
    for one in (ids[0], ids[2]):
        receiving.consumer.acknowledge(one)
    receiving.consumer.queue.clear()
    receiving.message(entry())
    receiving.message(batch(3), entry_id=1)
    assert receiving.waiting == [b"m-0", b"m-2"]
    assert receiving.flows == [1, 1]


def test_chunks(receive):
    receiving = receive()
    for number, part in enumerate((b"one ", b"two ", b"three")):
        about = {"uuid": "u", "chunk_id": number, "num_chunks_from_msg": 3, "total_chunk_msg_size": 13}
        receiving.message(entry(part, **about), entry_id=number)
    [message] = receiving.consumer.queue.messages
    assert (message.data, message.id, message.id.first) == (
        b"one two three",
        ClientMessageId(9, 2),
        ClientMessageId(9, 0),
    )
    assert receiving.flows == [1, 1]
    receiving.consumer.acknowledge(message.id)
    receiving.network.run(100)
    [ack] = receiving.network.sent("ACK")
    assert [one.entryId for one in ack.message_id] == [0, 1, 2]


def test_a_negatively_acknowledged_chunked_message_is_redelivered(receive):
    receiving = receive(subscriptionType="Shared", negativeAckRedeliveryDelayMicros=100_000, ackTimeoutMillis=5000)
    for number in range(2):
        receiving.message(entry(b"x", uuid="u", chunk_id=number, num_chunks_from_msg=2), entry_id=number)
    message = receiving.consumer.receive()
    receiving.consumer.negative_acknowledge(message.id)
    receiving.network.run(100)
    # Rejected entries have no partition, so the others are not found (4.2.4). The ack timeout would find them.
    [requested] = receiving.network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert [one.entryId for one in requested.message_ids] == [1]


def test_all_chunks_time_out_together(receive):
    receiving = receive(subscriptionType="Shared", ackTimeoutMillis=1000)
    for number in range(2):
        receiving.message(entry(b"x", uuid="u", chunk_id=number, num_chunks_from_msg=2), entry_id=number)
    receiving.consumer.receive()
    receiving.network.run(3000)
    [requested] = receiving.network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert [one.entryId for one in requested.message_ids] == [0, 1]


def test_a_dead_letter_candidate_is_not_delivered(receive):
    receiving = receive(subscriptionType="Shared", deadLetterPolicy=DeadLetterPolicy(maxRedeliverCount=2))
    receiving.message(entry(b"again"), redelivery_count=2)
    receiving.message(batch(3), entry_id=1, redelivery_count=3)
    assert receiving.waiting == [b"again"]
    assert receiving.flows == [3]
    assert set(receiving.consumer.dead.possible) == {ClientMessageId(9, 0)}  # the batch is now a dead letter


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_wrong_message_counts(receive, count):
    receiving = receive()
    receiving.message(entry(b"junk", num_messages_in_batch=count))
    assert receiving.waiting == []


def test_a_message_without_an_entry(receive):
    receiving = receive()
    receiving.message()
    assert receiving.errors == ["ChecksumMismatch"]
