"""Requests of one connection, and what becomes of them."""

from __future__ import annotations

from typing import Any

from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import ClientFailure

TOPIC = "persistent://public/default/t"


def test_an_answer_finds_its_request(end: Any) -> None:
    answers: list[Any] = []
    first = end.connections[0].request(pb.CommandGetLastMessageId(consumer_id=1), answers.append)
    second = end.connections[0].request(pb.CommandGetLastMessageId(consumer_id=2), answers.append)
    end.say(pb.CommandError(request_id=second.request_id, error=pb.MetadataError, message="no"))
    last = pb.MessageIdData(ledgerId=1, entryId=2)
    end.say(pb.CommandGetLastMessageIdResponse(request_id=first.request_id, last_message_id=last))
    assert answers[0] == ClientFailure("MetadataError", "no")
    assert answers[1].body.last_message_id == last


def test_a_request_times_out_and_its_late_answer_is_dropped(end: Any) -> None:
    answers: list[Any] = []
    asked = end.connections[0].request(pb.CommandUnsubscribe(consumer_id=1), answers.append)
    end.run(5_000)
    assert answers == [ClientFailure("TimeOut", "no answer to Unsubscribe within 5000 ms by a:1")]
    end.say(pb.CommandSuccess(request_id=asked.request_id))
    assert len(answers) == 1


def test_a_producer_that_has_to_wait_waits_without_end(end: Any) -> None:
    answers: list[Any] = []
    asked = end.connections[0].request(pb.CommandProducer(topic=TOPIC, producer_id=0), answers.append)
    not_yet = pb.CommandProducerSuccess(request_id=asked.request_id, producer_name="p", producer_ready=False)
    end.say(not_yet)
    end.run(20_000)
    assert answers == []
    not_yet.producer_ready = True
    end.say(not_yet)
    [answer] = answers
    assert answer.body.producer_name == "p"


def test_a_broker_that_is_not_ready_for_lookups_is_left(end: Any) -> None:
    answers: list[Any] = []
    asked = end.connections[0].request(pb.CommandLookupTopic(topic=TOPIC), answers.append)
    failed = pb.CommandLookupTopicResponse.Failed
    end.say(
        pb.CommandLookupTopicResponse(
            request_id=asked.request_id, response=failed, error=pb.ServiceNotReady, message="not yet"
        )
    )
    assert answers == [ClientFailure("ServiceNotReady", "not yet")]
    assert end.shut == end.connections


def test_too_many_refused_lookups_end_the_connection(end: Any) -> None:
    failed = pb.CommandLookupTopicResponse.Failed
    for _ in range(51):
        assert end.shut == []
        asked = end.connections[0].request(pb.CommandLookupTopic(topic=TOPIC), lambda answer: None)
        busy = pb.CommandLookupTopicResponse(
            request_id=asked.request_id, response=failed, error=pb.TooManyRequests, message="later"
        )
        end.say(busy)
    assert end.shut == end.connections


def test_refusals_are_forgotten_after_a_minute(end: Any) -> None:
    for _ in range(3):
        for _ in range(40):
            end.connections[0].request(pb.CommandLookupTopic(topic=TOPIC), lambda answer: None)
        end.run(5_000)
        for _ in range(3):
            end.run(25_000)
            end.say(pb.CommandPong())
    assert end.shut == []
