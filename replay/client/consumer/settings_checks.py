"""Checks of a consumer's settings before anything is sent.

Sources: ConsumerBuilderImpl, PulsarClientImpl.subscribeAsync, KeySharedPolicy.validate, MultiTopicsConsumerImpl
(4.2.4). The messages differ from Java's.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, Literal, get_args, get_origin, get_type_hints

from pcli.codec.errors import LocalError
from pcli.codec.wire.hashes import SLOTS
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.settings import ConsumerSettings

_LEAST_ACK_TIMEOUT: Final = 1000
_LEAST_TICK: Final = 100


def settings_fault(settings: ConsumerSettings) -> ClientFailure | None:
    """Return the first error in the settings, or None."""
    for wrong, text in _CHECKS:
        if wrong(settings):
            return ClientFailure("InvalidConfiguration", text)
    for name, words in _WORDS.items():
        if getattr(settings, name) not in words:
            return ClientFailure(
                "InvalidConfiguration", f"{name} is {getattr(settings, name)!r}, not {', '.join(words)}"
            )
    for topic in settings.topicNames:
        try:
            TopicName.parse(topic)
        except LocalError as fault:
            return ClientFailure("InvalidTopicName", fault.text)
    if settings.readCompacted and not _compacted_fits(settings):
        return ClientFailure(
            "InvalidConfiguration", "readCompacted requires Exclusive or Failover, and a persistent topic"
        )
    policy = settings.keySharedPolicy
    return None if policy is None or not policy.ranges else ranges_fault(policy.ranges)


def ranges_fault(ranges: tuple[tuple[int, int], ...]) -> ClientFailure | None:
    """Return an error if slot ranges are outside 0 to 65535, are reversed or overlap, or None if they are valid."""
    for start, end in ranges:
        if not 0 <= start <= end < SLOTS:
            return ClientFailure("InvalidConfiguration", f"the range {start}-{end} is not within 0-{SLOTS - 1}")
    for (start, end), (next_start, next_end) in pairwise(sorted(ranges)):
        if next_start <= end:
            return ClientFailure(
                "InvalidConfiguration", f"the ranges {start}-{end} and {next_start}-{next_end} overlap"
            )
    return None


def _compacted_fits(settings: ConsumerSettings) -> bool:
    persistent = all(TopicName.parse(topic).persistent for topic in settings.topicNames)
    return persistent and settings.subscriptionType in ("Exclusive", "Failover")


_WORDS: Final = {
    name: get_args(hint) for name, hint in get_type_hints(ConsumerSettings).items() if get_origin(hint) is Literal
}
"""Valid values of the settings that are enumerations."""

_Check = Callable[[ConsumerSettings], object]

_CHECKS: Final[tuple[tuple[_Check, str], ...]] = (
    (lambda s: not s.topicNames and not s.topicsPattern, "topicNames or topicsPattern is required"),
    (lambda s: s.topicNames and s.topicsPattern, "topicNames and topicsPattern cannot be combined"),
    (lambda s: isinstance(s.topicNames, str), "topicNames must be a tuple, even for one topic"),
    (lambda s: len(set(s.topicNames)) < len(s.topicNames), "a topic is listed twice"),
    (lambda s: not s.subscriptionName.strip(), "a subscription must have a name"),
    (
        lambda s: s.keySharedPolicy is not None and s.subscriptionType != "Key_Shared",
        "keySharedPolicy requires the subscription type Key_Shared",
    ),
    (lambda s: s.schema is not None and not s.schema.IsInitialized(), "a schema must have a name, a type and data"),
    (lambda s: s.receiverQueueSize < 0, "receiverQueueSize must be 0 or more"),
    (
        lambda s: s.receiverQueueSize == 0 and (len(s.topicNames) != 1 or s.topicsPattern or s.retryEnable),
        "a receiverQueueSize of 0 requires a single topic without partitions",
    ),
    (
        lambda s: s.maxTotalReceiverQueueSizeAcrossPartitions < 0,
        "maxTotalReceiverQueueSizeAcrossPartitions must be 0 or more",
    ),
    (
        lambda s: s.ackTimeoutMillis and s.ackTimeoutMillis < _LEAST_ACK_TIMEOUT,
        "ackTimeoutMillis must be 0, or 1000 or more",
    ),
    (lambda s: s.tickDurationMillis < _LEAST_TICK, "tickDurationMillis must be 100 or more"),
    (lambda s: s.acknowledgementsGroupTimeMicros < 0, "acknowledgementsGroupTimeMicros must be 0 or more"),
    (lambda s: s.negativeAckRedeliveryDelayMicros < 0, "negativeAckRedeliveryDelayMicros must be 0 or more"),
    (lambda s: s.negativeAckPrecisionBitCnt < 0, "negativeAckPrecisionBitCnt must be 0 or more"),
    (lambda s: s.priorityLevel < 0, "priorityLevel must be 0 or more"),
    (
        lambda s: s.deadLetterPolicy is not None and s.deadLetterPolicy.maxRedeliverCount <= 0,
        "maxRedeliverCount must be 1 or more",
    ),
    (lambda s: s.patternAutoDiscoveryPeriod < 0, "patternAutoDiscoveryPeriod must be 0 or more"),
    (
        lambda s: any(not key.strip() or not value.strip() for key, value in s.properties.items()),
        "keys and values of properties must not be blank",
    ),
)
