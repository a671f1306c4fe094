"""Conversations for the fuzz tests: from captures, generated, and mutated."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.errors import PcliError
from pcli.codec.proto import pb
from pcli.codec.session import read_command
from pcli.codec.wire.build import join_frame, push_entry, push_frame
from pcli.minibroker.settings import Settings

START = 1_700_000_000_000
MAX_MESSAGE = 8192
PERSISTENT = "persistent://public/default/"
TOPICS = [PERSISTENT + "t", PERSISTENT + "u", "non-persistent://public/default/n", PERSISTENT + "parts-partition-1"]
BAD_TOPICS = ["", "a/b", "persistent://public/default/ ", "persistent://nowhere/ns/t", "x-partition-7", "ftp://a/b/c"]

# -- settings: small limits, so that they are reached ----------------------------------------------------------------

VARIANTS: list[dict[str, Any]] = [
    {},
    {"maxUnackedMessagesPerConsumer": 4, "maxUnackedMessagesPerSubscription": 10, "dispatcherMaxReadBatchSize": 3},
    {"subscriptionSharedUseClassicPersistentImplementation": True, "maxUnackedMessagesPerConsumer": 5},
    {"subscriptionKeySharedUseClassicPersistentImplementation": True},
    {"streamingDispatch": True, "activeConsumerFailoverDelayTimeMillis": 0},
    {"subscriptionKeySharedUseConsistentHashing": False, "keySharedLookAheadMsgInReplayThresholdPerConsumer": 3},
    {"dispatchThrottlingRatePerSubscriptionInMsg": 5, "maxPublishRatePerTopicInMessages": 7},
    {"brokerDeduplicationEnabled": True, "preciseDispatcherFlowControl": True},
    {"pulsarChannelWriteBufferHighWaterMark": 300, "dispatcherMaxRoundRobinBatchSize": 2},
    {"acknowledgmentAtBatchIndexLevelEnabled": False, "connectionLivenessCheckTimeoutMillis": 0},
]


def settings_of(dice: random.Random) -> Settings:
    rolling = {"managedLedgerMaxEntriesPerLedger": 3, "managedLedgerMinLedgerRolloverTimeMinutes": 0}
    chosen = dice.choice(VARIANTS) | (rolling if dice.random() < 0.5 else {})
    transactions = dice.random() < 0.5
    return Settings(maxMessageSize=MAX_MESSAGE, transactionCoordinatorEnabled=transactions, **chosen)


# -- steps of a conversation -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Step:
    """A step of a conversation. ``who``: the index of a client, which may have several connections in succession."""

    kind: str
    """One of say, wait, jump, stall, resume, leave, unload, delete, terminate."""
    who: int = 0
    data: bytes = b""
    amount: int = 0


@cache
def captured(path: Any) -> tuple[tuple[int, bytes], ...]:
    """Return the client's frames of a capture, each with the number of its connection."""
    numbers: dict[int, int] = {}
    with path.open("rb") as file:
        frames = [one for one in read_capture([(path.name, file)]) if isinstance(one, CapturedFrame)]
    return tuple((numbers.setdefault(one.stream.number, len(numbers)), one.data) for one in frames if one.from_client)


def real(path: Any, dice: random.Random) -> list[Step]:
    """Return a part of a captured conversation: its beginning, or its beginning and a later part."""
    frames = captured(path)
    short = [Step("say", who, data) for who, data in frames if len(data) < MAX_MESSAGE]
    first, second = dice.randrange(10, 60), dice.randrange(60)
    start = dice.randrange(len(short))
    return short[:first] + short[start : start + second]


class Author:
    """A generator of conversations in which most ids exist."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.request = 0
        self.producers: set[tuple[int, int]] = set()
        self.consumers: set[tuple[int, int]] = set()

    def conversation(self) -> list[Step]:
        dice, steps = self.dice, []
        for who in range(dice.randrange(1, 4)):
            steps += self.greeting(who)
        people = steps[-1].who + 1
        makers = [self.send] * 7 + [self.flow] * 4 + [self.ack] * 5 + [self.subscribe] * 3 + [self.redeliver] * 2
        makers += [self.produce] * 2 + [self.seek, self.leave_consumer, self.leave_producer, self.ask, self.ask]
        for _ in range(dice.randrange(10, 60)):
            who = dice.randrange(people)
            steps.append(Step("say", who, dice.choice(makers)(who)))
        return steps

    def greeting(self, who: int) -> list[Step]:
        version = self.dice.choice([21, 21, 21, 21, 21, 0, 3, 4, 10, 11, 17])
        steps = [push_frame(pb.CommandConnect(client_version="f", protocol_version=version))]
        steps += [push_frame(pb.CommandLookupTopic(topic=topic, request_id=self.next())) for topic in TOPICS]
        steps += [self.produce(who), self.subscribe(who), self.flow(who)]
        return [Step("say", who, data) for data in steps]

    def next(self) -> int:
        self.request += 1
        return self.request

    def topic(self) -> str:
        return self.dice.choice(TOPICS[:1] * 8 + TOPICS * 2 + BAD_TOPICS if self.dice.random() < 0.3 else TOPICS[:2])

    def place(self) -> pb.MessageIdData:
        return pb.MessageIdData(ledgerId=self.dice.randrange(6), entryId=self.dice.randrange(5))

    def known(self, ids: set[tuple[int, int]], who: int) -> int:
        mine = sorted(number for owner, number in ids if owner == who)
        return self.dice.choice(mine) if mine and self.dice.random() < 0.97 else self.dice.randrange(4)

    def produce(self, who: int) -> bytes:
        dice, number = self.dice, self.dice.randrange(3)
        self.producers.add((who, number))
        command = pb.CommandProducer(topic=self.topic(), producer_id=number, request_id=self.next())
        command.producer_access_mode = dice.choice([0, 0, 0, 0, 0, 1, 2, 3])
        if dice.random() < 0.5:
            command.producer_name = dice.choice("ab")
        if dice.random() < 0.2:
            command.initial_subscription_name = dice.choice(["s1", "s2"])
        if dice.random() < 0.1:
            command.topic_epoch = dice.choice([0, 1, 5, (1 << 64) - 1])
        return push_frame(command)

    def send(self, who: int) -> bytes:
        dice = self.dice
        metadata = pb.MessageMetadata(producer_name="a", sequence_id=dice.randrange(20), publish_time=START)
        command = pb.CommandSend(producer_id=self.known(self.producers, who), sequence_id=metadata.sequence_id)
        match dice.randrange(12):
            case 0 | 1 | 2:
                metadata.num_messages_in_batch = command.num_messages = dice.choice([1, 2, 3, 5, 5, 200])
            case 3:
                metadata.deliver_at_time = START + dice.choice([0, 500, 5000, 60_000])
            case 4:
                metadata.uuid, metadata.num_chunks_from_msg = dice.choice(["u1", "u2"]), 2
                metadata.chunk_id, command.is_chunk = dice.randrange(2), True
            case 5 if dice.random() < 0.4:
                metadata.marker_type, command.marker = 10, True
            case 6:
                command.highest_sequence_id = dice.randrange(25)
        if dice.random() < 0.7:
            metadata.partition_key = dice.choice("klmno")
        return push_frame(command, push_entry(metadata, b"x" * dice.choice([0, 5, 400]), checksum=dice.random() < 0.9))

    def subscribe(self, who: int) -> bytes:
        dice, number = self.dice, self.dice.randrange(4)
        self.consumers.add((who, number))
        command = pb.CommandSubscribe(topic=self.topic(), consumer_id=number, request_id=self.next())
        command.subscription = dice.choice(["s1", "s1", "s2"])
        command.subType = dice.choice([0, 1, 1, 1, 2, 3, 3])
        command.consumer_name = dice.choice(["c1", "c2", "c3"])
        command.durable = dice.random() < 0.9
        command.initialPosition = dice.randrange(2)
        command.priority_level = dice.choice([0, 0, 1, -1])
        if dice.random() < 0.3:
            command.start_message_id.CopyFrom(self.place())
        if command.subType == pb.CommandSubscribe.Key_Shared and dice.random() < 0.4:
            command.keySharedMeta.keySharedMode = dice.choice([pb.AUTO_SPLIT, pb.STICKY])
            command.keySharedMeta.allowOutOfOrderDelivery = dice.random() < 0.3
            start = dice.choice([0, 30000])
            command.keySharedMeta.hashRanges.add(start=start, end=start + dice.choice([0, 29999, 35535, -5]))
        if dice.random() < 0.05:
            command.start_message_rollback_duration_sec = 5
        return push_frame(command)

    def flow(self, who: int) -> bytes:
        permits = self.dice.choice([1, 2, 3, 10, 1000, (1 << 31) - 1])
        return push_frame(pb.CommandFlow(consumer_id=self.known(self.consumers, who), messagePermits=permits))

    def ack(self, who: int) -> bytes:
        dice = self.dice
        kind = pb.CommandAck.Individual if dice.random() < 0.8 else pb.CommandAck.Cumulative
        command = pb.CommandAck(consumer_id=self.known(self.consumers, who), ack_type=kind)
        for _ in range(dice.choice([1, 1, 1, 2, 5])):
            place = self.place()
            if dice.random() < 0.3:
                place.ack_set.append(dice.choice([0, 1, 2, 5, 6, 28, 255, -1]))
            command.message_id.append(place)
        if dice.random() < 0.3:
            command.request_id = self.next()
        return push_frame(command)

    def redeliver(self, who: int) -> bytes:
        ids = [self.place() for _ in range(self.dice.choice([0, 0, 1, 3]))]
        number = self.known(self.consumers, who)
        return push_frame(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=number, message_ids=ids))

    def seek(self, who: int) -> bytes:
        command = pb.CommandSeek(consumer_id=self.known(self.consumers, who), request_id=self.next())
        if self.dice.random() < 0.5:
            command.message_id.CopyFrom(self.place())
        else:
            command.message_publish_time = START + self.dice.randrange(-5, 100_000)
        return push_frame(command)

    def leave_consumer(self, who: int) -> bytes:
        kind = self.dice.choice([pb.CommandCloseConsumer, pb.CommandCloseConsumer, pb.CommandUnsubscribe])
        return push_frame(kind(consumer_id=self.known(self.consumers, who), request_id=self.next()))

    def leave_producer(self, who: int) -> bytes:
        number = self.known(self.producers, who)
        return push_frame(pb.CommandCloseProducer(producer_id=number, request_id=self.next()))

    def ask(self, who: int) -> bytes:
        consumer, request = self.known(self.consumers, who), self.next()
        schema = pb.Schema(name="s", schema_data=b"", type=self.dice.choice([pb.Schema.String, pb.Schema.Int32]))
        watcher = self.dice.randrange(2)
        return push_frame(
            self.dice.choice(
                [
                    pb.CommandPing(),
                    pb.CommandConsumerStats(consumer_id=consumer, request_id=request),
                    pb.CommandGetLastMessageId(consumer_id=consumer, request_id=request),
                    pb.CommandPartitionedTopicMetadata(topic=self.topic(), request_id=request),
                    pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=request),
                    pb.CommandGetOrCreateSchema(topic=self.topic(), request_id=request, schema=schema),
                    pb.CommandGetSchema(topic=self.topic(), request_id=request),
                    pb.CommandNewTxn(request_id=request),
                    pb.CommandWatchTopicList(
                        namespace="public/default", watcher_id=watcher, request_id=request, topics_pattern=".*"
                    ),
                    pb.CommandWatchTopicListClose(watcher_id=watcher, request_id=request),
                ]
            )
        )


# -- mutation --------------------------------------------------------------------------------------------------------

NUMBERS = [0, 1, 2, 3, 7, 255, 65536, (1 << 31) - 1, (1 << 31), (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
TEXTS = ["", " ", "a", "s1", "t", "/", "a/b/c/d", "\0", "ü" * 30, "x" * 2000, "persistent://", "[", "t-partition-1"]
EVENTS = ["wait", "wait", "wait", "wait", "jump", "stall", "resume", "resume", "leave", "unload", "delete", "terminate"]


def damaged_bytes(data: bytes, dice: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice([1, 1, 3])):
        at = dice.randrange(len(out)) if out else 0
        match dice.randrange(5):
            case 0:
                out[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                out[at : at + 4] = dice.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\1"])
            case 2:
                del out[at : at + dice.randrange(1, 40)]
            case 3:
                out[at:at] = out[at : at + dice.randrange(1, 40)]
            case _:
                return bytes(out[:at])
    return bytes(out)


def other_value(field: Any, dice: random.Random) -> Any:
    match field.cpp_type:
        case field.CPPTYPE_STRING:
            text = dice.choice(TEXTS)
            return text.encode() if field.type == field.TYPE_BYTES else text
        case field.CPPTYPE_ENUM:
            return dice.choice(field.enum_type.values).number
        case field.CPPTYPE_BOOL:
            return dice.random() < 0.5
        case field.CPPTYPE_INT64:
            return (dice.choice(NUMBERS) + (1 << 63)) % (1 << 64) - (1 << 63)
        case field.CPPTYPE_INT32:
            return (dice.choice(NUMBERS) + (1 << 31)) % (1 << 32) - (1 << 31)
        case field.CPPTYPE_UINT32:
            return dice.choice(NUMBERS) % (1 << 32)
        case field.CPPTYPE_UINT64:
            return dice.choice(NUMBERS)
    return 0


def change_field(message: Any, dice: random.Random, depth: int = 0) -> None:
    """Change, add or remove one field at any depth; a PING has none."""
    if not message.DESCRIPTOR.fields:
        return
    field = dice.choice(message.DESCRIPTOR.fields)
    repeated = field.is_repeated
    if field.message_type is not None:
        if repeated:
            items = getattr(message, field.name)
            inner = dice.choice(items) if items and dice.random() < 0.7 else items.add()
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
        if depth < 4:
            change_field(inner, dice, depth + 1)
    elif dice.random() < 0.2:
        message.ClearField(field.name)
    elif repeated:
        getattr(message, field.name).append(other_value(field, dice))
    else:
        setattr(message, field.name, other_value(field, dice))


def body_of(data: bytes) -> tuple[pb.BaseCommand, Any, bytes] | None:
    """Return a frame's command, its body, and the bytes after the command; None if the frame is invalid."""
    size = int.from_bytes(data[4:8], "big")
    try:
        command, body = read_command(data[8 : 8 + size])
    except PcliError:
        return None
    return command, body, data[8 + size :]


def damaged_fields(data: bytes, dice: random.Random) -> bytes:
    found = body_of(data)
    if found is None:
        return damaged_bytes(data, dice)
    command, body, entry = found
    change_field(body, dice)
    if entry and dice.random() < 0.3:
        entry = damaged_bytes(entry, dice)
    return join_frame(command.SerializePartialToString(), entry)


def mutated(steps: list[Step], dice: random.Random) -> list[Step]:
    """Return a mutated conversation, which is sometimes unchanged."""
    steps, people = list(steps), 1 + max(step.who for step in steps)
    for _ in range(dice.choice([0, 1, 2, 4, 8])):
        at, other = dice.randrange(len(steps)), dice.randrange(len(steps))
        step = steps[at]
        match dice.randrange(8):
            case 0 | 1:
                steps[at] = Step("say", step.who, damaged_fields(step.data, dice))
            case 2:
                steps[at] = Step("say", step.who, damaged_bytes(step.data, dice))
            case 3:
                steps[at:at] = [step] * dice.choice([1, 1, 5])
            case 4:
                steps[at], steps[other] = steps[other], step
            case 5:
                steps[at] = Step("say", dice.randrange(people + 1), step.data)
            case 6:
                steps[at:at] = steps[other : other + dice.randrange(10)]
            case _ if len(steps) > 1:
                del steps[at]
    for _ in range(dice.randrange(10)):
        event = Step(dice.choice(EVENTS), dice.randrange(people), amount=dice.choice([0, 1, 50, 1000, 5000, 31_000]))
        steps.insert(dice.randrange(len(steps)), event)
    return steps


@pytest.fixture(scope="session")
def script() -> SimpleNamespace:
    """The functions that create conversations and read frames."""
    return SimpleNamespace(
        settings_of=settings_of,
        real=real,
        invented=lambda dice: Author(dice).conversation(),
        mutated=mutated,
        body_of=body_of,
        damaged_fields=damaged_fields,
    )
