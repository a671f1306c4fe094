"""The same script of an application, consumed by the Java client and by our engine at the same broker: both say the
same to it, but for ids, names and times.

A script has steps: ``receive N``, ``ack FIRST END`` (of what was received so far), ``cumulative I``, ``nack I``,
``put_off I MS``, ``redeliver``, ``seek earliest|latest|I``, ``pause``, ``resume``, ``unsubscribe``, ``quiet MS``
(nothing comes), ``more`` (of a reader), ``sleep MS``; any other word is something that the test does meanwhile. Acks
that follow each other are compared as one: between two of them a tick may fall, in either client.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from pcli.minibroker import MiniBroker
from pcli.replay.client.asyncio_client import Client, run
from pcli.replay.client.consumer_settings import ConsumerSettings, DeadLetterPolicy, KeySharedPolicy, ReaderSettings
from pcli.replay.client.message_ids import EARLIEST, LATEST
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer_settings import ProducerSettings
from pcli.replay.service_url import ServiceUrl

# -- our side ----------------------------------------------------------------------------------------------------------


def ours(order, deeds):
    """The script as our client plays it."""
    return run(play(order, deeds))


class Script:
    """One play of a script."""

    def __init__(self, client, consumer, deeds):
        self.client, self.consumer, self.deeds = client, consumer, deeds
        self.take = getattr(consumer, "read_next", None) or consumer.receive
        self.came = asyncio.Event()
        getattr(consumer, "consumer", consumer).on_message = self.came.set
        self.received, self.saw = [], []

    async def next(self, milliseconds):
        """The next message, or None."""
        try:
            async with asyncio.timeout(milliseconds / 1000):
                while True:
                    self.came.clear()
                    with self.client.turn():
                        message = self.take()
                    if message is not None:
                        return message
                    await self.came.wait()
        except TimeoutError:
            return None

    async def step(self, word, *more):
        match word:
            case "receive":
                for _ in range(more[0]):
                    message = await self.next(20_000)
                    self.received.append(message)
                    self.saw.append([message.data.decode(), message.redelivery_count] if message else [])
            case "quiet":
                self.saw.append(await self.next(more[0]) is None)
            case "sleep":
                await asyncio.sleep(more[0] / 1000)
            case "seek":
                target = {"earliest": EARLIEST, "latest": LATEST}.get(more[0])
                target = target or self.received[int(more[0])].id
                await self.client.call(lambda done: self.consumer.seek(target, done))
            case "more":
                self.saw.append(await self.client.call(self.consumer.has_message_available))
            case "unsubscribe":
                await self.client.call(self.consumer.unsubscribe)
            case "put_off":
                message = self.received[more[0]]
                await self.client.call(lambda done: self.consumer.reconsume_later(message, more[1], done=done))
            case word if word in self.deeds:
                await asyncio.to_thread(self.deeds[word])
            case _:
                with self.client.turn():
                    self.act(word, *more)

    def act(self, word, *more):
        consumer = self.consumer
        match word:
            case "ack":
                for message in self.received[more[0] : more[1]]:
                    consumer.acknowledge(message.id)
            case "cumulative":
                consumer.acknowledge_cumulative(self.received[more[0]].id)
            case "nack":
                message = self.received[more[0]]
                consumer.negative_acknowledge(message.id, message.redelivery_count)
            case "redeliver":
                consumer.redeliver_unacknowledged()
            case "pause" | "resume":
                getattr(consumer, word)()
            case _:
                raise AssertionError(word)


async def play(order, deeds):
    settings = dict(order["settings"])
    async with Client(ServiceUrl.parse(order["url"])) as client:
        if order["reader"]:
            consumer = await client.read(reader_settings(settings))
        else:
            consumer = await client.subscribe(consumer_settings(settings))
        script = Script(client, consumer, deeds)
        for step in order["steps"]:
            await script.step(*step)
        await client.call(consumer.close)
    return script.saw


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
    """Messages of a client of their own, whose conversation is not compared."""

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


# -- what was said -----------------------------------------------------------------------------------------------------


def conversation(told):
    """What the client said, by topic, of these frames and bodies."""
    consuming = {frame.connection for frame, _ in told if frame.type == "SUBSCRIBE"}
    # A new connection of the same client begins with a lookup; one that publishes has a producer and nothing else.
    publishing = {frame.connection for frame, _ in told if frame.type == "PRODUCER"} - consuming
    topics, said = {}, {}
    for frame, body in told:
        if frame.connection in publishing:
            continue
        number = getattr(frame.command, "consumer_id", None)
        if frame.type == "SUBSCRIBE":
            topics[number] = body.topic
            if body.subscription.startswith("reader-"):
                body.subscription = "reader"
        add(said.setdefault(topics.get(number, ""), []), frame.type, body)
    return {topic: [plain(*one) for one in bodies] for topic, bodies in said.items()}


def add(said, kind, body):
    """Acks (redeliveries) that follow each other are one; the last set of an entry, and the last cumulative, counts."""
    if said and said[-1][0] == kind:
        last = said[-1][1]
        if kind == "ACK" and last.ack_type == body.ack_type == body.Individual:
            merge(last.message_id, body.message_id)
            return
        if kind == "ACK" and last.ack_type == body.ack_type == body.Cumulative:
            last.CopyFrom(body)
            return
        if kind == "REDELIVER_UNACKNOWLEDGED_MESSAGES" and last.message_ids and body.message_ids:
            merge(last.message_ids, body.message_ids)
            return
    said.append((kind, body))


def merge(ids, more):
    by_place = {(one.ledgerId, one.entryId): one for one in [*ids, *more]}
    kept = [type(one).FromString(one.SerializeToString()) for _, one in sorted(by_place.items())]
    del ids[:]
    ids.extend(kept)


def plain(kind, body):
    for name in ("message_id", "message_ids"):
        field = body.DESCRIPTOR.fields_by_name.get(name)
        if kind in ("ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES") and field is not None:
            merge(getattr(body, name), ())
    return kind, str(body)


@pytest.fixture
def equal(programs, heard):
    """Let both play a script, each at a fresh broker; gives what our broker heard, when that was all the same."""

    java = programs.java("Consuming")

    def compare(*steps, broker=None, before=None, deeds=None, reader=False, ordered=True, **settings):
        def by(client):
            with MiniBroker(**(broker or {})) as served:
                if before is not None:
                    before(served)
                order = {"url": served.service_url, "reader": reader, "settings": dict(settings), "steps": steps}
                acts = {word: (lambda act=act: act(served)) for word, act in (deeds or {}).items()}
                saw, said = client(order, acts), conversation(heard(served))
                assert served.failures == []
            if not ordered:  # several topics answer in no order
                saw.sort()
                said[""].sort()
            return saw, said

        with ThreadPoolExecutor(2) as both:
            saw, said = zip(*both.map(by, (java.tell, ours)), strict=True)
        assert saw[1] == saw[0]
        assert said[1] == said[0]
        return saw[1], [(kind, body) for bodies in said[1].values() for kind, body in bodies]

    return compare


@pytest.fixture
def consume(equal):
    """The same for one topic and the subscription ``work``."""

    def compare(*steps, **settings):
        given = {"topicNames": ["orders"], "subscriptionName": "work", "subscriptionInitialPosition": "Earliest"}
        return equal(*steps, **given | settings)

    return compare


def messages(count, batch=1):
    return lambda broker: publish(broker, count, batch)


def kinds(said, *names):
    return [kind for kind, _ in said if not names or kind in names]


SETTLE = ("sleep", 250)


@pytest.mark.parametrize("size", [1000, 10, 3, 1])
@pytest.mark.parametrize("batch", [1, 5])
def test_permits(consume, size, batch):
    _, said = consume(("receive", 40), ("ack", 0, 40), SETTLE, before=messages(40, batch), receiverQueueSize=size)
    assert len(kinds(said, "FLOW")) == {1000: 1, 10: 9, 3: 41, 1: 41}[size]


def test_no_queue(consume):
    steps = [("receive", 3), ("ack", 0, 3), SETTLE, ("receive", 2), SETTLE]
    _, said = consume(*steps, before=messages(8), receiverQueueSize=0)
    assert len(kinds(said, "FLOW")) == 5


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_types_of_subscriptions(consume, kind):
    steps = [("receive", 10), ("ack", 0, 4), SETTLE, ("ack", 5, 10), SETTLE, ("redeliver",), ("receive", 1), SETTLE]
    saw, _ = consume(*steps, before=messages(10), subscriptionType=kind,
                     broker={"activeConsumerFailoverDelayTimeMillis": 0})  # fmt: skip
    assert saw[-1] == ["m-4", 1 if kind in ("Shared", "Key_Shared") else 0]


@pytest.mark.parametrize("indexes", [True, False])
def test_batch_index_acks(consume, indexes):
    steps = [("receive", 10), ("ack", 0, 2), SETTLE, ("ack", 3, 5), SETTLE, ("ack", 2, 3), ("ack", 6, 8), SETTLE]
    consume(*steps, before=messages(10, 5), subscriptionType="Shared", batchIndexAckEnabled=indexes)


@pytest.mark.parametrize("indexes", [True, False])
def test_cumulative_acks(consume, indexes):
    steps = [("receive", 15), ("cumulative", 1), SETTLE, ("cumulative", 6), ("cumulative", 3), SETTLE]
    consume(*steps, ("cumulative", 14), SETTLE, before=messages(15, 5), batchIndexAckEnabled=indexes)


def test_acks_at_once(consume):
    steps = [("receive", 6), ("ack", 0, 2), ("ack", 3, 4), ("cumulative", 4), SETTLE]
    consume(*steps, before=messages(6, 3), acknowledgementsGroupTimeMicros=0)


def test_receipts(consume):
    consume(("receive", 6), ("ack", 0, 2), SETTLE, ("ack", 2, 6), SETTLE, before=messages(6, 3), ackReceiptEnabled=True)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_ack_time_out(consume, kind):
    steps = [("receive", 6), ("ack", 1, 3), ("receive", 4), ("ack", 6, 10), SETTLE]
    saw, said = consume(*steps, before=messages(6), subscriptionType=kind, ackTimeoutMillis=1000)
    assert len(kinds(said, "REDELIVER_UNACKNOWLEDGED_MESSAGES")) == 1
    assert saw[6] == ["m-0", 1 if kind == "Shared" else 0]


@pytest.mark.parametrize("batch", [1, 3])
def test_negative_acks(consume, batch):
    steps = [("receive", 6), ("nack", 1), ("nack", 4), ("ack", 0, 1), ("ack", 2, 4), ("ack", 5, 6), ("receive", 2)]
    saw, _ = consume(*steps, SETTLE, ("ack", 6, 8), SETTLE, before=messages(6, batch), subscriptionType="Shared",
                     negativeAckRedeliveryDelayMicros=500_000)  # fmt: skip
    assert saw[6:] == [["m-1", 1], ["m-4", 1]]


def test_dead_letters(consume):
    steps = [("receive", 1), ("nack", 0), ("receive", 1), ("nack", 1), ("quiet", 1500)]
    _, said = consume(*steps, before=messages(1), subscriptionType="Shared", maxRedeliverCount=1,
                      negativeAckRedeliveryDelayMicros=200_000)  # fmt: skip
    assert kinds(said, "PRODUCER", "SEND") == ["PRODUCER", "SEND"]


def test_reconsume_later(consume):
    steps = [("receive", 1), ("put_off", 0, 700), ("receive", 1), ("put_off", 1, 700), ("receive", 1), ("ack", 2, 3)]
    saw, said = consume(*steps, SETTLE, before=messages(1), subscriptionType="Shared", retryEnable=True, ordered=False)
    assert saw == [["m-0", 0]] * 3
    assert len(kinds(said, "SEND")) == 2


@pytest.mark.parametrize("target", ["earliest", "latest", "4"])
@pytest.mark.parametrize("batch", [1, 3])
def test_seeking(consume, target, batch):
    left = {"earliest": 9, "latest": 0, "4": 4}[target]
    steps = [("receive", 9), SETTLE, ("seek", target), ("receive", left), ("quiet", 300)]
    saw, _ = consume(*steps, before=messages(9, batch))
    assert saw[9:-1] == [[f"m-{n}", 0] for n in range(9 - left, 9)]


# Acks go by their number in the next two, never at a tick, and the next step waits for what the broker has heard.
COUNTED = {"acknowledgementsGroupTimeMicros": 60_000_000}


def left(backlog):
    """Until so many messages are left."""
    return lambda broker: broker.wait_until(lambda one: one.topic("orders").subscriptions["work"].backlog == backlog)


def back(broker):
    """Until the client has subscribed again, its queue emptied before."""
    broker.wait_until(lambda one: sum(said.type == "SUBSCRIBE" for said in one.frames("pulsar.from == 'client'")) == 2)


def acked(*ack_set):
    """Until the second entry is acknowledged, but for this set."""

    def is_there(one):
        acks = [said.command for said in one.frames("pulsar.from == 'client'") if said.type == "ACK"]
        return acks and (acks[-1].message_id[0].entryId, [*acks[-1].message_id[0].ack_set]) == (1, [*ack_set])

    return lambda broker: broker.wait_until(is_there)


def test_a_reconnect_during_traffic(consume):
    deeds = {"cut": lambda broker: broker.disconnect(), "left": left(17), "back": back}
    steps = [("receive", 12), ("ack", 0, 7), ("left",), ("ack", 7, 9), ("cut",), ("back",), ("receive", 15)]
    saw, said = consume(*steps, ("ack", 12, 27), before=messages(24), deeds=deeds, receiverQueueSize=6,
                        maxAcknowledgmentGroupSize=7, **COUNTED)  # fmt: skip
    assert len(kinds(said, "SUBSCRIBE")) == 2
    assert [text for text, _ in saw[12:]] == [f"m-{n}" for n in range(9, 24)]


def test_an_unload(consume):
    deeds = {"unload": lambda broker: broker.unload("orders"), "left": left(5), "back": back}
    steps = [("receive", 3), ("ack", 0, 3), ("left",), ("unload",), ("back",), ("receive", 5), ("ack", 3, 8)]
    consume(*steps, before=messages(8), deeds=deeds, receiverQueueSize=4, maxAcknowledgmentGroupSize=3, **COUNTED)


def test_a_pause(consume):
    steps = [("receive", 4), ("pause",), ("receive", 4), SETTLE, ("resume",), ("receive", 4), SETTLE]
    consume(*steps, before=messages(12), receiverQueueSize=4)


def test_unsubscribing(consume):
    consume(("receive", 1), ("unsubscribe",), before=messages(1))


def test_sticky_key_ranges(consume):
    _, said = consume(("receive", 10), ("ack", 0, 10), SETTLE, before=messages(10), subscriptionType="Key_Shared",
                      ranges=[[0, 30_000], [30_001, 65_535]])  # fmt: skip
    assert any("STICKY" in body for kind, body in said if kind == "SUBSCRIBE")


def test_partitions(consume):
    def before(broker):
        broker.create_topic("orders", partitions=3)
        publish(broker, 30)

    steps = [("receive", 30), ("ack", 0, 30), SETTLE]

    consume(*steps, before=before, receiverQueueSize=8, ordered=False)


def test_several_topics(equal):
    def before(broker):
        publish(broker, 5, topic="a")

    equal(("receive", 5), ("ack", 0, 5), SETTLE, before=before, topicNames=["a", "b"], subscriptionName="work",
          subscriptionInitialPosition="Earliest", ordered=False)  # fmt: skip


def test_a_pattern(equal):
    def before(broker):
        publish(broker, 5, topic="a-1")

    equal(("receive", 5), ("ack", 0, 5), SETTLE, before=before, topicsPattern="persistent://public/default/a-.*",
          subscriptionName="work", subscriptionInitialPosition="Earliest")  # fmt: skip


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_reader(equal, start, inclusive):
    deeds = {"cut": lambda broker: broker.disconnect(), "back": back, "acked": acked(6), "all acked": acked()}
    # Java tells its application of the subscription just before it asks for messages: what is said at once is a race.
    steps = [SETTLE, ("more",), SETTLE]
    if start == "earliest":
        steps += [("receive", 4), ("acked",), ("more",), ("cut",), ("back",), ("receive", 2), ("all acked",), ("more",)]
    equal(*steps, reader=True, deeds=deeds, before=messages(6, 3), topicName="orders", start=start,
          resetIncludeHead=inclusive)  # fmt: skip


def test_a_reader_of_a_key_range(equal):
    equal(("receive", 1), SETTLE, reader=True, before=messages(20), topicName="orders", ranges=[[0, 40_000]])
