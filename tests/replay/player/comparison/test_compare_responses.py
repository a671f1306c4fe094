"""Comparison of responses: which fields differ, and which values are equal."""

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame, pull_type
from pcli.codec.wire.message_id import MessageId
from pcli.replay.player.comparison.compare_responses import compare
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.response_matching import ResponseMatcher
from pcli.replay.player.script.script import Step


def frame(body):
    data = push_frame(body)
    return Frame(data, pull_type(data, 8, 8 + int.from_bytes(data[4:8], "big")))


@pytest.fixture
def differing():
    """Return the fields in which a live response differs from the captured one."""

    def run(captured, live, ids=None):
        matcher = ResponseMatcher([Step(0, 0, 0.0, False, frame(captured))])  # type: ignore[arg-type]
        matcher.take(0, frame(live), b"", None, 0)
        return [one.field for outcome in compare(matcher, ids or Ids()) for one in outcome.differences]

    return run


def test_equal(differing):
    assert differing(pb.CommandSuccess(request_id=1), pb.CommandSuccess(request_id=1)) == []


def test_an_unset_field_differs_from_zero(differing):
    captured = pb.CommandPartitionedTopicMetadataResponse(request_id=1, partitions=0)
    live = pb.CommandPartitionedTopicMetadataResponse(request_id=1)
    assert differing(captured, live) == ["partitions"]
    assert differing(live, captured) == ["partitions"]


@pytest.mark.parametrize(("named", "fields"), [(None, []), (9, ["highest_sequence_id"]), (2, [])])
def test_an_undefined_highest_sequence_id_is_ignored(named, fields):
    """A receipt contains 0 or -1 for it, unless the SEND contains one that is not below the first id."""
    send = pb.CommandSend(producer_id=1, sequence_id=5)
    if named is not None:
        send.highest_sequence_id = named
    receipts = [
        pb.CommandSendReceipt(producer_id=1, sequence_id=5, highest_sequence_id=last) for last in (0, 2**64 - 1)
    ]
    matcher = ResponseMatcher([Step(0, 0, 0.0, True, frame(send)), Step(1, 0, 0.0, False, frame(receipts[0]))])
    matcher.take(0, frame(receipts[1]), b"", None, 0)
    assert [one.field for outcome in compare(matcher, Ids()) for one in outcome.differences] == fields


def test_another_type(differing):
    refused = pb.CommandError(request_id=1, error=pb.UnknownError, message="no")
    assert differing(pb.CommandSuccess(request_id=1), refused) == ["type"]


def test_within_messages(differing):
    captured, live = pb.CommandConnected(server_version="x"), pb.CommandConnected(server_version="x")
    live.feature_flags.supports_topic_watchers = True
    captured.feature_flags.supports_topic_watchers = False
    assert differing(captured, live) == ["feature_flags.supports_topic_watchers"]


def test_ids(differing):
    ids = Ids()
    ids.positions[7, 3], ids.live_positions[1, 0] = (1, 0), (7, 3)
    captured = pb.CommandSendReceipt(producer_id=1, sequence_id=0, message_id=MessageId(7, 3).proto())
    live = pb.CommandSendReceipt(producer_id=1, sequence_id=0, message_id=MessageId(1, 0).proto())
    assert differing(captured, live, ids) == []
    live.message_id.entryId = 1
    assert differing(captured, live, ids) == ["message_id"]


def test_missing_and_extra_responses(differing):
    assert differing(pb.CommandSuccess(request_id=1), pb.CommandSuccess(request_id=2)) == ["missing", "extra"]


def test_transactions(differing):
    captured = pb.CommandEndTxnResponse(request_id=1, txnid_most_bits=0, txnid_least_bits=4)
    live = pb.CommandEndTxnResponse(request_id=1, txnid_most_bits=2, txnid_least_bits=9)
    assert differing(captured, live) == ["txnid_least_bits"]
    assert differing(captured, live, Ids(transactions={(0, 4): (2, 9)})) == []
