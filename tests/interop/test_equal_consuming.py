"""The Java client and pcli's client consume with the same script; both must send the same commands to the broker.

Ids, names and times are not compared. A script consists of steps: ``receive N``, ``ack FIRST END`` (indices of received
messages), ``cumulative I``, ``nack I``, ``put_off I MS``, ``redeliver``, ``seek earliest|latest|I``, ``pause``,
``resume``, ``unsubscribe``, ``quiet MS`` (no message arrives), ``more`` (whether a reader has more messages), ``sleep
MS``. Any other name is an action of the test. Consecutive ACKs are compared as one, because in both clients a timer
determines how acknowledgements are grouped.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from pcli.minibroker import MiniBroker
from pcli.replay.client.asyncio_client import Client, run
from pcli.replay.client.message_ids import EARLIEST, LATEST
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import (
    ConsumerSettings,
    DeadLetterPolicy,
    KeySharedPolicy,
    ProducerSettings,
    ReaderSettings,
)
from pcli.replay.service_url import ServiceUrl

# -- pcli's client -----------------------------------------------------------------------------------------------------


def run_pcli_client(command, actions):
    """Run the script with pcli's client."""
    return run(play(command, actions))


class Script:
    """One run of a script."""

    def __init__(self, client, consumer, actions):
        self.client, self.consumer, self.actions = client, consumer, actions
        self.receive = getattr(consumer, "read_next", None) or consumer.receive
        self.arrived = asyncio.Event()
        getattr(consumer, "consumer", consumer).on_message = self.arrived.set
        self.received, self.events = [], []

    async def next(self, milliseconds):
        """Return the next message, or None if none arrives in time."""
        try:
            async with asyncio.timeout(milliseconds / 1000):
                while True:
                    self.arrived.clear()
                    with self.client.turn():
                        message = self.receive()
                    if message is not None:
                        return message
                    await self.arrived.wait()
        except TimeoutError:
            return None

    async def step(self, name, *arguments):
        match name:
            case "receive":
                for _ in range(arguments[0]):
                    message = await self.next(20_000)
                    self.received.append(message)
                    self.events.append([message.data.decode(), message.redelivery_count] if message else [])
            case "quiet":
                self.events.append(await self.next(arguments[0]) is None)
            case "sleep":
                await asyncio.sleep(arguments[0] / 1000)
            case "seek":
                target = {"earliest": EARLIEST, "latest": LATEST}.get(arguments[0])
                target = target or self.received[int(arguments[0])].id
                await self.client.call(lambda done: self.consumer.seek(target, done))
            case "more":
                self.events.append(await self.client.call(self.consumer.has_message_available))
            case "unsubscribe":
                await self.client.call(self.consumer.unsubscribe)
            case "put_off":
                message = self.received[arguments[0]]
                await self.client.call(lambda done: self.consumer.reconsume_later(message, arguments[1], done=done))
            case name if name in self.actions:
                await asyncio.to_thread(self.actions[name])
            case _:
                with self.client.turn():
                    self.act(name, *arguments)

    def act(self, name, *arguments):
        consumer = self.consumer
        match name:
            case "ack":
                for message in self.received[arguments[0] : arguments[1]]:
                    consumer.acknowledge(message.id)
            case "cumulative":
                consumer.acknowledge_cumulative(self.received[arguments[0]].id)
            case "nack":
                message = self.received[arguments[0]]
                consumer.negative_acknowledge(message.id, message.redelivery_count)
            case "redeliver":
                consumer.redeliver_unacknowledged()
            case "pause" | "resume":
                getattr(consumer, name)()
            case _:
                raise AssertionError(name)


async def play(command, actions):
    settings = dict(command["settings"])
    async with Client(ServiceUrl.parse(command["url"])) as client:
        if command["reader"]:
            consumer = await client.read(reader_settings(settings))
        else:
            consumer = await client.subscribe(consumer_settings(settings))
        script = Script(client, consumer, actions)
        for step in command["steps"]:
            await script.step(*step)
        await client.call(consumer.close)
    return script.events


def consumer_settings(settings):
    ranges, dead = settings.pop("ranges", None), settings.pop("maxRedeliverCount", None)
    if ranges:
        settings["keySharedPolicy"] = KeySharedPolicy(tuple(map(tuple, ranges)))
    if dead:
        settings["deadLetterPolicy"] = DeadLetterPolicy(maxRedeliverCount=dead)
    if "topicNames" in settings:
        settings["topicNames"] = tuple(settings["topicNames"])
    return ConsumerSettings(**settings)


def reader_settings(settings):
    ranges = tuple(map(tuple, settings.pop("ranges", ())))
    start = LATEST if settings.pop("start", "") == "latest" else EARLIEST
    return ReaderSettings(**settings, keyHashRanges=ranges, startMessageId=start)


def publish(broker, count, batch=1, first=0, topic="orders"):
    """Publish messages with a separate client, whose commands are not compared."""

    async def send():
        async with Client(ServiceUrl.parse(broker.service_url)) as client:
            settings = ProducerSettings(batchingMaxMessages=batch, batchingMaxPublishDelayMicros=2_000_000)
            producer = await client.produce(topic, settings)
            loop = asyncio.get_running_loop()
            ends = [loop.create_future() for _ in range(count)]
            with client.turn():
                for n, end in enumerate(ends, first):
                    producer.send(OutgoingMessage(b"m-%d" % n, key=f"key-{n % 7}"), end.set_result)
                producer.trigger_flush()
            await asyncio.gather(*ends)
            await client.call(producer.close)

    run(send())


# -- comparison of the commands ----------------------------------------------------------------------------------------


def commands_by_topic(frames):
    """Return the client's commands by topic."""
    consuming = {frame.connection for frame, _ in frames if frame.type == "SUBSCRIBE"}
    # A new connection of the same client begins with a lookup. A connection that only publishes has a PRODUCER.
    publishing = {frame.connection for frame, _ in frames if frame.type == "PRODUCER"} - consuming
    topics, commands = {}, {}
    for frame, body in frames:
        if frame.connection in publishing:
            continue
        number = getattr(frame.command, "consumer_id", None)
        if frame.type == "SUBSCRIBE":
            topics[number] = body.topic
            if body.subscription.startswith("reader-"):
                body.subscription = "reader"
        add_command(commands.setdefault(topics.get(number, ""), []), frame.type, body)
    return {topic: [as_text(*one) for one in bodies] for topic, bodies in commands.items()}


def add_command(commands, kind, body):
    """Add a command.

    Consecutive ACKs (or redelivery requests) are merged; the last ack set and the last cumulative ACK apply.
    """
    if commands and commands[-1][0] == kind:
        last = commands[-1][1]
        if kind == "ACK" and last.ack_type == body.ack_type == body.Individual:
            merge(last.message_id, body.message_id)
            return
        if kind == "ACK" and last.ack_type == body.ack_type == body.Cumulative:
            last.CopyFrom(body)
            return
        if kind == "REDELIVER_UNACKNOWLEDGED_MESSAGES" and last.message_ids and body.message_ids:
            merge(last.message_ids, body.message_ids)
            return
    commands.append((kind, body))


def merge(ids, new_ids):
    by_place = {(one.ledgerId, one.entryId): one for one in [*ids, *new_ids]}
    kept = [type(one).FromString(one.SerializeToString()) for _, one in sorted(by_place.items())]
    del ids[:]
    ids.extend(kept)


def as_text(kind, body):
    for name in ("message_id", "message_ids"):
        field = body.DESCRIPTOR.fields_by_name.get(name)
        if kind in ("ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES") and field is not None:
            merge(getattr(body, name), ())
    return kind, str(body)


@pytest.fixture
def equal(programs, client_frames):
    """Run a script with both clients and new brokers; return the events and commands, which must be equal."""

    java = programs.java("Consuming")

    def compare(*steps, broker=None, before=None, actions=None, reader=False, ordered=True, **settings):
        def run_with(client):
            with MiniBroker(**(broker or {})) as mini_broker:
                if before is not None:
                    before(mini_broker)
                command = {"url": mini_broker.service_url, "reader": reader, "settings": dict(settings), "steps": steps}
                bound_actions = {name: (lambda act=act: act(mini_broker)) for name, act in (actions or {}).items()}
                events, commands = client(command, bound_actions), commands_by_topic(client_frames(mini_broker))
                assert mini_broker.failures == []
            if not ordered:  # with several topics, responses have no fixed order
                events.sort()
                commands[""].sort()
            return events, commands

        with ThreadPoolExecutor(2) as pool:
            events, commands = zip(*pool.map(run_with, (java.run_command, run_pcli_client)), strict=True)
        assert events[1] == events[0]
        assert commands[1] == commands[0]
        return events[1], [(kind, body) for bodies in commands[1].values() for kind, body in bodies]

    return compare


@pytest.fixture
def consume(equal):
    """Compare both clients with one topic and the subscription ``work``."""

    def compare(*steps, **settings):
        defaults = {"topicNames": ["orders"], "subscriptionName": "work", "subscriptionInitialPosition": "Earliest"}
        return equal(*steps, **defaults | settings)

    return compare


def messages(count, batch=1):
    return lambda broker: publish(broker, count, batch)


def kinds(commands, *names):
    return [kind for kind, _ in commands if not names or kind in names]


SLEEP = ("sleep", 250)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1000, 10, 3, 1])
@pytest.mark.parametrize("batch", [1, 5])
def test_permits(consume, size, batch):
    _, commands = consume(("receive", 40), ("ack", 0, 40), SLEEP, before=messages(40, batch), receiverQueueSize=size)
    assert len(kinds(commands, "FLOW")) == {1000: 1, 10: 9, 3: 41, 1: 41}[size]


def test_no_queue(consume):
    steps = [("receive", 3), ("ack", 0, 3), SLEEP, ("receive", 2), SLEEP]
    _, commands = consume(*steps, before=messages(8), receiverQueueSize=0)
    assert len(kinds(commands, "FLOW")) == 5


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_types_of_subscriptions(consume, kind):
    steps = [("receive", 10), ("ack", 0, 4), SLEEP, ("ack", 5, 10), SLEEP, ("redeliver",), ("receive", 1), SLEEP]
    events, _ = consume(*steps, before=messages(10), subscriptionType=kind,
                     broker={"activeConsumerFailoverDelayTimeMillis": 0})  # fmt: skip
    assert events[-1] == ["m-4", 1 if kind in ("Shared", "Key_Shared") else 0]


@pytest.mark.parametrize("indexes", [True, False])
def test_batch_index_acks(consume, indexes):
    steps = [("receive", 10), ("ack", 0, 2), SLEEP, ("ack", 3, 5), SLEEP, ("ack", 2, 3), ("ack", 6, 8), SLEEP]
    consume(*steps, before=messages(10, 5), subscriptionType="Shared", batchIndexAckEnabled=indexes)


@pytest.mark.parametrize("indexes", [True, False])
def test_cumulative_acks(consume, indexes):
    steps = [("receive", 15), ("cumulative", 1), SLEEP, ("cumulative", 6), ("cumulative", 3), SLEEP]
    consume(*steps, ("cumulative", 14), SLEEP, before=messages(15, 5), batchIndexAckEnabled=indexes)


def test_acks_at_once(consume):
    steps = [("receive", 6), ("ack", 0, 2), ("ack", 3, 4), ("cumulative", 4), SLEEP]
    consume(*steps, before=messages(6, 3), acknowledgementsGroupTimeMicros=0)


def test_receipts(consume):
    consume(("receive", 6), ("ack", 0, 2), SLEEP, ("ack", 2, 6), SLEEP, before=messages(6, 3), ackReceiptEnabled=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_ack_time_out(consume, kind):
    steps = [("receive", 6), ("ack", 1, 3), ("receive", 4), ("ack", 6, 10), SLEEP]
    events, commands = consume(*steps, before=messages(6), subscriptionType=kind, ackTimeoutMillis=1000)
    assert len(kinds(commands, "REDELIVER_UNACKNOWLEDGED_MESSAGES")) == 1
    assert events[6] == ["m-0", 1 if kind == "Shared" else 0]


@pytest.mark.parametrize("batch", [1, 3])
def test_negative_acks(consume, batch):
    steps = [("receive", 6), ("nack", 1), ("nack", 4), ("ack", 0, 1), ("ack", 2, 4), ("ack", 5, 6), ("receive", 2)]
    events, _ = consume(*steps, SLEEP, ("ack", 6, 8), SLEEP, before=messages(6, batch), subscriptionType="Shared",
                     negativeAckRedeliveryDelayMicros=500_000)  # fmt: skip
    assert events[6:] == [["m-1", 1], ["m-4", 1]]


def test_dead_letters(consume):
    steps = [("receive", 1), ("nack", 0), ("receive", 1), ("nack", 1), ("quiet", 1500)]
    _, commands = consume(*steps, before=messages(1), subscriptionType="Shared", maxRedeliverCount=1,
                      negativeAckRedeliveryDelayMicros=200_000)  # fmt: skip
    assert kinds(commands, "PRODUCER", "SEND") == ["PRODUCER", "SEND"]


def test_reconsume_later(consume):
    steps = [("receive", 1), ("put_off", 0, 700), ("receive", 1), ("put_off", 1, 700), ("receive", 1), ("ack", 2, 3)]
    events, commands = consume(
        *steps, SLEEP, before=messages(1), subscriptionType="Shared", retryEnable=True, ordered=False
    )
    assert events == [["m-0", 0]] * 3
    assert len(kinds(commands, "SEND")) == 2


@pytest.mark.slow
@pytest.mark.parametrize("target", ["earliest", "latest", "4"])
@pytest.mark.parametrize("batch", [1, 3])
def test_seeking(consume, target, batch):
    remaining = {"earliest": 9, "latest": 0, "4": 4}[target]
    steps = [("receive", 9), SLEEP, ("seek", target), ("receive", remaining), ("quiet", 300)]
    events, _ = consume(*steps, before=messages(9, batch))
    assert events[9:-1] == [[f"m-{n}", 0] for n in range(9 - remaining, 9)]


# The next two tests group ACKs by number, not by a timer, and the next step waits until the broker has received them.
COUNTED = {"acknowledgementsGroupTimeMicros": 60_000_000}


def backlog_is(backlog):
    """Wait until this number of messages is in the backlog."""
    return lambda broker: broker.wait_until(lambda one: one.topic("orders").subscriptions["work"].backlog == backlog)


def resubscribed(broker):
    """Wait until the client has subscribed a second time. Its queue is then empty."""
    broker.wait_until(
        lambda one: sum(frame.type == "SUBSCRIBE" for frame in one.frames("pulsar.from == 'client'")) == 2
    )


def acked_except(*ack_set):
    """Wait until the second entry is acknowledged, except for this ack set."""

    def is_there(one):
        acks = [frame.command for frame in one.frames("pulsar.from == 'client'") if frame.type == "ACK"]
        return acks and (acks[-1].message_id[0].entryId, [*acks[-1].message_id[0].ack_set]) == (1, [*ack_set])

    return lambda broker: broker.wait_until(is_there)


def test_a_reconnect_during_traffic(consume):
    actions = {"cut": lambda broker: broker.disconnect(), "left": backlog_is(17), "back": resubscribed}
    steps = [("receive", 12), ("ack", 0, 7), ("left",), ("ack", 7, 9), ("cut",), ("back",), ("receive", 15)]
    events, commands = consume(*steps, ("ack", 12, 27), before=messages(24), actions=actions, receiverQueueSize=6,
                        maxAcknowledgmentGroupSize=7, **COUNTED)  # fmt: skip
    assert len(kinds(commands, "SUBSCRIBE")) == 2
    assert [text for text, _ in events[12:]] == [f"m-{n}" for n in range(9, 24)]


def test_an_unload(consume):
    actions = {"unload": lambda broker: broker.unload("orders"), "left": backlog_is(5), "back": resubscribed}
    steps = [("receive", 3), ("ack", 0, 3), ("left",), ("unload",), ("back",), ("receive", 5), ("ack", 3, 8)]
    consume(*steps, before=messages(8), actions=actions, receiverQueueSize=4, maxAcknowledgmentGroupSize=3, **COUNTED)


def test_a_pause(consume):
    steps = [("receive", 4), ("pause",), ("receive", 4), SLEEP, ("resume",), ("receive", 4), SLEEP]
    consume(*steps, before=messages(12), receiverQueueSize=4)


def test_unsubscribing(consume):
    consume(("receive", 1), ("unsubscribe",), before=messages(1))


def test_sticky_key_ranges(consume):
    _, commands = consume(("receive", 10), ("ack", 0, 10), SLEEP, before=messages(10), subscriptionType="Key_Shared",
                      ranges=[[0, 30_000], [30_001, 65_535]])  # fmt: skip
    assert any("STICKY" in body for kind, body in commands if kind == "SUBSCRIBE")


def test_partitions(consume):
    def before(broker):
        broker.create_topic("orders", partitions=3)
        publish(broker, 30)

    steps = [("receive", 30), ("ack", 0, 30), SLEEP]

    consume(*steps, before=before, receiverQueueSize=8, ordered=False)


def test_several_topics(equal):
    def before(broker):
        publish(broker, 5, topic="a")

    equal(("receive", 5), ("ack", 0, 5), SLEEP, before=before, topicNames=["a", "b"], subscriptionName="work",
          subscriptionInitialPosition="Earliest", ordered=False)  # fmt: skip


def test_a_pattern(equal):
    def before(broker):
        publish(broker, 5, topic="a-1")

    equal(("receive", 5), ("ack", 0, 5), SLEEP, before=before, topicsPattern="persistent://public/default/a-.*",
          subscriptionName="work", subscriptionInitialPosition="Earliest")  # fmt: skip


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_reader(equal, start, inclusive):
    actions = {
        "cut": lambda broker: broker.disconnect(),
        "back": resubscribed,
        "acked": acked_except(6),
        "all acked": acked_except(),
    }
    # Java notifies the application of the subscription just before it sends FLOW, so immediate steps would be a race.
    steps = [SLEEP, ("more",), SLEEP]
    if start == "earliest":
        steps += [("receive", 4), ("acked",), ("more",), ("cut",), ("back",), ("receive", 2), ("all acked",), ("more",)]
    equal(*steps, reader=True, actions=actions, before=messages(6, 3), topicName="orders", start=start,
          resetIncludeHead=inclusive)  # fmt: skip


def test_a_reader_of_a_key_range(equal):
    equal(("receive", 1), SLEEP, reader=True, before=messages(20), topicName="orders", ranges=[[0, 40_000]])
