"""The response that contains the error of each request: table 1.6 of the design, row by row."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import command_of, push_frame
from pcli.codec.wire.commands import COMMANDS
from pcli.minibroker.error_responses import refusal
from pcli.minibroker.errors import Refused

NO = Refused(pb.NotAllowedError, "no")
INDIVIDUAL = pb.CommandAck.Individual


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (pb.CommandPartitionedTopicMetadata(topic="t", request_id=7), pb.CommandPartitionedTopicMetadataResponse),
        (pb.CommandLookupTopic(topic="t", request_id=7), pb.CommandLookupTopicResponse),
        (pb.CommandAck(consumer_id=1, ack_type=INDIVIDUAL, request_id=7), pb.CommandAckResponse),
        (pb.CommandConsumerStats(consumer_id=1, request_id=7), pb.CommandConsumerStatsResponse),
        (pb.CommandGetSchema(topic="t", request_id=7), pb.CommandGetSchemaResponse),
        (pb.CommandGetOrCreateSchema(topic="t", request_id=7), pb.CommandGetOrCreateSchemaResponse),
        (pb.CommandProducer(topic="t", producer_id=1, request_id=7), pb.CommandError),
        (pb.CommandUnsubscribe(consumer_id=1, request_id=7), pb.CommandError),
        (pb.CommandSeek(consumer_id=1, request_id=7), pb.CommandError),
        (pb.CommandGetLastMessageId(consumer_id=1, request_id=7), pb.CommandError),
        (pb.CommandGetTopicsOfNamespace(namespace="a/b", request_id=7), pb.CommandError),
        (pb.CommandNewTxn(request_id=7), pb.CommandError),
    ],
)
def test_response_types_of_errors(request_, answer):
    number = command_of(request_).type
    made = refusal(number, request_, NO)
    assert type(made) is answer
    assert push_frame(made)
    code = made.error_code if hasattr(made, "error_code") else made.error
    text = made.error_message if hasattr(made, "error_message") else made.message
    assert (made.request_id, code, text) == (7, pb.NotAllowedError, "no")
    assert command_of(made).type in {command_of(pb.CommandError()).type, *_answers(number)}


def _answers(number):
    return {row.number for row in COMMANDS.values() if row.name in COMMANDS[number].answers}


def test_a_failed_lookup_has_its_error():
    assert (
        refusal(23, pb.CommandLookupTopic(topic="t", request_id=7), NO).response == pb.CommandLookupTopicResponse.Failed
    )


@pytest.mark.parametrize(
    "request_",
    [
        pb.CommandAck(consumer_id=1, ack_type=INDIVIDUAL),
        pb.CommandFlow(consumer_id=1, messagePermits=1),
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1),
    ],
)
def test_no_answer(request_):
    assert refusal(command_of(request_).type, request_, NO) is None
