"""A broker with random responses and an application with random actions: no errors, and correct permits."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.codec.payload.batch import join_batch
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ConsumerSettings, DeadLetterPolicy, ProducerSettings

MANY = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

# -- commands of a broker ----------------------------------------------------------------------------------------------

WORDS = st.sampled_from([0, 1, 5, -1, -(1 << 63), (1 << 63) - 1])
COUNTS = st.sampled_from([-(1 << 31), -1, 0, 1, 2, 3, 100, (1 << 31) - 1])
SIZES = st.sampled_from([0, 5, 30, 1000, (1 << 32) - 1])
PLACES = st.sampled_from([0, 1, 2, 3, (1 << 63) - 1, (1 << 64) - 1])
SINGLES = st.lists(
    st.tuples(
        st.fixed_dictionaries({}, optional={"partition_key": st.text(max_size=3), "compacted_out": st.booleans()}),
        st.binary(max_size=5),
    ),
    max_size=4,
)
METADATA = st.fixed_dictionaries(
    {"producer_name": st.just("p"), "sequence_id": st.just(0), "publish_time": st.sampled_from([0, 1 << 60])},
    optional={
        "num_messages_in_batch": COUNTS,
        "num_chunks_from_msg": COUNTS,
        "chunk_id": COUNTS,
        "uuid": st.sampled_from(["", "u"]),
        "total_chunk_msg_size": COUNTS,
        "compression": st.sampled_from(pb.CompressionType.values()),
        "uncompressed_size": SIZES,
        "encryption_keys": st.just([pb.EncryptionKeys(key="k", value=b"v")]),
        "encryption_param": st.binary(max_size=3),
        "marker_type": COUNTS,
    },
)


@st.composite
def entries(draw):
    """Create an entry, which is often valid."""
    metadata = pb.MessageMetadata(**draw(METADATA)).SerializeToString()
    payload = draw(st.one_of(st.binary(max_size=40), SINGLES.map(batch_of)))
    if draw(st.integers(0, 3)) == 0:
        metadata, payload = draw(st.tuples(torn(metadata), torn(payload)))
    entry = push_entry(metadata, payload)
    return draw(torn(entry)) if draw(st.integers(0, 9)) == 0 else entry


def batch_of(singles):
    return join_batch([(pb.SingleMessageMetadata(sequence_id=0, **fields), data) for fields, data in singles])


@st.composite
def torn(draw, data):
    """Return the entry with one byte changed, or truncated."""
    if not data:
        return data
    place = draw(st.integers(0, len(data) - 1))
    return data[:place] + (bytes([draw(st.integers(0, 255))]) + data[place + 1 :] if draw(st.booleans()) else b"")


@st.composite
def messages(draw):
    body = pb.CommandMessage(
        consumer_id=draw(st.sampled_from([0, 0, 0, 7])),
        redelivery_count=draw(st.sampled_from([0, 1, 2, (1 << 32) - 1])),
        ack_set=draw(st.lists(WORDS, max_size=3)),
        consumer_epoch=draw(st.sampled_from([None, 0, 5, (1 << 64) - 1])),
    )
    body.message_id.ledgerId, body.message_id.entryId = draw(PLACES), draw(PLACES)
    return push_frame(body, draw(entries()))


OTHERS = st.sampled_from([
    pb.CommandActiveConsumerChange(consumer_id=0, is_active=True),
    pb.CommandReachedEndOfTopic(consumer_id=0),
    pb.CommandCloseConsumer(consumer_id=0, request_id=(1 << 64) - 1),
    pb.CommandCloseConsumer(consumer_id=0, request_id=0, assignedBrokerServiceUrl="pulsar://127.0.0.1:6650"),
    pb.CommandTopicMigrated(
        resource_id=0, resource_type=pb.CommandTopicMigrated.Consumer, brokerServiceUrl="pulsar://127.0.0.1:6650"
    ),
    pb.CommandAckResponse(consumer_id=0, request_id=4),
    *(pb.CommandSuccess(request_id=number) for number in range(3, 9)),
    *(pb.CommandError(request_id=number, error=pb.UnknownError, message="") for number in range(3, 9)),
]).map(push_frame)  # fmt: skip

DEEDS = st.sampled_from(["take", "ack", "nack", "redeliver", "seek", "seek in time", "more", "reach", "wait"])
CONSUMERS = st.fixed_dictionaries(
    {"subscriptionType": st.sampled_from(["Exclusive", "Shared"]), "receiverQueueSize": st.sampled_from([0, 1, 10])},
    optional={
        "deadLetterPolicy": st.just(DeadLetterPolicy(maxRedeliverCount=1)),
        "ackTimeoutMillis": st.just(1000),
        "cryptoFailureAction": st.sampled_from(["DISCARD", "CONSUME"]),
        "subscriptionMode": st.just("NonDurable"),
        "startMessageId": st.sampled_from([ClientMessageId(1, 1), ClientMessageId(1, 1, batch_index=1)]),
        "maxPendingChunkedMessage": st.just(1),
        "wholeEntryPermits": st.just(True),
        "ackReceiptEnabled": st.just(True),
        "acknowledgementsGroupTimeMicros": st.just(0),
    },
)


class Application:
    """An application that reads all attributes of what it receives."""

    def __init__(self, network, consumer):
        self.network, self.consumer, self.taken, self.results = network, consumer, [], []

    def do(self, deed):
        consumer, last = self.consumer, self.taken[-1] if self.taken else None
        match deed:
            case "take":
                while (message := consumer.receive()) is not None:
                    self.taken.append(message)
                    assert len(message.data) == message.size
                    assert message.content.key is None or isinstance(message.content.key, str)
                    assert (
                        ClientMessageId.parse(str(message.id)) == message.id
                        or message.id.ledger < 0
                        or message.id.entry < 0
                    )
            case "ack" if last:
                consumer.acknowledge(last.id, self.results.append)
            case "nack" if last:
                consumer.negative_acknowledge(last.id, last.redelivery_count)
            case "reach" if last:
                consumer.acknowledge_cumulative(last.id, self.results.append)
            case "redeliver":
                consumer.redeliver_unacknowledged()
            case "seek" if last:
                consumer.seek(last.id, self.results.append)
            case "seek in time":
                consumer.seek(0, self.results.append)
            case "more":
                consumer.has_message_available(self.results.append)
            case "wait":
                self.network.run(61_000)


@pytest.mark.slow
@MANY
@given(CONSUMERS, st.lists(st.one_of(messages(), messages(), OTHERS, DEEDS), max_size=25))
def test_any_frames_of_a_broker(make_network, given_settings, steps):
    network, made = make_network(), []
    engine = network.engine()
    engine.subscribe(ConsumerSettings(("orders",), subscriptionName="work", **given_settings), made.append)
    consumer = network.wait_for(made)
    application = Application(network, consumer)
    for step in steps:
        if isinstance(step, str):
            application.do(step)
        elif consumer.connection is not None:
            engine.received(consumer.connection, step, network.now)
        network.deliver_all()
        assert consumer.queue.available >= 0
    ended = []
    engine.close(lambda: ended.append(True))
    network.run(1000)
    assert ended


# -- actions of an application -----------------------------------------------------------------------------------------

TURNS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 12)),
        st.tuples(st.just("receive"), st.integers(1, 12)),
        st.tuples(st.sampled_from(["ack", "nack", "reach"]), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.sampled_from([10, 100, 1000, 3000])),
        st.tuples(st.sampled_from(["cut", "unload", "redeliver", "pause", "resume"]), st.just(0)),
    ),
    max_size=30,
)


class Traffic:
    """A topic with a producer and one consumer on a mini-broker."""

    def __init__(self, network, **chosen):
        self.network, self.sent, self.taken = network, 0, []
        producers, consumers = [], []
        batch = 3 if chosen["receiverQueueSize"] else 1
        network.engine().produce("orders", ProducerSettings(batchingMaxMessages=batch), producers.append)
        self.producer = network.wait_for(producers)
        start = {"subscriptionName": "work", "subscriptionInitialPosition": "Earliest"}
        network.engine().subscribe(ConsumerSettings(("orders",), **start, **chosen), consumers.append)
        self.consumer = network.wait_for(consumers)

    def do(self, deed, number):
        consumer = self.consumer
        message = self.taken[number] if number < len(self.taken) else None
        match deed:
            case "send":
                for _ in range(number):
                    self.sent += 1
                    self.producer.send(OutgoingMessage(b"%d" % self.sent), lambda _: None)
            case "receive":
                for _ in range(number):
                    self.receive()
            case "ack" if message:
                consumer.acknowledge(message.id)
            case "nack" if message:
                consumer.negative_acknowledge(message.id, message.redelivery_count)
            case "reach" if message:
                consumer.acknowledge_cumulative(message.id)
            case "wait":
                self.network.run(number)
            case "cut":
                self.network.cut()
            case "unload":
                self.network.broker.unload(self.network.broker.topics[self.producer.topic])
            case "redeliver":
                consumer.redeliver_unacknowledged()
            case "pause" | "resume":
                getattr(consumer, deed)()
        self.network.deliver_all()

    def receive(self):
        message = self.consumer.receive()
        if message is not None:
            self.taken.append(message)
        return message

    @property
    def subscription(self):
        return self.network.broker.topics[self.producer.topic].subscriptions["work"]

    def finish(self):
        """Receive and acknowledge messages until none arrives."""
        self.consumer.resume()
        for _ in range(50):
            self.network.run(5000)
            while (message := self.receive()) is not None:
                self.network.deliver_all()
            for message in self.taken:
                self.consumer.acknowledge(message.id)
            self.network.run(200)
            if not self.subscription.backlog:
                return


@MANY
@given(
    st.sampled_from(["Exclusive", "Shared", "Failover", "Key_Shared"]),
    st.sampled_from([1, 2, 10, 1000]),
    st.sampled_from([0, 1000]),
    st.booleans(),
    TURNS,
)
def test_nothing_is_lost_and_permits_add_up(make_network, kind, size, timeout, indexes, turns):
    network = make_network(acknowledgmentAtBatchIndexLevelEnabled=indexes, activeConsumerFailoverDelayTimeMillis=0)
    traffic = Traffic(
        network,
        subscriptionType=kind,
        receiverQueueSize=size,
        ackTimeoutMillis=timeout,
        negativeAckRedeliveryDelayMicros=500_000,
    )
    for turn in turns:
        traffic.do(*turn)
    traffic.finish()
    assert traffic.subscription.backlog == 0
    assert {int(message.data) for message in traffic.taken} == set(range(1, traffic.sent + 1))
    [there] = traffic.subscription.consumers
    queue = traffic.consumer.queue
    assert there.permits + queue.available + len(queue.messages) == size
