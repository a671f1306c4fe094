"""Filters applied to real captures, compared with their truth files, and to handwritten frames."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.observe import compile_filter, find_field
from pcli.codec.observe.filters.parser import MAX_DEPTH
from pcli.codec.observe.filters.syntax_tree import (
    to_text,
)
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.commands import name_of


def numbers(facts, text):
    """Return the pulsar.number of the matching frames."""
    match = compile_filter(text).match
    return [one.frame.number for one in facts if match(one)]


# -- compared with truth files


def test_types_and_sides_match_the_truth_files(small):
    for name in ("java/txn-commit", "python/10-shared-redelivery", "go/chunks", "rust/batching"):
        facts = small.facts(name)
        for side, counts in small.truth(name)["frames_by_type"].items():
            for type_, count in counts.items():
                text = f'pulsar.type == "{type_}" and pulsar.from == {side}'
                assert len(numbers(facts, text)) == count, (name, text)


def test_redelivered_messages_match_the_truth_files(small):
    """Every event with a redelivery count has a MESSAGE frame; no other message id is redelivered."""
    facts = small.facts("python/10-shared-redelivery")
    events = small.truth("python/10-shared-redelivery")["events"]
    again = {
        ":".join(one["message_id"].split(":")[:2])
        for one in events
        if one["type"] == "received" and one["redelivery_count"] > 0
    }
    found = numbers(facts, 'pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0')
    ids = find_field("pulsar.message_id")
    assert again
    assert again <= {ids.get(one) for one in facts if one.frame.number in found}


def test_acked_messages_are_found_inside_the_ack(small):
    """A cumulative ack contains the id that the application acknowledged."""
    facts = small.facts("rust/cumulative-ack")
    events = [one for one in small.truth("rust/cumulative-ack")["events"] if one["type"] == "ack_cumulative"]
    assert events
    for event in events:
        ledger, entry = event["message_id"].split(":")[:2]
        text = f"pulsar.ack.message_id.ledgerId == {ledger} and pulsar.ack.message_id.entryId == {entry}"
        assert numbers(facts, f"{text} and pulsar.ack.ack_type == Cumulative"), event
        assert numbers(facts, text) == numbers(
            facts, f'pulsar.type == ACK && pulsar.message_id contains "{ledger}:{entry}"'
        )


def test_keys_match_the_truth_files(small):
    name = "python/02-batched-keys-properties"
    keys = Counter(
        one["key"]
        for one in small.truth(name)["events"]
        if one["type"] == "produced" and one.get("key") and not one.get("key_is_base64")
    )
    facts = small.facts(name)
    key = find_field("pulsar.key")
    assert keys
    for word, count in keys.items():
        found = numbers(facts, f'pulsar.type == SEND and pulsar.key == "{word}"')
        sent = [value for one in facts if one.frame.number in found for value in key.get(one)]
        assert sent.count(word) == count


def test_errors_of_refusals(small):
    found = numbers(small.facts("java/refusals"), "pulsar.error in {ConsumerBusy, ProducerBusy, TopicNotFound}")
    assert len(found) >= 3


def test_times_divide_a_capture(small):
    facts = small.facts("go/nack")
    middle = facts[len(facts) // 2].frame
    seconds = Decimal(middle.time_ns) / 10**9
    before = [one.frame.number for one in facts if one.frame.time_ns < middle.time_ns]
    assert numbers(facts, f"frame.time_epoch < {seconds}") == before
    assert numbers(facts, f'not frame.time_epoch >= "{seconds}"') == before
    assert before


def test_slow_answers(small):
    facts = small.facts("go/nack")
    slow = [one.frame.number for one in facts if one.request_number and one.latency_ns > 5_000_000]
    for text in ("pulsar.latency > 5ms", "pulsar.latency > 0.005", "pulsar.latency > 5000us"):
        assert numbers(facts, text) == slow
    assert slow


# -- handwritten frames

ENTRY = push_entry(
    pb.MessageMetadata(producer_name="p-1", sequence_id=0, publish_time=1000, schema_version=b"\x0a\x0b"), b""
)


@pytest.fixture
def three(conversation):
    """A SEND, an ACK of three ids, a SUBSCRIBE."""
    ids = [pb.MessageIdData(ledgerId=1, entryId=entry) for entry in (5, 6, 7)]
    schema = pb.Schema(name="n", schema_data=b"\x01", type=2)
    return [
        conversation.client(pb.CommandSend(producer_id=1, sequence_id=2**63), ENTRY),
        conversation.client(pb.CommandAck(consumer_id=4, ack_type=1, message_id=ids)),
        conversation.client(
            pb.CommandSubscribe(
                topic="persistent://a/b/Orders",
                subscription='s"1',
                subType=3,
                consumer_id=4,
                request_id=9,
                schema=schema,
            )
        ),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pulsar.send", [1]),
        ("pulsar.subscribe.schema", [3]),
        ("pulsar.schema_version || pulsar.metadata.schema_version", None),
        ("!pulsar.send", [2, 3]),
        ("pulsar.type == SEND or pulsar.type eq 10", [1, 2]),
        ("pulsar.type in {SEND, SUBSCRIBE}", [1, 3]),
        ("pulsar.type in {SEND SUBSCRIBE}", [1, 3]),
        ("pulsar.type not in {SEND}", [2, 3]),
        ("pulsar.type > ACK", []),
        ("pulsar.type < SEND", [3]),
        ("pulsar.sequence_id == 9223372036854775808", [1]),
        ("pulsar.sequence_id == 0x8000000000000000", [1]),
        ("pulsar.ack.message_id.entryId == 7", [2]),
        ("pulsar.ack.message_id.entryId != 7", []),
        ("any pulsar.ack.message_id.entryId != 7", [2]),
        ("pulsar.ack.message_id.entryId !== 7", [2]),
        ("pulsar.ack.message_id.entryId != 8", [2]),
        ("all pulsar.ack.message_id.entryId >= 5", [2]),
        ("all pulsar.ack.message_id.entryId > 5", []),
        ("pulsar.ack.message_id.ledgerId === 1", [2]),
        ("pulsar.ack.message_id.entryId in {1..4, 6}", [2]),
        ("all pulsar.ack.message_id.entryId in {5..7}", [2]),
        ("count(pulsar.ack.message_id) == 3", [2]),
        ('pulsar.message_id == "1:6"', [2]),
        ("pulsar.message_id == 1:6", [2]),
        ('any pulsar.message_id == "1:6" and not pulsar.message_id == "1:9"', [2]),
        ("5 <= pulsar.consumer_id or 4 == pulsar.consumer_id", [2, 3]),
        ("1 < pulsar.consumer_id < 5", [2, 3]),
        ("1 < pulsar.consumer_id < 4", []),
        ('pulsar.topic contains "Orders"', [3]),
        ('pulsar.topic contains "orders"', []),
        ('lower(pulsar.topic) contains "orders"', [3]),
        ('pulsar.topic matches "orders$"', [3]),
        ("pulsar.topic ~ r'b/o\\w+s'", [3]),
        ('pulsar.topic matches "b/\\w+"', [3]),
        ("len(pulsar.topic) == 23", [3]),
        ('pulsar.subscription == "s\\"1"', [3]),
        ("pulsar.subscription == 's\"1'", [3]),
        ('pulsar.subscription == "\\x73\\u00221"', [3]),
        ("pulsar.subscribe.subType == Key_Shared", [3]),
        ("pulsar.subscribe.subType != Key_Shared", []),
        ("pulsar.subscribe.subType == 3", [3]),
        ("pulsar.subscribe.subType == UNKNOWN_7", []),
        ("pulsar.metadata.schema_version == 0a0b", [1]),
        ("pulsar.metadata.schema_version == 0x0a:0b", [1]),
        ("pulsar.metadata.schema_version contains 0b", [1]),
        ('pulsar.metadata.schema_version == "\\x0a\\x0b"', [1]),
        ("pulsar.subscribe.schema.schema_data matches \"\\x01\"", [3]),
        ("pulsar.metadata.publish_time == 1970-01-01T00:00:01Z", [1]),
        ('pulsar.metadata.publish_time == "1970-01-01 01:00:01.000000000+01:00"', [1]),
        ("pulsar.metadata.publish_time == 1.0", [1]),
        ("frame.time_epoch < 1970-01-01", []),
        ("ip.src == 10.0.0.0/24", [1, 2, 3]),
        ("ip.src == 10.0.0.2 or ip.src == ::1", []),
        ("ip.addr == 10.0.0.2", [1, 2, 3]),
        ("ip.addr != 10.0.0.2", []),
        ("tcp.port == 6650 && tcp.srcport != 6650", [1, 2, 3]),
        ("tcp.srcport == tcp.dstport", []),
        ("tcp.srcport > tcp.dstport and pulsar.consumer_id == pulsar.ack.consumer_id", [2]),
        ("pulsar.length < 1kB and pulsar.length >= 10B", [1, 2, 3]),
        ("pulsar.length > 1KiB", []),
        ("pulsar.system == false", [1, 2, 3]),
        ("pulsar.send xor pulsar.type == SEND", []),
        ("pulsar.send ^^ pulsar.ack", [1, 2]),
        ("pulsar.send || pulsar.ack && pulsar.subscribe", [1]),
        ("(pulsar.send || pulsar.ack) && !pulsar.send", [2]),
        ("not not pulsar.send", [1]),
        ("pulsar.unknown.99 == 5", []),
        ("pulsar.ack.unknown.99", []),
    ],
)  # fmt: skip
def test_filters_match(three, text, found):
    if found is None:
        with pytest.raises(LocalError, match=r"pulsar\.metadata\.schema_version"):
            compile_filter(text)
        return
    assert numbers(three, text) == found
    assert numbers(three, to_text(compile_filter(text).tree)) == found


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", 0, "missing"),
        ("pulsar.typ == 1", 0, "pulsar.type"),
        ("pulsar.send and pulsar.mesage.redelivery_count > 0", 16, "pulsar.message.redelivery_count"),
        ('pulsar.number == "x"', 17, "a number"),
        ("pulsar.number == x", 17, "a number"),
        ("pulsar.number contains 5", 23, "contains cannot be applied"),
        ('pulsar.number matches "5"', 22, "matches cannot be applied"),
        ("pulsar.length > 5parsecs", 16, "is not a unit"),
        ("pulsar.latency > 5MB", 17, "not a unit of time"),
        ('pulsar.type == "MESAGE"', 15, "MESSAGE"),
        ("pulsar.type == message", 15, "MESSAGE"),
        ("pulsar.subscribe.subType == Sharde", 28, "Shared"),
        ("pulsar.system == 5", 17, "true or false"),
        ("pulsar.system > false", 16, "cannot be applied"),
        ("ip.src == 10.0.0.300", 10, "no"),
        ("ip.src > 10.0.0.3", 9, "cannot be applied"),
        ("frame.time_epoch > yesterday", 19, "a time"),
        ("frame.time_epoch > 2026-13-01", 19, "month"),
        ('pulsar.topic matches "(["', 21, "invalid pattern"),
        ("pulsar.subscribe == 5", 20, "group"),
        ("pulsar.metadata.schema_version == xyz", 34, "hex"),
        ("pulsar.send pulsar.ack", 12, "not expected"),
        ("(pulsar.send", 12, "')' is missing"),
        ("pulsar.send)", 11, "not expected"),
        ("pulsar.send and", 15, "missing"),
        ("and pulsar.send", 0, "missing"),
        ("pulsar.topic == 'abc", 16, "is not terminated"),
        ("pulsar.type & 5", 12, "is not valid here"),
        ("pulsar.type in {}", 16, "the set is empty"),
        ("pulsar.type in {pulsar.send}", 16, "values"),
        ("pulsar.type in 5", 15, "'{' is missing"),
        ("5 == 6", 0, "both values"),
        ("topic", 0, "is not a field"),
        ("any pulsar.send", 0, "comparison"),
        ('"a" contains pulsar.topic', 0, "left"),
        ("tcp.srcport == pulsar.topic", 15, "cannot be compared"),
        ("len(pulsar.number) > 5", 4, "len()"),
        ("len(5) > 5", 0, "requires a field"),
        ("pulsar.number == 99999999999999999999999999999999999999999999", 17, "a number"),
    ],
)
def test_invalid_filters_report_reason_and_position(text, place, message):
    with pytest.raises(LocalError) as raised:
        compile_filter(text)
    first, shown, caret = raised.value.text.split("\n")
    assert first.startswith("invalid filter: ")
    assert message in first
    assert shown == f"  {text}"
    assert caret.index("^") == place + 2
    assert raised.value.offset == place


def test_the_caret_of_a_long_filter_is_visible():
    text = " and ".join(["pulsar.send"] * 100) + " and pulsar.nothing == 5"
    with pytest.raises(LocalError) as raised:
        compile_filter(text)
    _, shown, caret = raised.value.text.split("\n")
    assert len(shown) < 110
    assert shown[caret.index("^") :].startswith("pulsar.nothing")


def test_nesting_is_limited():
    compile_filter("(" * (MAX_DEPTH - 1) + "pulsar.send" + ")" * (MAX_DEPTH - 1))
    for text in ("(" * 5000 + "pulsar.send" + ")" * 5000, "!" * 5000 + "pulsar.send", "not " * 5000):
        with pytest.raises(LocalError, match="nested brackets"):
            compile_filter(text)
    compile_filter(" or ".join(["pulsar.send"] * 3000))


def test_frames_of_other_types_are_not_decoded(conversation):
    """The commands of these frames are not decoded."""
    compiled = compile_filter('pulsar.type == "MESSAGE" and pulsar.message.redelivery_count > 0')
    facts = conversation.client(pb.CommandSend(producer_id=1, sequence_id=1), ENTRY)
    assert not compiled.match(facts)
    assert facts._parts is None
    assert facts.frame._command is None
    assert facts.frame._parts is None


def test_cheap_terms_are_evaluated_first(conversation):
    compiled = compile_filter("pulsar.metadata.producer_name == x and pulsar.producer_id == 99")
    facts = conversation.client(pb.CommandSend(producer_id=1, sequence_id=1), ENTRY)
    assert not compiled.match(facts)
    assert facts._parts.metadata is None


def test_a_filter_lists_its_fields():
    text = "pulsar.send and (len(pulsar.topic) > 5 or tcp.srcport == tcp.dstport) and pulsar.type in {SEND}"
    assert compile_filter(text).fields == ("pulsar.send", "pulsar.topic", "tcp.srcport", "tcp.dstport", "pulsar.type")


def test_unknown_types_take_bounded_memory(conversation):
    compiled = compile_filter("pulsar.number > 0")
    for number in range(200, 400):
        command = b"\x08" + bytes([number & 127 | 128, number >> 7])
        facts = conversation.client((len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command)
        assert name_of(facts.frame.type) == f"UNKNOWN_{number}"
        assert compiled.match(facts)
    assert len(compiled._plans) < 120
