"""One consumer with a broker in memory: permits, acknowledgements, timeouts, reconnects, closing."""

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.message_ids import EARLIEST
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ConsumerSettings


def publish(network, count, batch=1, first=0, **message):
    stored = []
    producer = network.produce(batchingEnabled=batch > 1, batchingMaxMessages=batch)
    for n in range(first, first + count):
        producer.send(OutgoingMessage(b"m-%d" % n, **message), stored.append)
    producer.trigger_flush()
    network.deliver_all()
    assert len(stored) == count
    producer.close(lambda *_: None)
    network.deliver_all()


def take(consumer, count=1000):
    """Return the messages that can be received without waiting."""
    taken = []
    while len(taken) < count and (message := consumer.receive()) is not None:
        taken.append(message)
    return taken


def texts(messages):
    return [message.data.decode() for message in messages]


def flows(network):
    return [body.messagePermits for body in network.sent("FLOW")]


# -- receiving ---------------------------------------------------------------------------------------------------------


def test_the_order_of_the_first_commands(network):
    network.subscribe()
    sent = [one.name for one in network.sent_frames(from_client=True)]
    assert sent == ["CONNECT", "PARTITIONED_METADATA", "LOOKUP", "SUBSCRIBE", "FLOW"]
    assert flows(network) == [1000]


def test_permits_are_returned_by_half_queues(network):
    publish(network, 30)
    consumer = network.subscribe(receiverQueueSize=10)
    got = []
    while one := take(consumer, 1):
        got += one
        network.deliver_all()
    assert texts(got) == [f"m-{n}" for n in range(30)]
    assert flows(network) == [10, 5, 5, 5, 5, 5, 5]


def test_a_queue_of_one(network):
    publish(network, 3)
    consumer = network.subscribe(receiverQueueSize=1)
    for _ in range(3):
        take(consumer, 1)
        network.deliver_all()
    assert flows(network) == [1, 1, 1, 1]


def test_on_message_is_called(network):
    consumer, results = network.subscribe(), []
    consumer.on_message = lambda: results.extend(texts(take(consumer)))
    publish(network, 3, batch=3)
    assert results == ["m-0", "m-1", "m-2"]


def test_a_listener_returns_the_permits(network):
    consumer, sent_frames = network.subscribe(receiverQueueSize=4, ackTimeoutMillis=1000), []
    consumer.listen(lambda message: sent_frames.append(message.id))
    publish(network, 5)
    assert len(sent_frames) == 5
    assert flows(network) == [4, 2, 2]
    consumer.acknowledge_cumulative(sent_frames[3])
    assert len(consumer.unacked) == 1
    with pytest.raises(LocalError):
        consumer.receive()


def test_a_pause(network):
    consumer = network.subscribe(startPaused=True)
    publish(network, 5)
    assert flows(network) == []
    consumer.resume()
    network.deliver_all()
    assert flows(network) == [1000]
    assert len(take(consumer)) == 5


# -- acknowledging -----------------------------------------------------------------------------------------------------


def test_acks_are_grouped(network):
    publish(network, 3)
    consumer = network.subscribe()
    for message in take(consumer):
        consumer.acknowledge(message.id)
    assert network.sent("ACK") == []
    network.run(100)
    [ack] = network.sent("ACK")
    assert [one.entryId for one in ack.message_id] == [0, 1, 2]


def test_cumulative_acks_require_one_active_consumer(network):
    publish(network, 1)
    consumer, results = network.subscribe(subscriptionType="Shared"), []
    consumer.acknowledge_cumulative(take(consumer)[0].id, results.append)
    assert results[0].error == "InvalidConfiguration"


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_ack_time_out_of_single_messages(network, kind):
    publish(network, 3)
    consumer = network.subscribe(subscriptionType=kind, ackTimeoutMillis=2000)
    messages = take(consumer)
    consumer.acknowledge(messages[1].id)
    network.run(3000)
    [requested] = network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert [one.entryId for one in requested.message_ids] == [0, 2]
    assert [(one.data, one.redelivery_count) for one in take(consumer)] == [(b"m-0", 1), (b"m-2", 1)]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_ack_time_out_of_all_messages(network, kind):
    publish(network, 3)
    consumer = network.subscribe(subscriptionType=kind, ackTimeoutMillis=2000)
    network.run(1100)
    consumer.acknowledge(take(consumer, 1)[0].id)
    take(consumer, 1)
    network.run(4000)
    [requested] = network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert (list(requested.message_ids), requested.consumer_epoch) == ([], 1)
    assert texts(take(consumer)) == ["m-1", "m-2"]


def test_a_negatively_acknowledged_message_is_redelivered(network):
    publish(network, 3)
    consumer = network.subscribe(subscriptionType="Shared", negativeAckRedeliveryDelayMicros=1_000_000)
    messages = take(consumer)
    consumer.acknowledge(messages[0].id)
    consumer.negative_acknowledge(messages[1].id)
    network.run(999)
    assert network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES") == []
    network.run(1)
    [requested] = network.sent("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert [(one.entryId, one.partition) for one in requested.message_ids] == [(1, -1)]
    assert [(one.data, one.redelivery_count) for one in take(consumer)] == [(b"m-1", 1)]


def test_messages_before_the_epoch_are_dropped(network):
    publish(network, 4)
    consumer = network.subscribe()
    taken = take(consumer, 1)
    consumer.redeliver_unacknowledged()
    # Messages that arrive now were sent before the broker received the command.
    old = next(one for one in network.sent_frames("MESSAGE") if one.body.message_id.entryId == 3)
    network.engines[-1].received(consumer.connection, old.frame.data, network.now)
    network.deliver_all()
    assert texts(take(consumer)) == ["m-0", "m-1", "m-2", "m-3"]
    assert consumer.last_taken.arrival.epoch == 1
    assert taken[0].arrival.epoch == 0


# -- the connection ----------------------------------------------------------------------------------------------------


def test_a_reconnect_clears_the_queue_and_sends_all_permits(network):
    publish(network, 6)
    consumer = network.subscribe(receiverQueueSize=10)
    acked, lost = take(consumer, 2)
    consumer.acknowledge(acked.id)
    network.cut()
    network.clear_frames()
    network.run(200)
    sent = [one.name for one in network.sent_frames(from_client=True) if one.name != "CONNECT"]
    assert sent == ["LOOKUP", "SUBSCRIBE", "FLOW", "ACK"]
    assert flows(network) == [10]
    # The ACK was sent after the reconnect. Messages that were received before it are duplicates and are not delivered
    # again.
    assert texts(take(consumer)) == ["m-1", "m-2", "m-3", "m-4", "m-5"]
    consumer.acknowledge(lost.id)


def test_a_message_of_an_old_connection_returns_no_permit(network):
    publish(network, 3)
    consumer = network.subscribe(receiverQueueSize=1)
    message = take(consumer, 1)[0]
    network.deliver_all()
    consumer.connection, connection = None, consumer.connection
    network.clear_frames()
    assert take(consumer) != []
    network.deliver_all()
    assert flows(network) == []
    assert message.arrival.connection is connection
    consumer.connection = connection


def test_a_busy_subscription_is_refused(network):
    first, made = network.subscribe(), []
    settings = ConsumerSettings(topicNames=("orders",), subscriptionName="work")
    network.engine().subscribe(settings, made.append)
    assert network.wait_for(made).error == "ConsumerBusy"
    assert first.state is State.READY


@pytest.fixture
def subscribing(fake_broker):
    """A consumer whose SUBSCRIBE the broker has just received, and the caller's results."""
    network, made = fake_broker(), []
    settings = ConsumerSettings(topicNames=("orders",), subscriptionName="work")
    network.engine.subscribe(settings, made.append)
    network.take_output()
    [(_, requested)] = network.complete_handshake()
    [(_, requested)] = network.broker_sends(
        pb.CommandPartitionedTopicMetadataResponse(request_id=requested.request_id, partitions=0)
    )
    [(_, requested)] = _look_up(network, requested)
    return network, requested, made


def _look_up(network, requested):
    kind = pb.CommandLookupTopicResponse.Connect
    return network.broker_sends(
        pb.CommandLookupTopicResponse(
            request_id=requested.request_id, response=kind, brokerServiceUrl="pulsar://a:1", authoritative=True
        )
    )


def names(sent_frames):
    return [body.DESCRIPTOR.name.removeprefix("Command") for _, body in sent_frames]


def test_a_timed_out_subscription_is_closed(subscribing):
    network, _, made = subscribing
    assert names(network.run(29_999)) == []
    assert names(network.run(1))[-1:] == ["CloseConsumer"]
    assert made[0].error == "TimeOut"


def test_a_retriable_refusal_is_retried(subscribing):
    network, requested, made = subscribing
    network.broker_sends(pb.CommandError(request_id=requested.request_id, error=pb.ServiceNotReady, message="not yet"))
    [(_, requested)] = network.run(100)
    assert names(_look_up(network, requested)) == ["Subscribe"]
    assert made == []


def test_a_new_consumer_retries_until_the_lookup_time_out(subscribing):
    network, requested, made = subscribing
    begin = network.now
    while not made:
        network.broker_sends(
            pb.CommandError(request_id=requested.request_id, error=pb.ServiceNotReady, message="not yet")
        )
        while not made and requested.DESCRIPTOR.name != "CommandLookupTopic":
            requested = next((body for _, body in network.run(100)), requested)
        if not made:
            [(_, requested)] = _look_up(network, requested)
    assert made[0].error == "ServiceNotReady"
    assert 30_000 <= network.now - begin < 60_000


@pytest.mark.parametrize(("error", "state"), [("TopicNotFound", State.FAILED), ("ConsumerBusy", State.CONNECTING)])
def test_an_existing_subscription_retries_unless_the_topic_was_deleted(subscribing, error, state):
    network, requested, made = subscribing
    network.broker_sends(pb.CommandSuccess(request_id=requested.request_id))
    [consumer] = made
    results = []
    consumer.on_fault = results.append
    network.broker_sends(pb.CommandCloseConsumer(consumer_id=consumer.number, request_id=2**64 - 1))
    [(_, requested)] = network.run(100)
    [(_, requested)] = _look_up(network, requested)
    code = pb.ServerError.Value(error)
    network.broker_sends(pb.CommandError(request_id=requested.request_id, error=code, message="no"))
    assert consumer.state is state
    assert [one.error for one in results] == ([error] if state is State.FAILED else [])


def test_failed_lookups_end_at_the_time_out(network):
    made = []
    network.reachable = False
    settings = ConsumerSettings(topicNames=("orders",), subscriptionName="work")
    network.engine(lookupTimeoutMs=5000).subscribe(settings, made.append)
    assert isinstance(network.wait_for(made, 120_000), ClientFailure)


def test_a_close_by_the_broker_causes_a_reconnect(network):
    publish(network, 2)
    consumer = network.subscribe()
    network.run(10)
    network.clear_frames()
    network.engines[-1].received(
        consumer.connection,
        push_frame(pb.CommandCloseConsumer(consumer_id=consumer.number, request_id=2**64 - 1)),
        network.now,
    )
    assert consumer.state is State.CONNECTING
    network.run(100)
    assert [one.name for one in network.sent_frames("LOOKUP", "SUBSCRIBE", "FLOW")] == ["LOOKUP", "SUBSCRIBE", "FLOW"]
    assert consumer.state is State.READY


def test_an_assigned_broker_is_used_without_a_lookup(network):
    consumer = network.subscribe()
    network.clear_frames()
    close = pb.CommandCloseConsumer(
        consumer_id=consumer.number, request_id=2**64 - 1, assignedBrokerServiceUrl="pulsar://127.0.0.1:6650"
    )
    network.engines[-1].received(consumer.connection, push_frame(close), network.now)
    network.run(0)
    assert [one.name for one in network.sent_frames("LOOKUP", "SUBSCRIBE", "FLOW")] == ["SUBSCRIBE", "FLOW"]


def test_failover_reports_the_active_consumer(make_network):
    network = make_network(activeConsumerFailoverDelayTimeMillis=0)
    first, results = network.subscribe(subscriptionType="Failover", consumerName="a"), []
    second = network.subscribe(subscriptionType="Failover", consumerName="b")
    second.on_active = results.append
    assert (first.active, second.active) == (True, False)
    first.close(lambda _: None)
    network.run(2000)
    assert results == [True]
    assert second.active


def test_the_end_of_a_topic(network):
    publish(network, 1)
    consumer, results = network.subscribe(), []
    consumer.on_end = lambda: results.append(consumer.ended)
    network.engines[-1].received(
        consumer.connection, push_frame(pb.CommandReachedEndOfTopic(consumer_id=consumer.number)), network.now
    )
    assert results == [True]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_closing_sends_acks_and_close_consumer(network):
    publish(network, 1)
    consumer, results = network.subscribe(ackTimeoutMillis=1000), []
    message = take(consumer)[0]
    consumer.acknowledge(message.id)
    network.clear_frames()
    consumer.close(results.append)
    network.deliver_all()
    assert [one.name for one in network.sent_frames(from_client=True)] == ["ACK", "CLOSE_CONSUMER"]
    assert results == [None]
    consumer.acknowledge(message.id, results.append)
    assert results[1].error == "Closed"
    network.clear_frames()
    network.run(5000)
    assert network.sent_frames("ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES") == []


def test_closing_without_a_connection(network):
    consumer, results = network.subscribe(), []
    network.reachable = False
    network.cut()
    consumer.close(results.append)
    assert results == [None]
    network.reachable = True
    network.clear_frames()
    network.run(60_000)
    assert network.sent_frames("SUBSCRIBE") == []


@pytest.mark.parametrize("force", [True, False])
def test_unsubscribing(network, force):
    consumer, results = network.subscribe(), []
    consumer.unsubscribe(results.append, force=force)
    network.deliver_all()
    assert [one.force for one in network.sent("UNSUBSCRIBE")] == [force]
    assert results == [None]
    assert consumer.state is State.CLOSED


def test_unsubscribing_with_other_consumers_is_refused(network):
    consumer, results = network.subscribe(subscriptionType="Shared"), []
    network.subscribe(subscriptionType="Shared")
    consumer.unsubscribe(results.append)
    network.deliver_all()
    assert isinstance(results[0], ClientFailure)
    assert consumer.state is State.READY


def test_invalid_settings_are_refused(network):
    made = []
    network.engine().subscribe(ConsumerSettings(topicNames=("orders",)), made.append)
    assert made[0].error == "InvalidConfiguration"
    assert network.frames == []


def test_auto_consume_requests_the_schema_first(network):
    network.subscribe(schema=pb.Schema(name="AutoConsume", schema_data=b"", type=pb.Schema.AutoConsume))
    sent = [one.name for one in network.sent_frames(from_client=True)]
    assert sent == ["CONNECT", "GET_SCHEMA", "PARTITIONED_METADATA", "LOOKUP", "SUBSCRIBE", "FLOW"]


def test_a_non_durable_subscription_continues_at_its_position(network):
    publish(network, 6, batch=3)
    consumer = network.subscribe(subscriptionMode="NonDurable", startMessageId=EARLIEST)
    assert texts(take(consumer, 4)) == ["m-0", "m-1", "m-2", "m-3"]
    network.cut()
    network.run(200)
    start = network.sent("SUBSCRIBE")[-1].start_message_id
    assert (start.entryId, start.batch_index) == (1, 0)
    assert texts(take(consumer)) == ["m-4", "m-5"]
    network.cut()
    network.run(200)
    start = network.sent("SUBSCRIBE")[-1].start_message_id
    assert (start.entryId, start.batch_index) == (1, 2)
    assert take(consumer) == []
