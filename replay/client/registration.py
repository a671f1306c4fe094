"""PRODUCER, and what becomes of a producer that the broker refuses.

Rules of this file (Commands.newProducer, ProducerImpl.connectionOpened; 4.2.4)
1. The first PRODUCER names the producer only if the application did; later ones name what the broker gave, still as not
   provided by the user. ``topic_epoch`` is what the last PRODUCER_SUCCESS said, also for shared producers.
2. A schema of plain bytes (type None) is not sent.
3. A topic that is terminated, or another producer that fenced this one, is the end, whenever it is heard of. A topic
   that does not exist closes the producer.
4. Other refusals: a producer that was ready once tries for ever; a new one while a second try may help and the
   operation time-out, counted from the first PRODUCER, has not passed.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb

if TYPE_CHECKING:
    from pcli.replay.client.producer_settings import ProducerSettings
    from pcli.replay.client.refusal import Refusal

__all__ = ["Verdict", "producer_command", "verdict_on"]


class Verdict(Enum):
    """What a refusal means for the producer."""

    TERMINATED = "the topic takes nothing any more"
    FENCED = "another producer has taken its place"
    GONE = "there is no such topic"
    FAILED = "it never came to be"
    AGAIN = "try again"


_FINAL: Final = {
    "TopicTerminatedError": Verdict.TERMINATED,
    "ProducerFenced": Verdict.FENCED,
    "TopicNotFound": Verdict.GONE,
    "NotFound": Verdict.GONE,
}


def verdict_on(refusal: Refusal, *, created: bool, in_time: bool) -> Verdict:
    """``created``: it was ready once; ``in_time``: the operation time-out has not passed."""
    if refusal.error in _FINAL:
        return _FINAL[refusal.error]
    return Verdict.AGAIN if created or (refusal.retriable and in_time) else Verdict.FAILED


def producer_command(
    number: int, topic: str, name: str, settings: ProducerSettings, *, epoch: int, topic_epoch: int | None
) -> pb.CommandProducer:
    """The command. ``name``: empty while the broker has given none."""
    body = pb.CommandProducer(
        topic=topic,
        producer_id=number,
        producer_name=name or None,
        encrypted=bool(settings.encryptionKeys),
        metadata=[pb.KeyValue(key=key, value=value) for key, value in sorted(settings.properties.items())],
        epoch=epoch,
        user_provided_producer_name=bool(settings.producerName),
        producer_access_mode=pb.ProducerAccessMode.Value(settings.accessMode),
        topic_epoch=topic_epoch,
        txn_enabled=False,
        initial_subscription_name=settings.initialSubscriptionName or None,
    )
    schema = settings.schema
    if schema is not None and schema.type != pb.Schema.Type.Value("None"):
        body.schema.CopyFrom(schema)
    return body
