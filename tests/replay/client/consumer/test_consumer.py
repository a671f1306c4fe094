"""One consumer against a broker in memory: permits, acks, time-outs, reconnects, the end."""

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer_settings import ConsumerSettings
from pcli.replay.client.message_ids import EARLIEST
from pcli.replay.client.producer.outgoing_message import OutgoingMessage


def publish(world, count, batch=1, first=0, **message):
    stored = []
    producer = world.produce(batchingEnabled=batch > 1, batchingMaxMessages=batch)
    for n in range(first, first + count):
        producer.send(OutgoingMessage(b"m-%d" % n, **message), stored.append)
    producer.trigger_flush()
    world.settle()
    assert len(stored) == count
    producer.close(lambda *_: None)
    world.settle()


def take(consumer, count=1000):
    """What can be received without waiting."""
    taken = []
    while len(taken) < count and (message := consumer.receive()) is not None:
        taken.append(message)
    return taken


def texts(messages):
    return [message.data.decode() for message in messages]


def flows(world):
    return [body.messagePermits for body in world.said("FLOW")]


# -- receiving ---------------------------------------------------------------------------------------------------------


def test_the_order_of_a_beginning(world):
    world.subscribe()
    said = [one.name for one in world.heard(from_client=True)]
    assert said == ["CONNECT", "PARTITIONED_METADATA", "LOOKUP", "SUBSCRIBE", "FLOW"]
    assert flows(world) == [1000]


def test_permits_return_by_halves(world):
    publish(world, 30)
    consumer = world.subscribe(receiverQueueSize=10)
    got = []
    while one := take(consumer, 1):
        got += one
        world.settle()
    assert texts(got) == [f"m-{n}" for n in range(30)]
    assert flows(world) == [10, 5, 5, 5, 5, 5, 5]


def test_a_queue_of_one(world):
    publish(world, 3)
    consumer = world.subscribe(receiverQueueSize=1)
    for _ in range(3):
        take(consumer, 1)
        world.settle()
    assert flows(world) == [1, 1, 1, 1]


def test_it_is_told_that_messages_came(world):
    consumer, told = world.subscribe(), []
    consumer.on_message = lambda: told.extend(texts(take(consumer)))
    publish(world, 3, batch=3)
    assert told == ["m-0", "m-1", "m-2"]


def test_a_listener_frees_the_permits(world):
    consumer, heard = world.subscribe(receiverQueueSize=4, ackTimeoutMillis=1000), []
    consumer.listen(lambda message: heard.append(message.id))
    publish(world, 5)
    assert len(heard) == 5
    assert flows(world) == [4, 2, 2]
    consumer.acknowledge_cumulative(heard[3])
    assert len(consumer.unacked) == 1
    with pytest.raises(LocalError):
        consumer.receive()


def test_a_pause(world):
    consumer = world.subscribe(startPaused=True)
    publish(world, 5)
    assert flows(world) == []
    consumer.resume()
    world.settle()
    assert flows(world) == [1000]
    assert len(take(consumer)) == 5


# -- acknowledging -----------------------------------------------------------------------------------------------------


def test_acks_are_grouped(world):
    publish(world, 3)
    consumer = world.subscribe()
    for message in take(consumer):
        consumer.acknowledge(message.id)
    assert world.said("ACK") == []
    world.run(100)
    [ack] = world.said("ACK")
    assert [one.entryId for one in ack.message_id] == [0, 1, 2]


def test_cumulative_acks_are_for_one_consumer_at_a_time(world):
    publish(world, 1)
    consumer, told = world.subscribe(subscriptionType="Shared"), []
    consumer.acknowledge_cumulative(take(consumer)[0].id, told.append)
    assert told[0].error == "InvalidConfiguration"


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_ack_time_out_of_some(world, kind):
    publish(world, 3)
    consumer = world.subscribe(subscriptionType=kind, ackTimeoutMillis=2000)
    messages = take(consumer)
    consumer.acknowledge(messages[1].id)
    world.run(3000)
    [asked] = world.said("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert [one.entryId for one in asked.message_ids] == [0, 2]
    assert [(one.data, one.redelivery_count) for one in take(consumer)] == [(b"m-0", 1), (b"m-2", 1)]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_ack_time_out_of_all(world, kind):
    publish(world, 3)
    consumer = world.subscribe(subscriptionType=kind, ackTimeoutMillis=2000)
    world.run(1100)
    consumer.acknowledge(take(consumer, 1)[0].id)
    take(consumer, 1)
    world.run(4000)
    [asked] = world.said("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert (list(asked.message_ids), asked.consumer_epoch) == ([], 1)
    assert texts(take(consumer)) == ["m-1", "m-2"]


def test_a_refused_message_comes_again(world):
    publish(world, 3)
    consumer = world.subscribe(subscriptionType="Shared", negativeAckRedeliveryDelayMicros=1_000_000)
    messages = take(consumer)
    consumer.acknowledge(messages[0].id)
    consumer.negative_acknowledge(messages[1].id)
    world.run(999)
    assert world.said("REDELIVER_UNACKNOWLEDGED_MESSAGES") == []
    world.run(1)
    [asked] = world.said("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert [(one.entryId, one.partition) for one in asked.message_ids] == [(1, -1)]
    assert [(one.data, one.redelivery_count) for one in take(consumer)] == [(b"m-1", 1)]


def test_messages_before_the_epoch_are_dropped(world):
    publish(world, 4)
    consumer = world.subscribe()
    taken = take(consumer, 1)
    consumer.redeliver_unacknowledged()
    # What comes now was on its way when the command was not there yet.
    old = next(one for one in world.heard("MESSAGE") if one.body.message_id.entryId == 3)
    world.engines[-1].received(consumer.connection, old.frame.data, world.now)
    world.settle()
    assert texts(take(consumer)) == ["m-0", "m-1", "m-2", "m-3"]
    assert consumer.last_taken.arrival.epoch == 1
    assert taken[0].arrival.epoch == 0


# -- the connection ----------------------------------------------------------------------------------------------------


def test_a_reconnect_empties_the_queue_and_asks_for_all_of_it(world):
    publish(world, 6)
    consumer = world.subscribe(receiverQueueSize=10)
    acked, lost = take(consumer, 2)
    consumer.acknowledge(acked.id)
    world.cut()
    world.forget()
    world.run(200)
    said = [one.name for one in world.heard(from_client=True) if one.name != "CONNECT"]
    assert said == ["LOOKUP", "SUBSCRIBE", "FLOW", "ACK"]
    assert flows(world) == [10]
    # The ack waited for the connection; what was received before it came is a duplicate and not seen again.
    assert texts(take(consumer)) == ["m-1", "m-2", "m-3", "m-4", "m-5"]
    consumer.acknowledge(lost.id)


def test_a_message_of_an_old_connection_frees_no_permit(world):
    publish(world, 3)
    consumer = world.subscribe(receiverQueueSize=1)
    message = take(consumer, 1)[0]
    world.settle()
    consumer.connection, connection = None, consumer.connection
    world.forget()
    assert take(consumer) != []
    world.settle()
    assert flows(world) == []
    assert message.arrival.connection is connection
    consumer.connection = connection


def test_a_subscription_that_somebody_has(world):
    first, made = world.subscribe(), []
    settings = ConsumerSettings(topicNames=("orders",), subscriptionName="work")
    world.engine().subscribe(settings, made.append)
    assert world.wait_for(made).error == "ConsumerBusy"
    assert first.state is State.READY


@pytest.fixture
def subscribing(wire):
    """A consumer whose SUBSCRIBE was just heard, and whoever waits for it."""
    world, made = wire(), []
    settings = ConsumerSettings(topicNames=("orders",), subscriptionName="work")
    world.engine.subscribe(settings, made.append)
    world.hear()
    [(_, asked)] = world.shake()
    [(_, asked)] = world.say(pb.CommandPartitionedTopicMetadataResponse(request_id=asked.request_id, partitions=0))
    [(_, asked)] = _look_up(world, asked)
    return world, asked, made


def _look_up(world, asked):
    kind = pb.CommandLookupTopicResponse.Connect
    return world.say(
        pb.CommandLookupTopicResponse(
            request_id=asked.request_id, response=kind, brokerServiceUrl="pulsar://a:1", authoritative=True
        )
    )


def names(heard):
    return [body.DESCRIPTOR.name.removeprefix("Command") for _, body in heard]


def test_one_that_is_not_answered_is_closed(subscribing):
    world, _, made = subscribing
    assert names(world.run(29_999)) == []
    assert names(world.run(1))[-1:] == ["CloseConsumer"]
    assert made[0].error == "TimeOut"


def test_a_refusal_that_may_pass_is_tried_again(subscribing):
    world, asked, made = subscribing
    world.say(pb.CommandError(request_id=asked.request_id, error=pb.ServiceNotReady, message="not yet"))
    [(_, asked)] = world.run(100)
    assert names(_look_up(world, asked)) == ["Subscribe"]
    assert made == []


def test_a_new_one_is_refused_for_lookup_timeout_ms_at_most(subscribing):
    world, asked, made = subscribing
    begin = world.now
    while not made:
        world.say(pb.CommandError(request_id=asked.request_id, error=pb.ServiceNotReady, message="not yet"))
        while not made and asked.DESCRIPTOR.name != "CommandLookupTopic":
            asked = next((body for _, body in world.run(100)), asked)
        if not made:
            [(_, asked)] = _look_up(world, asked)
    assert made[0].error == "ServiceNotReady"
    assert 30_000 <= world.now - begin < 60_000


@pytest.mark.parametrize(("error", "state"), [("TopicNotFound", State.FAILED), ("ConsumerBusy", State.CONNECTING)])
def test_what_stood_once_is_tried_again_unless_the_topic_is_gone(subscribing, error, state):
    world, asked, made = subscribing
    world.say(pb.CommandSuccess(request_id=asked.request_id))
    [consumer] = made
    told = []
    consumer.on_fault = told.append
    world.say(pb.CommandCloseConsumer(consumer_id=consumer.number, request_id=2**64 - 1))
    [(_, asked)] = world.run(100)
    [(_, asked)] = _look_up(world, asked)
    code = pb.ServerError.Value(error)
    world.say(pb.CommandError(request_id=asked.request_id, error=code, message="no"))
    assert consumer.state is state
    assert [one.error for one in told] == ([error] if state is State.FAILED else [])


def test_no_lookup_for_too_long(world):
    made = []
    world.reachable = False
    settings = ConsumerSettings(topicNames=("orders",), subscriptionName="work")
    world.engine(lookupTimeoutMs=5000).subscribe(settings, made.append)
    assert isinstance(world.wait_for(made, 120_000), ClientFailure)


def test_a_broker_that_closes_it_sees_it_again(world):
    publish(world, 2)
    consumer = world.subscribe()
    world.run(10)
    world.forget()
    world.engines[-1].received(
        consumer.connection,
        push_frame(pb.CommandCloseConsumer(consumer_id=consumer.number, request_id=2**64 - 1)),
        world.now,
    )
    assert consumer.state is State.CONNECTING
    world.run(100)
    assert [one.name for one in world.heard("LOOKUP", "SUBSCRIBE", "FLOW")] == ["LOOKUP", "SUBSCRIBE", "FLOW"]
    assert consumer.state is State.READY


def test_with_an_assigned_broker_no_lookup_is_made(world):
    consumer = world.subscribe()
    world.forget()
    close = pb.CommandCloseConsumer(
        consumer_id=consumer.number, request_id=2**64 - 1, assignedBrokerServiceUrl="pulsar://127.0.0.1:6650"
    )
    world.engines[-1].received(consumer.connection, push_frame(close), world.now)
    world.run(0)
    assert [one.name for one in world.heard("LOOKUP", "SUBSCRIBE", "FLOW")] == ["SUBSCRIBE", "FLOW"]


def test_failover_tells_who_is_active(make_world):
    world = make_world(activeConsumerFailoverDelayTimeMillis=0)
    first, told = world.subscribe(subscriptionType="Failover", consumerName="a"), []
    second = world.subscribe(subscriptionType="Failover", consumerName="b")
    second.on_active = told.append
    assert (first.active, second.active) == (True, False)
    first.close(lambda _: None)
    world.run(2000)
    assert told == [True]
    assert second.active


def test_the_end_of_a_topic(world):
    publish(world, 1)
    consumer, told = world.subscribe(), []
    consumer.on_end = lambda: told.append(consumer.ended)
    world.engines[-1].received(
        consumer.connection, push_frame(pb.CommandReachedEndOfTopic(consumer_id=consumer.number)), world.now
    )
    assert told == [True]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_closing_sends_acks_and_takes_leave(world):
    publish(world, 1)
    consumer, told = world.subscribe(ackTimeoutMillis=1000), []
    message = take(consumer)[0]
    consumer.acknowledge(message.id)
    world.forget()
    consumer.close(told.append)
    world.settle()
    assert [one.name for one in world.heard(from_client=True)] == ["ACK", "CLOSE_CONSUMER"]
    assert told == [None]
    consumer.acknowledge(message.id, told.append)
    assert told[1].error == "Closed"
    world.forget()
    world.run(5000)
    assert world.heard("ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES") == []


def test_closing_without_a_connection(world):
    consumer, told = world.subscribe(), []
    world.reachable = False
    world.cut()
    consumer.close(told.append)
    assert told == [None]
    world.reachable = True
    world.forget()
    world.run(60_000)
    assert world.heard("SUBSCRIBE") == []


@pytest.mark.parametrize("force", [True, False])
def test_unsubscribing(world, force):
    consumer, told = world.subscribe(), []
    consumer.unsubscribe(told.append, force=force)
    world.settle()
    assert [one.force for one in world.said("UNSUBSCRIBE")] == [force]
    assert told == [None]
    assert consumer.state is State.CLOSED


def test_unsubscribing_among_others_is_refused(world):
    consumer, told = world.subscribe(subscriptionType="Shared"), []
    world.subscribe(subscriptionType="Shared")
    consumer.unsubscribe(told.append)
    world.settle()
    assert isinstance(told[0], ClientFailure)
    assert consumer.state is State.READY


def test_settings_that_make_no_sense(world):
    made = []
    world.engine().subscribe(ConsumerSettings(topicNames=("orders",)), made.append)
    assert made[0].error == "InvalidConfiguration"
    assert world.frames == []


def test_auto_consume_asks_for_the_schema_first(world):
    world.subscribe(schema=pb.Schema(name="AutoConsume", schema_data=b"", type=pb.Schema.AutoConsume))
    said = [one.name for one in world.heard(from_client=True)]
    assert said == ["CONNECT", "GET_SCHEMA", "PARTITIONED_METADATA", "LOOKUP", "SUBSCRIBE", "FLOW"]


def test_a_non_durable_subscription_goes_on_where_it_was(world):
    publish(world, 6, batch=3)
    consumer = world.subscribe(subscriptionMode="NonDurable", startMessageId=EARLIEST)
    assert texts(take(consumer, 4)) == ["m-0", "m-1", "m-2", "m-3"]
    world.cut()
    world.run(200)
    start = world.said("SUBSCRIBE")[-1].start_message_id
    assert (start.entryId, start.batch_index) == (1, 0)
    assert texts(take(consumer)) == ["m-4", "m-5"]
    world.cut()
    world.run(200)
    start = world.said("SUBSCRIBE")[-1].start_message_id
    assert (start.entryId, start.batch_index) == (1, 2)
    assert take(consumer) == []
