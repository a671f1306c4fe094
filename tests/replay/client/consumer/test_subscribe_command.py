"""Each SUBSCRIBE in the Java client's captures, written again from the settings that it contains."""

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.replay.client.consumer.consumer import Consumer
from pcli.replay.client.consumer.subscribe_command import subscribe_command
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.settings import ConsumerSettings, KeySharedPolicy

SUBSCRIBE = BY_NAME["SUBSCRIBE"].number

OTHERS = ("old-client-2.4.2.pcap", "mixed-clients.pcap")
"""Captures whose clients are not version 4.2.4 of the Java client."""


def subscribes(folder):
    """Return the SUBSCRIBEs of all captures, including those of the broker's own client, which reads system topics."""
    for path in sorted(folder.glob("*.pcap*")):
        if path.name in OTHERS:
            continue
        with path.open("rb") as file:
            for frame in read_capture([(path.name, file)]):
                if isinstance(frame, CapturedFrame) and frame.type == SUBSCRIBE and not frame.missing:
                    yield frame.command.subscribe


def settings_of(body):
    start = ClientMessageId.of(body.start_message_id) if body.HasField("start_message_id") else None
    policy = None
    if body.HasField("keySharedMeta"):
        meta = body.keySharedMeta
        policy = KeySharedPolicy(tuple((one.start, one.end) for one in meta.hashRanges), meta.allowOutOfOrderDelivery)
    state = body.replicate_subscription_state if body.HasField("replicate_subscription_state") else None
    return ConsumerSettings(
        topicNames=(body.topic,),
        subscriptionName=body.subscription,
        subscriptionType=pb.CommandSubscribe.SubType.Name(body.subType),
        subscriptionMode="Durable" if body.durable else "NonDurable",
        subscriptionInitialPosition=pb.CommandSubscribe.InitialPosition.Name(body.initialPosition),
        consumerName=body.consumer_name,
        priorityLevel=body.priority_level,
        properties={one.key: one.value for one in body.metadata},
        subscriptionProperties={one.key: one.value for one in body.subscription_properties},
        readCompacted=body.read_compacted,
        schema=body.schema if body.HasField("schema") else None,
        keySharedPolicy=policy,
        replicateSubscriptionState=state,
        startMessageId=start,
        startMessageRollbackDurationSec=body.start_message_rollback_duration_sec,
    )


def test_the_bytes_equal_captures_of_the_java_client(captures, fake_broker):
    engine = fake_broker().engine
    count = 0
    for body in subscribes(captures / "java"):
        consumer = Consumer(engine, body.topic, settings_of(body), lambda _: None, create=body.force_topic_creation)
        consumer.number, consumer.consumer_epoch = body.consumer_id, body.consumer_epoch
        ours = subscribe_command(consumer, 21)
        ours.request_id = body.request_id
        assert ours == body
        count += 1
    assert count > 100


def test_older_brokers_receive_the_resolved_schema(fake_broker):
    auto, found = pb.Schema(name="AutoConsume", type=pb.Schema.AutoConsume), pb.Schema(name="s", type=pb.Schema.Json)
    settings = ConsumerSettings(subscriptionName="work", schema=auto)
    consumer = Consumer(fake_broker().engine, "persistent://a/b/c", settings, lambda _: None, found_schema=found)
    assert subscribe_command(consumer, 21).schema == auto
    assert subscribe_command(consumer, 20).schema == found
