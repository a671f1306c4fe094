"""Counts of requests and responses: late, missing, duplicate, out of order."""

from __future__ import annotations

import pytest

from pcli.codec.observe.tracking.connections.exchanges import slow_bound
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.hot import push_ack, push_send, push_send_receipt

SECOND = 1_000_000_000


def send(number):
    return push_send(1, number, 1, 0, b"\x0a\x01p\x10\x00\x18\x00", b"payload")


def test_request_and_answer(wire, say):
    wire.hello()
    wire.client(say("LookupTopic"))
    wire.broker(say("LookupTopicResponse"))
    lookup = wire.exchange("LOOKUP")
    assert (lookup.asked, lookup.answered, lookup.slow.count, lookup.unanswered.count) == (1, 1, 0, 0)
    assert (lookup.slowest, lookup.slowest_ns) == ((3, 4), 1_000_000)
    assert wire.exchange("CONNECT").answered == 1


@pytest.mark.parametrize(("name", "seconds"), [("SEND", 1), ("SEEK", 1), ("SUBSCRIBE", 5), ("CONNECT", 5)])
def test_requests_that_load_a_topic_have_a_higher_limit(name, seconds):
    assert slow_bound(BY_NAME[name].number) == seconds * SECOND


def test_slow_and_not_slow(wire, say):
    wire.hello()
    for wait in (4.9, 5.1, 7):
        wire.client(say("LookupTopic"))
        wire.wait(wait)
        wire.broker(say("LookupTopicResponse"))
    lookup = wire.exchange("LOOKUP")
    assert (lookup.slow.count, lookup.slow.frames) == (2, [5, 6, 7, 8])
    assert (lookup.slowest, lookup.slow.sample) == ((7, 8), "7001")


def test_receipts_count_for_send(wire, say):
    wire.hello()
    wire.client(say("Producer"))
    wire.broker(say("ProducerSuccess"))
    for number in range(3):
        wire.client(send(number))
    wire.wait(1.5)
    for number in range(2):
        wire.broker(push_send_receipt(1, number, 7, number, 0))
    sends = wire.exchange("SEND")
    assert (sends.asked, sends.answered, sends.slow.count) == (3, 2, 2)
    assert (sends.unanswered.count, sends.unanswered.frames, sends.overtaken) == (1, [7], 0)
    wire.broker(push_send_receipt(1, 2, 7, 2, 0))
    assert wire.exchange("SEND").unanswered.count == 0


def test_the_first_response_answers_a_waiting_producer(wire, say):
    wire.hello()
    wire.client(say("Producer", producer_access_mode=2))
    wire.broker(say("ProducerSuccess", producer_ready=False))
    wire.wait(60)
    wire.broker(say("ProducerSuccess", producer_ready=True))
    producer = wire.exchange("PRODUCER")
    assert (producer.asked, producer.answered, producer.slow.count, producer.answered_twice.count) == (1, 1, 0, 0)


def test_unanswered_when_the_connection_ends(wire, say):
    wire.hello()
    wire.client(say("LookupTopic"))
    wire.wait(12)
    wire.client(say("LookupTopic", request_id=2))
    wire.broker(say("LookupTopicResponse", request_id=2))
    wire.end()
    lookup = wire.exchange("LOOKUP")
    assert (lookup.unanswered.count, lookup.unanswered.frames, lookup.overtaken) == (1, [3], 1)
    assert lookup.waited_ns // SECOND == 12
    wire.wait(100)
    assert wire.exchange("LOOKUP").waited_ns // SECOND == 12


def test_duplicate_and_unrequested_responses(wire, say):
    wire.hello()
    wire.client(say("LookupTopic"))
    wire.broker(say("LookupTopicResponse"))
    wire.broker(say("LookupTopicResponse"))
    wire.broker(say("Success", request_id=77))
    assert wire.exchange("LOOKUP").answered_twice.frames == [5]
    assert wire.exchange("SUCCESS").unasked.frames == [6]


def test_a_reused_id_is_a_new_request(wire, say):
    wire.hello()
    for _ in range(2):
        wire.client(say("LookupTopic"))
        wire.broker(say("LookupTopicResponse"))
    lookup = wire.exchange("LOOKUP")
    assert (lookup.asked, lookup.answered, lookup.answered_twice.count) == (2, 2, 0)


def test_an_error_without_a_request_is_not_counted(wire, say):
    wire.hello()
    wire.broker(say("Error", request_id=2**64 - 1))
    assert [one.type for group, one in wire.connections.records() if group == "exchange"] == ["CONNECT"]


def test_reordered_packets(wire, say):
    wire.hello()
    wire.broker(say("Success"))
    wire.client(say("Subscribe"))
    subscribe = wire.exchange("SUBSCRIBE")
    assert (subscribe.asked, subscribe.unanswered.count) == (1, 0)
    assert wire.exchange("SUCCESS").unasked.count == 0
    wire.client(say("Producer", request_id=2))
    wire.broker(say("ProducerSuccess", request_id=2))
    wire.broker(push_send_receipt(1, 5, 7, 5, 0))
    wire.client(send(5))
    assert wire.exchange("SEND").unanswered.count == 0


def test_acks_with_and_without_request_ids(wire, say):
    wire.hello()
    wire.client(say("Subscribe"))
    wire.broker(say("Success"))
    wire.client(push_ack(1, 0, [(7, 1, -1, -1)]))
    wire.client(push_ack(1, 0, [(7, 2, -1, -1)], 9))
    ack = wire.exchange("ACK")
    assert (ack.asked, ack.unanswered.frames) == (1, [6])


def test_opening_requests_are_answered_first(wire, say):
    wire.hello()
    wire.client(say("Subscribe"))
    wire.client(say("CloseConsumer", request_id=2))
    wire.broker(say("Success", request_id=2))
    assert wire.connection().out_of_order.count == 0  # the response may never arrive: then it is missing
    wire.broker(say("Success"))
    assert wire.connection().out_of_order.frames == [3, 4, 5, 6]


def test_an_error_may_precede_the_response_to_the_opening_request(wire, say):
    """The client did not wait, and the broker refuses requests about a consumer that does not exist yet."""
    wire.hello()
    wire.client(say("Subscribe"))
    wire.client(say("GetLastMessageId", consumer_id=1, request_id=2))
    wire.broker(say("Error", request_id=2, error=pb.MetadataError, message="Consumer not found"))
    wire.broker(say("Success"))
    assert wire.connection().out_of_order.count == 0


def test_other_responses_may_be_reordered(wire, say):
    wire.hello()
    wire.client(say("Subscribe"))
    wire.broker(say("Success"))
    wire.client(say("Seek", consumer_id=1, request_id=2, message_publish_time=1))
    wire.client(say("CloseConsumer", request_id=3))
    wire.broker(say("Success", request_id=3))
    wire.client(say("Subscribe", consumer_id=2, request_id=4))
    wire.client(say("Subscribe", consumer_id=3, request_id=5))
    wire.broker(say("Success", request_id=5))
    assert wire.connection().out_of_order.count == 0


def test_a_close_by_the_broker_needs_no_response(wire, say):
    wire.hello()
    wire.client(say("Subscribe"))
    wire.broker(say("Success"))
    wire.broker(say("CloseConsumer", request_id=5))
    assert not any(one.type == "CLOSE_CONSUMER" for group, one in wire.connections.records() if group == "exchange")


def test_the_brokers_own_traffic_is_not_counted(wire, say):
    wire.hello()
    wire.client(say("Producer", topic="persistent://public/default/__change_events"))
    wire.broker(say("ProducerSuccess"))
    wire.client(send(0))
    assert not any(group == "exchange" for group, _ in wire.connections.records())
    assert wire.connection().system


def test_a_refused_lookup(wire, say):
    wire.hello()
    wire.client(say("LookupTopic"))
    wire.broker(say("LookupTopicResponse", response=2, error=11, message="no such namespace"))
    lookup = wire.exchange("LOOKUP")
    [(key, seen)] = lookup.refused.items()
    assert key == ("TopicNotFound", "persistent://public/default/t")
    assert (seen.count, seen.frames, seen.sample) == (1, [3, 4], "no such namespace")
    assert lookup.accepted_later == set()


@pytest.mark.parametrize(("topic", "accepted"), [("t", 1), ("other", 0)])
def test_a_later_request_about_the_topic_succeeds(wire, say, topic, accepted):
    """Any type of request counts, but only one about the same topic."""
    wire.hello()
    wire.client(say("LookupTopic"))
    wire.broker(say("LookupTopicResponse", response=2, error=6, message="loading"))
    wire.client(say("Producer", topic=topic, request_id=2))
    wire.broker(say("ProducerSuccess", request_id=2))
    assert len(wire.exchange("LOOKUP").accepted_later) == accepted


@pytest.mark.parametrize("creates", [False, True])
def test_a_topic_that_does_not_exist_is_a_regular_response_to_a_check(wire, say, creates):
    wire.hello()
    wire.client(say("PartitionedTopicMetadata", topic="t", request_id=1, metadata_auto_creation_enabled=creates))
    wire.broker(say("PartitionedTopicMetadataResponse", request_id=1, response=1, error=11))
    assert len(wire.exchange("PARTITIONED_METADATA").refused) == creates


def test_refused_producers_are_counted_elsewhere(wire, say):
    wire.hello()
    wire.client(say("Producer"))
    wire.broker(say("Error", error=4, message="busy"))
    assert wire.exchange("PRODUCER").refused == {}


def test_a_repeated_refusal_is_counted_beyond_the_maximum_number_of_topics(wire, say):
    wire.hello()
    topics = [f"t{number}" for number in range(70)]
    for request_id, topic in enumerate([*topics, topics[0]], start=2):
        wire.client(say("LookupTopic", topic=topic, request_id=request_id))
        wire.broker(say("LookupTopicResponse", response=2, error=6, request_id=request_id))
    refused = wire.exchange("LOOKUP").refused
    assert len(refused) == 64
    assert refused["ServiceNotReady", "persistent://public/default/t0"].count == 2


def test_the_side_that_responds_late(wire):
    """Both sides send PING."""
    wire.hello()
    for side, other, wait in ((wire.client, wire.broker, 6), (wire.broker, wire.client, 7)):
        side(pb.CommandPing())
        wire.wait(wait)
        other(pb.CommandPong())
        assert wire.exchange("PING").slowest_by_client == (side == wire.broker)
    assert wire.exchange("PING").slow.count == 2
