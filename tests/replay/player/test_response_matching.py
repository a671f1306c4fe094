"""Matching of live responses to captured ones."""

import pytest

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame, pull_type
from pcli.codec.wire.message_id import MessageId
from pcli.replay.player.response_matching import ResponseMatcher
from pcli.replay.player.script.script import Step

ONE = Consumer(1, "t", "s", "one", "Shared")
TWO = Consumer(2, "t", "s", "two", "Shared")
ALONE = Consumer(3, "t", "x", "alone", "Exclusive")


def frame(body, entry=b""):
    data = push_frame(body, entry)
    return Frame(data, pull_type(data, 8, 8 + int.from_bytes(data[4:8], "big")))


def message(consumer, payload, redelivered=0, position=(5, 0)):
    body = pb.CommandMessage(consumer_id=consumer.id, message_id=MessageId(*position).proto())
    if redelivered:
        body.redelivery_count = redelivered
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    return frame(body, push_entry(metadata, payload))


@pytest.fixture
def steps():
    def make(*last_sent):
        return [
            Step(index, 0, index, False, captured, peer)
            for index, (captured, peer) in enumerate(last_sent)  # type: ignore[arg-type]
        ]

    return make


def take(matcher, live, consumer=None):
    return matcher.take(0, live, live.data[live.parts.checked_start :], consumer, 0).step


def test_responses_are_matched_by_request_id(steps):
    first, second = steps(
        (frame(pb.CommandSuccess(request_id=1)), None), (frame(pb.CommandSuccess(request_id=2)), None)
    )
    matcher = ResponseMatcher([first, second])
    assert take(matcher, frame(pb.CommandError(request_id=2, error=pb.UnknownError, message=""))) is second
    assert take(matcher, frame(pb.CommandSuccess(request_id=2))) is None
    assert matcher.missing() == [first]


def test_receipts_with_one_sequence_id_are_matched_in_order(steps):
    receipt = frame(pb.CommandSendReceipt(producer_id=1, sequence_id=4))
    first, second = steps((receipt, None), (receipt, None))
    matcher = ResponseMatcher([first, second])
    assert [take(matcher, receipt), take(matcher, receipt), take(matcher, receipt)] == [first, second, None]


def test_a_delivery_to_an_exclusive_consumer_is_matched_by_consumer(steps):
    first, second = steps((message(ALONE, b"a"), ALONE), (message(ALONE, b"b"), ALONE))
    matcher = ResponseMatcher([first, second])
    assert take(matcher, message(ALONE, b"b"), ALONE) is second
    assert take(matcher, message(ONE, b"a"), ONE) is None


def test_a_delivery_to_any_consumer_of_a_shared_subscription_matches(steps):
    first, second = steps((message(ONE, b"a"), ONE), (message(TWO, b"b"), TWO))
    matcher = ResponseMatcher([first, second])
    assert take(matcher, message(TWO, b"a"), TWO) is first
    assert take(matcher, message(ONE, b"b"), ONE) is second


def test_deliveries_of_one_entry_are_matched_by_redelivery_count(steps):
    first, second = steps((message(ONE, b"a"), ONE), (message(ONE, b"a", 1), ONE))
    matcher = ResponseMatcher([first, second])
    assert take(matcher, message(ONE, b"a", 1), ONE) is second
    assert take(matcher, message(ONE, b"a"), ONE) is first


def test_awaited_responses(steps):
    first, second, third = steps(*((frame(pb.CommandSuccess(request_id=number)), None) for number in range(3)))
    matcher = ResponseMatcher([first, second, third])
    assert matcher.missing_before(0) is None
    assert matcher.missing_before(2) is first
    take(matcher, frame(pb.CommandSuccess(request_id=0)))
    assert matcher.missing_before(2) is second
    matcher.stop_waiting(2)
    assert matcher.missing_before(3) is third
    assert take(matcher, frame(pb.CommandSuccess(request_id=1))) is second


def test_pings_are_not_awaited(steps):
    assert ResponseMatcher(steps((frame(pb.CommandPing()), None))).missing_before(9) is None


def test_the_end_of_a_connection():
    end = Step(0, 4, 0, False, None)
    matcher = ResponseMatcher([end])
    assert matcher.end(4, 0).step is end
    assert matcher.end(4, 0).step is None
