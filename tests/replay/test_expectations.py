"""When a response equals the expected one."""

from unittest.mock import ANY

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.replay.expectations import check_entry, entry, ids, place, plain, same, to_protobuf

HEARD = {"ledgerId": 7, "entryId": 1}


def message(behind):
    command = pb.CommandMessage(consumer_id=0, message_id=pb.MessageIdData(ledgerId=7, entryId=1))
    return Frame.of(push_frame(command, behind))


def test_all_fields_must_match():
    assert same({"a": 1, "b": ANY}, {"a": 1, "b": "x"})
    assert not same({"a": 1}, {"a": 1, "b": "x"})
    assert not same({"a": 1, "b": ANY}, {"a": 1})
    assert not same([1, 2], [1])


def test_an_id_is_assigned_once():
    first, _ = ids(2)
    assert same({"message_id": first}, {"message_id": HEARD})
    assert same(first, HEARD)
    assert not same(first, {"ledgerId": 7, "entryId": 2})
    assert to_protobuf([first.at(batch_index=3)]) == [{"ledgerId": 7, "entryId": 1, "batch_index": 3}]


def test_two_ids_are_different_messages():
    first, second = ids(2)
    assert same(first, HEARD)
    assert not same(second, HEARD)


def test_other_fields_of_an_id_are_compared():
    (one,) = ids(1)
    assert not same(one, {**HEARD, "partition": 2})
    assert same(one.at(partition=2), {**HEARD, "partition": 2})


def test_an_unassigned_id_cannot_be_sent():
    (one,) = ids(1)
    with pytest.raises(AssertionError, match="not been received"):
        to_protobuf({"message_id": one})


def test_earliest_has_signed_numbers():
    data = pb.MessageIdData(**to_protobuf(place(-1, -1)))
    assert plain(data) == {"ledgerId": -1, "entryId": -1}


def test_enum_values_are_names():
    body = pb.CommandSubscribe(topic="t", subscription="s", subType="Shared", consumer_id=0, request_id=1)
    assert plain(body)["subType"] == "Shared"


def test_an_entry_must_equal_the_sent_one():
    sent = entry(b"hello", producer_name="p", sequence_id=0, publish_time=1)
    check_entry(message(sent), sent)
    others = [
        entry(b"hellO", producer_name="p", sequence_id=0, publish_time=1),
        entry(b"hello", producer_name="p", sequence_id=1, publish_time=1),
        entry(b"hello", checksum=False, producer_name="p", sequence_id=0, publish_time=1),
        sent[:5] + bytes([sent[5] ^ 1]) + sent[6:],
    ]
    for other in others:
        with pytest.raises(AssertionError, match="expected the entry"):
            check_entry(message(other), sent)
