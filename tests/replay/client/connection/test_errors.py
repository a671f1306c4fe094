"""Refusals: what may be tried again, and what leaves as which error."""

from __future__ import annotations

import pytest

from pcli.codec.errors import LocalError, RemoteError
from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import Refusal, refusal_of


@pytest.mark.parametrize("error", ["ServiceNotReady", "MetadataError", "TooManyRequests", "TimeOut", "Disconnected"])
def test_what_may_be_tried_again(error: str) -> None:
    assert Refusal(error, "").retriable


@pytest.mark.parametrize("error", ["TopicNotFound", "ConsumerBusy", "NotAllowedError", "IncompatibleSchema"])
def test_what_no_second_try_helps_with(error: str) -> None:
    assert not Refusal(error, "").retriable


def test_answers_with_errors_of_their_own() -> None:
    error = pb.CommandError(request_id=1, error=pb.TopicNotFound, message="gone")
    schema = pb.CommandGetSchemaResponse(request_id=1, error_code=pb.TopicNotFound, error_message="gone")
    lookup = pb.CommandLookupTopicResponse(
        request_id=1, response=pb.CommandLookupTopicResponse.Failed, error=pb.TopicNotFound, message="gone"
    )
    assert {refusal_of(body) for body in (error, schema, lookup)} == {Refusal("TopicNotFound", "gone")}


def test_good_answers_are_no_refusal() -> None:
    assert refusal_of(pb.CommandSuccess(request_id=1)) is None
    assert refusal_of(pb.CommandGetSchemaResponse(request_id=1)) is None
    connect = pb.CommandLookupTopicResponse.Connect
    assert refusal_of(pb.CommandLookupTopicResponse(request_id=1, response=connect)) is None


def test_a_failed_lookup_that_says_no_more() -> None:
    for body in (
        pb.CommandLookupTopicResponse(request_id=1, response=pb.CommandLookupTopicResponse.Failed),
        pb.CommandPartitionedTopicMetadataResponse(
            request_id=1, response=pb.CommandPartitionedTopicMetadataResponse.Failed
        ),
    ):
        refusal = refusal_of(body)
        assert refusal is not None
        assert refusal.error == "UnknownError"


def test_as_errors() -> None:
    asked_wrongly = Refusal("NotAllowed", "no").to_error()
    assert isinstance(asked_wrongly, LocalError)
    by_the_broker = Refusal("TopicNotFound", "gone").to_error()
    assert isinstance(by_the_broker, RemoteError)
    assert str(by_the_broker) == "TopicNotFound: gone"
    assert str(Refusal("Connect", "a:1: connection refused").to_error()) == "a:1: connection refused"
