"""PRODUCER as the Java client writes it, and the handling of refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.producer_registration import FailureKind, classify_failure, producer_command
from pcli.replay.client.settings import ProducerSettings

PRODUCER = 5


def test_the_bytes_equal_captures_of_the_java_client(captures: Path) -> None:
    count = 0
    for name in ("access-modes", "batching", "encryption", "message-shapes", "refusals", "schemas", "unload", "dedup"):
        path = captures / "java" / f"{name}.pcap"
        with path.open("rb") as file:
            bodies = [
                item.command.producer
                for item in read_capture([(path.name, file)])
                if isinstance(item, CapturedFrame) and item.type == PRODUCER
            ]
        for body in bodies:
            settings = ProducerSettings(
                producerName=body.producer_name if body.user_provided_producer_name else "",
                accessMode=pb.ProducerAccessMode.Name(body.producer_access_mode),  # type: ignore[arg-type]
                initialSubscriptionName=body.initial_subscription_name,
                properties={pair.key: pair.value for pair in body.metadata},
                encryptionKeys={"k": b""} if body.encrypted else {},
                schema=body.schema if body.HasField("schema") else None,
            )
            epoch = body.topic_epoch if body.HasField("topic_epoch") else None
            name = body.producer_name
            again = producer_command(body.producer_id, body.topic, name, settings, epoch=body.epoch, topic_epoch=epoch)
            again.request_id = body.request_id
            again.txn_enabled = body.txn_enabled
            assert again == body
            count += 1
    assert count > 15


def test_a_bytes_schema_is_not_sent() -> None:
    settings = ProducerSettings(schema=pb.Schema(name="", schema_data=b"", type=pb.Schema.Type.Value("None")))
    assert not producer_command(0, "t", "", settings, epoch=0, topic_epoch=None).HasField("schema")


@pytest.mark.parametrize(
    ("error", "created", "in_time", "verdict"),
    [
        ("TopicTerminatedError", True, True, FailureKind.TERMINATED),
        ("ProducerFenced", True, True, FailureKind.FENCED),
        ("TopicNotFound", True, True, FailureKind.GONE),
        ("ServiceNotReady", False, True, FailureKind.AGAIN),
        ("ServiceNotReady", False, False, FailureKind.FAILED),
        ("ServiceNotReady", True, False, FailureKind.AGAIN),
        ("ProducerBusy", False, True, FailureKind.FAILED),
        ("ProducerBusy", True, False, FailureKind.AGAIN),
        ("IncompatibleSchema", False, True, FailureKind.FAILED),
        ("TimeOut", False, True, FailureKind.AGAIN),
    ],
)
def test_failures_are_classified(error: str, created: bool, in_time: bool, verdict: FailureKind) -> None:
    assert classify_failure(ClientFailure(error, ""), created=created, in_time=in_time) is verdict
