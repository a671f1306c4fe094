"""Faults of clients and their effects, as observed on a real 4.2.4.

A row contains the bytes that a client writes and the expected responses: the command with its error, or `closed`. The
client has a producer (1) and a Shared consumer (1) on a separate topic. A second client must continue to work.
"""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_entry, push_frame

TOPIC = "persistent://public/default/bad"
MAX = (1 << 64) - 1
PING = push_frame(pb.CommandPing())
METADATA = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
GOOD = push_entry(METADATA, b"good")
SHARED, KEY_SHARED = pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared


def summary(body):
    """Return the command and its error."""
    fields = [field for field in ("error", "error_code") if field in body.DESCRIPTOR.fields_by_name]
    errors = [pb.ServerError.Name(getattr(body, field)) for field in fields if body.HasField(field)]
    return " ".join([type(body).__name__.removeprefix("Command"), *errors])


@pytest.fixture
def expected_responses(world):
    """Write bytes; return the responses in order. The second client receives only its own message."""
    client, neighbour = world.client(), world.client()
    client.producer(TOPIC)
    client.subscribe(TOPIC, subType=SHARED)
    neighbour.producer("neighbour")
    neighbour.subscribe("neighbour")
    neighbour.flow()

    def say(data):
        heard = [summary(body) for body in client.raw(data)]
        assert [summary(body) for body in neighbour.publish()] == ["SendReceipt", "Message"]
        assert not world.broker.failures
        gone = client.connection not in world.broker.connections
        assert gone == client.closed
        return [*heard, "closed"] if gone else heard

    return say


def send(entry, **fields):
    return push_frame(pb.CommandSend(**{"producer_id": 1, "sequence_id": 0} | fields), entry)


def ack(*ids, **fields):
    return pb.CommandAck(**{"consumer_id": 1, "ack_type": 0, "request_id": 5, "message_id": ids} | fields)


def place(ledger, entry, **fields):
    return pb.MessageIdData(ledgerId=ledger, entryId=entry, **fields)


def subscribe(topic=TOPIC, **fields):
    usual = {"subscription": "s2", "subType": SHARED, "consumer_id": 2, "request_id": 5}
    return pb.CommandSubscribe(topic=topic, **usual | fields)


def producer(topic=TOPIC, **fields):
    return pb.CommandProducer(topic=topic, **{"producer_id": 2, "request_id": 5} | fields)


def ranged(*ranges):
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=a, end=b) for a, b in ranges])
    return subscribe(subType=KEY_SHARED, keySharedMeta=meta)


def seek(**fields):
    return pb.CommandSeek(**{"consumer_id": 1, "request_id": 5} | fields)


def schema(**fields):
    return pb.Schema(**{"name": "s", "schema_data": b"", "type": pb.Schema.String} | fields)


def replaced(body, old, new):
    """Return a frame in which one byte string is replaced by one of the same length."""
    frame = push_frame(body)
    assert frame.count(old) == 1
    return frame.replace(old, new)


# -- unknown ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        (pb.CommandCloseProducer(producer_id=9, request_id=5), ["Success"]),
        (pb.CommandCloseConsumer(consumer_id=9, request_id=5), ["Success"]),
        (pb.CommandWatchTopicListClose(watcher_id=9, request_id=5), ["Success"]),
        (pb.CommandFlow(consumer_id=9, messagePermits=1), []),
        (pb.CommandFlow(consumer_id=9, messagePermits=0), []),
        (pb.CommandRedeliverUnacknowledgedMessages(consumer_id=9), []),
        (ack(place(1, 1), consumer_id=9), []),
        (seek(consumer_id=9, message_id=place(1, 1)), ["Error MetadataError"]),
        (seek(consumer_id=9), ["Error MetadataError"]),
        (pb.CommandUnsubscribe(consumer_id=9, request_id=5), ["Error MetadataError"]),
        (pb.CommandGetLastMessageId(consumer_id=9, request_id=5), ["Error MetadataError"]),
        (pb.CommandConsumerStats(consumer_id=9, request_id=5), ["closed"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_unknown_consumers_producers_watchers(expected_responses, body, answers):
    assert expected_responses(push_frame(body)) == answers


@pytest.mark.parametrize(
    "ids",
    [
        [], [place(999_999, 1)], [place(MAX, MAX)], [place(1 << 62, 1 << 62)], [place(0, 0, ack_set=[0, 0, 0])],
        [place(1, 1), place(1, 2)],
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [pb.CommandAck.Individual, pb.CommandAck.Cumulative])
def test_acknowledgements_of_unknown_entries(expected_responses, kind, ids):
    assert expected_responses(push_frame(ack(*ids, ack_type=kind))) == ["AckResponse"]


def test_redelivery_of_unknown_entries(expected_responses):
    ids = [place(MAX, MAX), place(1 << 62, 3)]
    assert (
        expected_responses(push_frame(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids))) == []
    )


@pytest.mark.parametrize("ids", [(MAX, MAX), (MAX >> 1, MAX >> 1), (0, MAX - 4), (999_999, 0), (MAX - 1, 0)])
def test_seek_to_invalid_positions(expected_responses, ids):
    assert expected_responses(push_frame(seek(message_id=place(*ids)))) == ["CloseConsumer", "Success"]


@pytest.mark.parametrize("time", [0, 1 << 63, MAX >> 1, MAX])
def test_seek_to_invalid_times(expected_responses, time):
    assert expected_responses(push_frame(seek(message_publish_time=time))) == ["CloseConsumer", "Success"]


# -- ids in use ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        (producer(producer_id=1), ["ProducerSuccess"]),
        (producer(TOPIC + "x", producer_id=1), ["ProducerSuccess"]),
        (subscribe(consumer_id=1), ["Success"]),
    ],
)
def test_the_same_id_again(expected_responses, body, answers):
    assert expected_responses(push_frame(body)) == answers


# -- entries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (send(GOOD[:-1] + b"?"), ["SendError ChecksumError"]),
        (send(GOOD, producer_id=77), ["closed"]),
        (send(GOOD, message_id=place(1, 1)), ["SendError NotAllowedError"]),
        (send(GOOD, num_messages=0), ["SendReceipt"]),
        (send(GOOD, num_messages=-1), ["SendReceipt"]),
        (send(GOOD, num_messages=-(1 << 31)), ["SendReceipt"]),
        (send(GOOD, sequence_id=5, highest_sequence_id=2), ["SendReceipt"]),
        (send(GOOD, sequence_id=MAX), ["SendReceipt"]),
        (send(b""), ["closed"]),
        (send(b"a"), ["closed"]),
        (send(b"\x0e\x01"), ["closed"]),
        (send(b"\x0e\x01abc"), ["closed"]),
        (send(b"\0\0\0\xff\1\2"), ["SendReceipt"]),
        (send(b"\xff\xff\xff\xff\1\2"), ["SendReceipt"]),
        (send(b"\0\0\0\2\xff\xff"), ["SendReceipt"]),
        (send(b"\x0e\x02\xff\xff\xff\xffabc"), ["SendReceipt"]),
    ],
)
def test_sends(expected_responses, data, answers):
    assert expected_responses(data) == answers


@pytest.mark.parametrize(
    "broken", [b"\0\0\0\2\xff\xff", b"ab", bytes(4), b"\0\0\0\xff\1\2", b"\x0e\x02\xff\xff\xff\xffabc"]
)
def test_an_unreadable_entry_is_skipped(expected_responses, broken):
    """The entry is stored and has a receipt, but no consumer receives it.

    A real broker fails on the last two entries: the entries after them arrive some seconds later.
    """
    flow = push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10))
    assert sorted(expected_responses(flow + send(broken) + send(GOOD))) == ["Message", "SendReceipt", "SendReceipt"]


@pytest.mark.parametrize(("count", "delivered"), [(-5, 2), ((1 << 31) - 1, 1)])
def test_batches_with_wrong_counts(expected_responses, count, delivered):
    """A negative count uses no permits; a large one uses all of them."""
    claim = pb.MessageMetadata(num_messages_in_batch=count)
    claim.MergeFrom(METADATA)
    flow = push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10))
    heard = expected_responses(flow + send(push_entry(claim, b"")) + send(GOOD))
    assert heard.count("Message") == delivered


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (push_frame(pb.CommandFlow(consumer_id=1, messagePermits=0)), ["closed"]),
        (push_frame(pb.CommandFlow(consumer_id=1, messagePermits=1 << 31)), ["closed"]),
        (push_frame(pb.CommandFlow(consumer_id=1, messagePermits=(1 << 32) - 1)), ["closed"]),
        (push_frame(pb.CommandFlow(consumer_id=1, messagePermits=(1 << 31) - 1)), []),
        (push_frame(subscribe(priority_level=-1)), ["Success"]),
        (push_frame(subscribe(start_message_rollback_duration_sec=MAX)), ["Success"]),
        (push_frame(subscribe(start_message_rollback_duration_sec=1 << 63)), ["Success"]),
        (push_frame(subscribe(consumer_id=MAX)), ["Success"]),
        (push_frame(pb.CommandLookupTopic(topic=TOPIC, request_id=MAX)), ["LookupTopicResponse"]),
        (replaced(ack(place(1, 1)), b"\x10\0\x1a", b"\x10\7\x1a"), ["closed"]),
        (replaced(subscribe(), b"\x18\1", b"\x18\x09"), ["closed"]),
        (replaced(subscribe(initialPosition=1), b"\x68\1", b"\x68\x09"), ["Success"]),
        (replaced(producer(producer_access_mode=1), b"\x50\1", b"\x50\x09"), ["ProducerSuccess"]),
        (replaced(producer(schema=schema(schema_data=b"QQ")), b"\x20\1", b"\x20\x63"), ["closed"]),
    ],
)
def test_numbers(expected_responses, data, answers):
    assert expected_responses(data) == answers


@pytest.mark.parametrize(
    ("ranges", "answer"),
    [
        ([], "Error ConsumerAssignError"),
        ([(5, 1)], "Error ConsumerAssignError"),
        ([(0, 10), (5, 20)], "Error ConsumerAssignError"),
        ([(-5, 3)], "Success"),
        ([(0, 70_000)], "Success"),
        ([(3, 3)], "Success"),
    ],
)
def test_ranges(expected_responses, ranges, answer):
    assert expected_responses(push_frame(ranged(*ranges))) == [answer]


def test_a_set_of_bits_that_fills_a_frame(expected_responses):
    """Half a million words: the work is proportional to their number."""
    assert expected_responses(push_frame(ack(place(0, 0, ack_set=[1] * 500_000)))) == ["AckResponse"]


# -- names -----------------------------------------------------------------------------------------------------------

NO_TOPICS = [
    "", "a/b", "a/b/c/d", "a/b/c/d/e", "http://a/b/c", "persistent://public/default/", "persistent://public/default/ ",
    "persistent://", "://", "persistent:/public/default/x", "persistent://public/default", "persistent://public//x",
    "persistent:///default/x", "persistent://pub lic/default/x", "persistent://public/def?ault/x",
]  # fmt: skip
STRANGE_TOPICS = [
    "public/default/x?y", "persistent://public/default/a\nb", "persistent://public/default/a\0b", "x" * 3000,
    "-partition-", "x-partition--1", "x-partition-99999999999",
]  # fmt: skip
ASKING = {
    "LookupTopicResponse": lambda topic: pb.CommandLookupTopic(topic=topic, request_id=5),
    "PartitionedTopicMetadataResponse": lambda topic: pb.CommandPartitionedTopicMetadata(topic=topic, request_id=5),
    "GetSchemaResponse": lambda topic: pb.CommandGetSchema(topic=topic, request_id=5),
}
"""Requests whose responses have fields for errors."""


@pytest.mark.parametrize("topic", NO_TOPICS)
def test_invalid_topic_names(expected_responses, topic):
    for answer, ask in ASKING.items():
        assert expected_responses(push_frame(ask(topic))) == [f"{answer} InvalidTopicName"]
    assert expected_responses(push_frame(producer(topic))) == ["Error InvalidTopicName"]
    assert expected_responses(push_frame(subscribe(topic))) == ["Error InvalidTopicName"]
    assert expected_responses(push_frame(pb.CommandGetOrCreateSchema(topic=topic, request_id=5, schema=schema()))) == [
        "closed"
    ]


@pytest.mark.parametrize("topic", STRANGE_TOPICS)
def test_unusual_topic_names(expected_responses, topic):
    lookup, partitions, get = (push_frame(ask(topic)) for ask in ASKING.values())
    assert expected_responses(lookup) == ["LookupTopicResponse"]
    assert expected_responses(partitions) == ["PartitionedTopicMetadataResponse"]
    assert expected_responses(get) == ["GetSchemaResponse TopicNotFound"]
    assert expected_responses(push_frame(producer(topic))) == ["ProducerSuccess"]
    assert expected_responses(push_frame(subscribe(topic))) == ["Success"]


def test_a_partition_of_a_partition(expected_responses):
    topic = "persistent://public/default/x-partition-0-partition-1"
    assert expected_responses(push_frame(ASKING["LookupTopicResponse"](topic))) == ["LookupTopicResponse"]
    assert expected_responses(push_frame(producer(topic))) == ["Error NotAllowedError"]
    assert expected_responses(push_frame(subscribe(topic))) == ["Error NotAllowedError"]


@pytest.mark.parametrize("namespace", ["", "a", "a/b/c", "public/default/x", "public//", "/", "public/ ", "pub lic/x"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda namespace: pb.CommandGetTopicsOfNamespace(namespace=namespace, request_id=5),
        lambda namespace: pb.CommandWatchTopicList(
            namespace=namespace, watcher_id=1, request_id=5, topics_pattern=".*"
        ),
    ],
)
def test_invalid_namespaces(expected_responses, ask, namespace):
    assert expected_responses(push_frame(ask(namespace))) == ["closed"]


@pytest.mark.parametrize(
    ("pattern", "of_list", "of_watcher"),
    [
        ("[", "MetadataError", "InvalidTopicName"),
        ("(?<n", "MetadataError", "InvalidTopicName"),
        ("*", "MetadataError", "InvalidTopicName"),
        ("\\", "MetadataError", "InvalidTopicName"),
        ("ftp://x", "MetadataError", "AuthorizationError"),
    ],
)
def test_invalid_patterns(expected_responses, pattern, of_list, of_watcher):
    fields = {"namespace": "public/default", "request_id": 5, "topics_pattern": pattern}
    assert expected_responses(push_frame(pb.CommandGetTopicsOfNamespace(**fields))) == [f"Error {of_list}"]
    assert expected_responses(push_frame(pb.CommandWatchTopicList(watcher_id=1, **fields))) == [f"Error {of_watcher}"]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("", "Error ProducerBusy"),
        (" ", "Error ProducerBusy"),
        ("pulsar.dedup", "Error ProducerBusy"),
        ("pulsar.repl.x", "Error ProducerBusy"),
        ("a/b", "Success"),
        ("a\0b", "Success"),
        ("x" * 5000, "Success"),
    ],
)
def test_names_of_subscriptions(expected_responses, name, answer):
    assert expected_responses(push_frame(subscribe(subscription=name))) == [answer]


@pytest.mark.parametrize("name", ["", "n" * 5000])
def test_names_of_producers(expected_responses, name):
    assert expected_responses(push_frame(producer(producer_name=name))) == ["ProducerSuccess"]


def test_too_much_metadata(expected_responses):
    metadata = [pb.KeyValue(key="k", value="v" * 1024)]
    assert expected_responses(push_frame(subscribe(metadata=metadata))) == ["Error MetadataError"]


# -- schemas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "answers"),
    [
        (b"", ["GetSchemaResponse IncompatibleSchema"]),
        (b"ab", ["closed"]),
        (b"\xff" * 8, ["GetSchemaResponse TopicNotFound"]),
        (b"\xff" * 9, ["GetSchemaResponse TopicNotFound"]),
    ],
)
def test_versions_of_schemas(expected_responses, version, answers):
    assert (
        expected_responses(push_frame(pb.CommandGetSchema(topic=TOPIC, request_id=5, schema_version=version)))
        == answers
    )


@pytest.mark.parametrize("text", [b"{", b"[" * 20_000, b"\xff\xfe", b'"nothing"'])
def test_invalid_schemas(expected_responses, text):
    broken = schema(schema_data=text, type=pb.Schema.Avro)
    assert expected_responses(push_frame(producer(schema=broken))) == ["Error IncompatibleSchema"]


# -- nearly valid commands -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (join_frame(PING[8:], b"garbage"), ["Pong"]),
        (join_frame(PING[8:] + b"\xd2\x3f\x01a"), ["Pong"]),
        (join_frame(PING[8:] + push_frame(pb.CommandPong())[10:]), ["Pong"]),
        (join_frame(b"\x08\x13" + PING[8:]), ["Pong"]),
        (join_frame(b"\x08\x12\x92\x01\x02\x08\x01"), ["Pong"]),
        (join_frame(b"\x0a\x01a"), ["closed"]),
        (join_frame(b"\x08" + b"\x80" * 11 + b"\x01"), ["closed"]),
        (join_frame(b"\x08\x12\x90\x01\x01"), ["closed"]),
        (join_frame(b"\x08\x12\x92\x01\x05"), ["closed"]),
        (join_frame(b"\0" * 100), ["closed"]),
        (join_frame(b"\0" * 5_000_000), ["closed"]),
    ],
)
def test_nearly_valid_commands(expected_responses, data, answers):
    assert expected_responses(data) == answers
