"""ClientFailures: which ones are retried, and the error that each causes."""

from __future__ import annotations

import pytest

from pcli.codec.errors import LocalError, RemoteError
from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import ClientFailure, failure_in_response


@pytest.mark.parametrize("error", ["ServiceNotReady", "MetadataError", "TooManyRequests", "TimeOut", "Disconnected"])
def test_retriable_errors(error: str) -> None:
    assert ClientFailure(error, "").retriable


@pytest.mark.parametrize("error", ["TopicNotFound", "ConsumerBusy", "NotAllowedError", "IncompatibleSchema"])
def test_final_errors(error: str) -> None:
    assert not ClientFailure(error, "").retriable


def test_responses_with_error_fields() -> None:
    error = pb.CommandError(request_id=1, error=pb.TopicNotFound, message="gone")
    schema = pb.CommandGetSchemaResponse(request_id=1, error_code=pb.TopicNotFound, error_message="gone")
    lookup = pb.CommandLookupTopicResponse(
        request_id=1, response=pb.CommandLookupTopicResponse.Failed, error=pb.TopicNotFound, message="gone"
    )
    assert {failure_in_response(body) for body in (error, schema, lookup)} == {ClientFailure("TopicNotFound", "gone")}


def test_successful_responses_are_no_failures() -> None:
    assert failure_in_response(pb.CommandSuccess(request_id=1)) is None
    assert failure_in_response(pb.CommandGetSchemaResponse(request_id=1)) is None
    connect = pb.CommandLookupTopicResponse.Connect
    assert failure_in_response(pb.CommandLookupTopicResponse(request_id=1, response=connect)) is None


def test_a_failed_lookup_without_an_error() -> None:
    for body in (
        pb.CommandLookupTopicResponse(request_id=1, response=pb.CommandLookupTopicResponse.Failed),
        pb.CommandPartitionedTopicMetadataResponse(
            request_id=1, response=pb.CommandPartitionedTopicMetadataResponse.Failed
        ),
    ):
        failure = failure_in_response(body)
        assert failure is not None
        assert failure.error == "UnknownError"


def test_failures_convert_to_exceptions() -> None:
    asked_wrongly = ClientFailure("NotAllowed", "no").to_error()
    assert isinstance(asked_wrongly, LocalError)
    by_the_broker = ClientFailure("TopicNotFound", "gone").to_error()
    assert isinstance(by_the_broker, RemoteError)
    assert str(by_the_broker) == "TopicNotFound: gone"
    assert str(ClientFailure("Connect", "a:1: connection refused").to_error()) == "a:1: connection refused"
