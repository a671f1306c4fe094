"""A classic client that requests the partitions of a topic, beside clients of a scalable topic with the same name."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb

CLASSIC = "persistent://public/default/orders"


def request(topic, name=CLASSIC, *, stream=5, **response):
    number = next(topic.requests)
    topic.client(pb.CommandPartitionedTopicMetadata(topic=name, request_id=number), stream)
    topic.broker(pb.CommandPartitionedTopicMetadataResponse(request_id=number, **response), stream)


NOT_FOUND = {"response": pb.CommandPartitionedTopicMetadataResponse.Failed, "error": pb.TopicNotFound}


def test_the_name_of_a_scalable_topic(topic):
    topic.layout()
    request(topic, **NOT_FOUND)
    request(topic, **NOT_FOUND)
    found = topic.found()["scalable-name-refused"]
    assert (found.severity, found.certainty, found.culprit, found.cause_certainty) == (
        "error", "certain", "application", "certain",
    )  # fmt: skip
    assert "connection 5 requested the partitions of scalable topic orders as a classic topic 2 times" in found.what
    [incident] = [one for one in topic.diagnosis.incidents() if one.root.rule == "scalable-name-refused"]
    assert [one.rule for one in incident.effects] == ["request-refused"]


@pytest.mark.parametrize(("created_ms", "certainty"), [(1, "likely"), (60_000, None)])
def test_a_layout_that_the_capture_contains_later(topic, created_ms, certainty):
    request(topic, **NOT_FOUND)
    for segment in topic.segments.values():
        segment.created_at_ms = created_ms
    topic.layout()
    found = topic.found().get("scalable-name-refused")
    assert (found and found.cause_certainty) == certainty


@pytest.mark.parametrize(
    ("name", "response"),
    [
        (CLASSIC, {"response": pb.CommandPartitionedTopicMetadataResponse.Success, "partitions": 0}),
        (CLASSIC + "2", NOT_FOUND),
        (CLASSIC, {**NOT_FOUND, "error": pb.ServiceNotReady}),
    ],
    ids=["accepted", "another name", "another error"],
)
def test_other_requests(topic, name, response):
    topic.layout()
    request(topic, name, **response)
    assert "scalable-name-refused" not in topic.found()


@pytest.mark.parametrize(("stream", "severity", "culprit"), [(5, "error", "application"), (0, "note", "broker")])
def test_a_producer_of_a_topic_that_is_migrated(topic, stream, severity, culprit):
    """The client of connection 0 has the layout; a classic client has not."""
    topic.segments = {0: pb.SegmentInfoProto(
        segment_id=0, hash_start=0, hash_end=65535, state=pb.ACTIVE, created_at_epoch=0, created_at_ms=1,
        legacy_topic_name=CLASSIC,
    )}  # fmt: skip
    topic.layout()
    topic.client(pb.CommandProducer(topic=CLASSIC, producer_id=1, request_id=90), stream)
    topic.broker(pb.CommandProducerSuccess(request_id=90, producer_name="p", last_sequence_id=-1), stream)
    topic.replace([0], (0, 65535))
    topic.layout()
    topic.broker(pb.CommandCloseProducer(producer_id=1, request_id=2**64 - 1), stream)
    topic.client(pb.CommandProducer(topic=CLASSIC, producer_id=1, request_id=91, producer_name="p", epoch=1), stream)
    topic.broker(pb.CommandError(request_id=91, error=pb.TopicTerminatedError, message="Topic is terminated"), stream)
    found = topic.found()["producer-refused"]
    assert (found.severity, found.culprit) == (severity, culprit)
