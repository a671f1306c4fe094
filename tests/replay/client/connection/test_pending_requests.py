"""Pending requests of one connection and their results."""

from __future__ import annotations

from typing import Any

from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import ClientFailure

TOPIC = "persistent://public/default/t"


def test_a_response_completes_its_request(ready_broker: Any) -> None:
    responses: list[Any] = []
    first = ready_broker.connections[0].request(pb.CommandGetLastMessageId(consumer_id=1), responses.append)
    second = ready_broker.connections[0].request(pb.CommandGetLastMessageId(consumer_id=2), responses.append)
    ready_broker.broker_sends(pb.CommandError(request_id=second.request_id, error=pb.MetadataError, message="no"))
    last = pb.MessageIdData(ledgerId=1, entryId=2)
    ready_broker.broker_sends(pb.CommandGetLastMessageIdResponse(request_id=first.request_id, last_message_id=last))
    assert responses[0] == ClientFailure("MetadataError", "no")
    assert responses[1].body.last_message_id == last


def test_a_request_times_out_and_its_late_response_is_dropped(ready_broker: Any) -> None:
    responses: list[Any] = []
    requested = ready_broker.connections[0].request(pb.CommandUnsubscribe(consumer_id=1), responses.append)
    ready_broker.run(5_000)
    assert responses == [ClientFailure("TimeOut", "no response to Unsubscribe from a:1 within 5000 ms")]
    ready_broker.broker_sends(pb.CommandSuccess(request_id=requested.request_id))
    assert len(responses) == 1


def test_a_waiting_producer_has_no_time_out(ready_broker: Any) -> None:
    responses: list[Any] = []
    requested = ready_broker.connections[0].request(pb.CommandProducer(topic=TOPIC, producer_id=0), responses.append)
    not_yet = pb.CommandProducerSuccess(request_id=requested.request_id, producer_name="p", producer_ready=False)
    ready_broker.broker_sends(not_yet)
    ready_broker.run(20_000)
    assert responses == []
    not_yet.producer_ready = True
    ready_broker.broker_sends(not_yet)
    [response] = responses
    assert response.body.producer_name == "p"


def test_service_not_ready_ends_the_connection(ready_broker: Any) -> None:
    responses: list[Any] = []
    requested = ready_broker.connections[0].request(pb.CommandLookupTopic(topic=TOPIC), responses.append)
    failed = pb.CommandLookupTopicResponse.Failed
    ready_broker.broker_sends(
        pb.CommandLookupTopicResponse(
            request_id=requested.request_id, response=failed, error=pb.ServiceNotReady, message="not yet"
        )
    )
    assert responses == [ClientFailure("ServiceNotReady", "not yet")]
    assert ready_broker.shut == ready_broker.connections


def test_too_many_refused_lookups_end_the_connection(ready_broker: Any) -> None:
    failed = pb.CommandLookupTopicResponse.Failed
    for _ in range(51):
        assert ready_broker.shut == []
        requested = ready_broker.connections[0].request(pb.CommandLookupTopic(topic=TOPIC), lambda response: None)
        busy = pb.CommandLookupTopicResponse(
            request_id=requested.request_id, response=failed, error=pb.TooManyRequests, message="later"
        )
        ready_broker.broker_sends(busy)
    assert ready_broker.shut == ready_broker.connections


def test_rejected_lookups_expire_after_a_minute(ready_broker: Any) -> None:
    for _ in range(3):
        for _ in range(40):
            ready_broker.connections[0].request(pb.CommandLookupTopic(topic=TOPIC), lambda response: None)
        ready_broker.run(5_000)
        for _ in range(3):
            ready_broker.run(25_000)
            ready_broker.broker_sends(pb.CommandPong())
    assert ready_broker.shut == []
