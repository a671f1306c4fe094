"""The responses that refuse a request, each in the command that clients expect."""

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.faults import error_answer, error_code
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame

TOPIC = "persistent://public/default/orders"
NOBODY = 2**64 - 1


def refuse(body, entry=b""):
    answer = error_answer(Frame.of(push_frame(body, entry)), pb.ServiceNotReady, "later")
    return None if answer is None else Frame.of(answer).command


REQUESTS = [
    (
        pb.CommandSubscribe(
            topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=7
        ),
        pb.BaseCommand(
            type=pb.BaseCommand.ERROR, error=pb.CommandError(request_id=7, error=pb.ServiceNotReady, message="later")
        ),
    ),
    (
        pb.CommandLookupTopic(topic=TOPIC, request_id=8),
        pb.BaseCommand(
            type=pb.BaseCommand.LOOKUP_RESPONSE,
            lookupTopicResponse=pb.CommandLookupTopicResponse(
                request_id=8,
                response=pb.CommandLookupTopicResponse.Failed,
                error=pb.ServiceNotReady,
                message="later",
            ),
        ),
    ),
    (
        pb.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=9),
        pb.BaseCommand(
            type=pb.BaseCommand.PARTITIONED_METADATA_RESPONSE,
            partitionMetadataResponse=pb.CommandPartitionedTopicMetadataResponse(
                request_id=9,
                response=pb.CommandPartitionedTopicMetadataResponse.Failed,
                error=pb.ServiceNotReady,
                message="later",
            ),
        ),
    ),
    (
        pb.CommandSend(producer_id=2, sequence_id=5, highest_sequence_id=5),
        pb.BaseCommand(
            type=pb.BaseCommand.SEND_ERROR,
            send_error=pb.CommandSendError(producer_id=2, sequence_id=5, error=pb.ServiceNotReady, message="later"),
        ),
    ),
    (
        pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=4),
        pb.BaseCommand(
            type=pb.BaseCommand.ACK_RESPONSE,
            ackResponse=pb.CommandAckResponse(consumer_id=1, request_id=4, error=pb.ServiceNotReady, message="later"),
        ),
    ),
    (
        pb.CommandConsumerStats(request_id=3, consumer_id=1),
        pb.BaseCommand(
            type=pb.BaseCommand.CONSUMER_STATS_RESPONSE,
            consumerStatsResponse=pb.CommandConsumerStatsResponse(
                request_id=3, error_code=pb.ServiceNotReady, error_message="later"
            ),
        ),
    ),
    (
        pb.CommandConnect(client_version="c"),
        pb.BaseCommand(
            type=pb.BaseCommand.ERROR,
            error=pb.CommandError(request_id=NOBODY, error=pb.ServiceNotReady, message="later"),
        ),
    ),
]


@pytest.mark.parametrize(("request_", "answer"), REQUESTS, ids=lambda one: one.DESCRIPTOR.name)
def test_each_request_has_an_error_response(request_, answer):
    assert refuse(request_) == answer


@pytest.mark.parametrize(
    "body",
    [
        pb.CommandFlow(consumer_id=1, messagePermits=1),
        pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual),
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1),
        pb.CommandPing(),
        pb.CommandConnected(server_version="broker"),
    ],
    ids=lambda one: one.DESCRIPTOR.name,
)
def test_requests_without_a_response_get_none(body):
    assert refuse(body) is None


def test_unknown_commands_get_none():
    assert error_answer(Frame.of(bytes.fromhex("00000007 00000003 08f10f".replace(" ", ""))), 0, "") is None


def test_errors_have_the_names_of_the_protocol():
    assert error_code("TopicNotFound") == pb.TopicNotFound
    with pytest.raises(LocalError, match=r"near: .*TopicNotFound"):
        error_code("TopicNotFond")
