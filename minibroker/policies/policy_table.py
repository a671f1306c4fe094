"""The table of policies: their names in REST and in the policies of a namespace, and the settings that they override.

Rules of this file
1. Each policy has one row, found by either of its names. A policy without settings is stored and returned, but has no
   effect.
2. A value is converted to the form that a real broker returns, in which an object has all of its keys. An invalid value
   raises BadValueError with the HTTP status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.errors import LocalError

__all__ = ["BY_SETTING", "NAMESPACE", "POLICIES", "TOPIC", "BadValueError", "Policy"]


class BadValueError(LocalError):
    """An invalid value of a policy. ``status`` is the HTTP status."""

    def __init__(self, text: str, status: int = 412) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy."""

    name: str
    """The name in REST for namespaces; empty if the policy exists for topics only."""
    topic: str
    """The name in REST for topics; empty if the policy exists for namespaces only."""
    json: str
    """The key in the policies of a namespace."""
    read: Callable[[str, Any], Any]
    """A function that converts a request body to the value or raises BadValueError."""
    settings: tuple[tuple[str, str], ...] = ()
    """The overridden settings, each with the key inside the value; an empty key means the value itself."""
    verb: str = "POST"
    """The HTTP method that sets the policy of a namespace."""
    topic_verb: str = "POST"
    """The HTTP method that sets the policy of a topic."""
    in_query: bool = False
    """Whether a query parameter contains the value for a topic. If it is missing, the policy is removed."""
    unset: Any = None
    """The response for a namespace without the policy."""
    keep: bool = False
    """Whether the policy cannot be removed from a namespace."""
    listed: bool = False
    """Whether the policies of a namespace contain the policy even if it was never set."""
    either: bool = False
    """Whether True overrides False at any level: a topic cannot revoke what its namespace or the broker requires."""
    by_cluster: bool = False
    """Whether the policies of a namespace contain the policy under the cluster's name."""
    no_content: bool = False
    """Whether the response for a topic without the policy is 204 instead of an empty 200."""


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadValueError(f"{name} must be a number", 400)
    if value < 0:
        raise BadValueError(f"{name} must be 0 or more")
    return value


def _ttl(name: str, value: Any) -> int:
    if isinstance(value, int) and value < 0:
        raise BadValueError("Invalid value for message TTL")
    return _count(name, value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadValueError(f"{name} must be true or false", 400)
    return value


def _words(*allowed: str, several: bool = False) -> Callable[[str, Any], Any]:
    def read(name: str, value: Any) -> Any:
        if not isinstance(value, list if several else str):
            raise BadValueError(f"{name} must be a {'list of words' if several else 'word'}", 400)
        for word in value if several else [value]:
            if word not in allowed:
                raise BadValueError(f"{name}: {word!r} is not one of {', '.join(allowed)}", 400)
        return value

    return read


def _object(**keys: Any) -> Callable[[str, Any], dict[str, Any]]:
    """Return a reader of objects with these keys and defaults."""

    def read(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadValueError(f"{name} must be an object", 400)
        for key, given in value.items():
            wanted = keys.get(key)
            if wanted is not None and given is not None and not _alike(wanted, given):
                raise BadValueError(f"{name}.{key}: {given!r} is not of type {type(wanted).__name__}", 400)
        return {key: default if value.get(key) is None else value[key] for key, default in keys.items()}

    return read


def _alike(wanted: object, given: object) -> bool:
    if isinstance(wanted, float):
        return isinstance(given, int | float)
    return type(wanted) is type(given)


_AUTO_TOPIC: Final = _object(allowAutoTopicCreation=False, topicType=None, defaultNumPartitions=None)


def _auto_topic_creation(name: str, value: Any) -> dict[str, Any]:
    read = _AUTO_TOPIC(name, value)
    for key, kind in (("topicType", str), ("defaultNumPartitions", int)):
        if read[key] is not None and type(read[key]) is not kind:
            raise BadValueError(f"{name}.{key}: {read[key]!r} is not of type {kind.__name__}", 400)
    wrong = "Invalid configuration for autoTopicCreationOverride. the detail is"
    if read["allowAutoTopicCreation"]:
        if read["topicType"] not in ("partitioned", "non-partitioned"):
            raise BadValueError(f"{wrong} Unknown topic type [{read['topicType']}]")
        count = read["defaultNumPartitions"]
        if read["topicType"] == "partitioned" and (count is None or count < 1):
            raise BadValueError(f"{wrong} [defaultNumPartitions] cannot be less than 1 for partition type.")
    return read


_RETENTION: Final = _object(retentionTimeInMinutes=0, retentionSizeInMB=0)


def _retention(name: str, value: Any) -> dict[str, Any]:
    read = _RETENTION(name, value)
    for key, what in (("retentionTimeInMinutes", "time"), ("retentionSizeInMB", "size")):
        if read[key] < -1:
            raise BadValueError(f"Invalid retention policy: {what} limit must be >= -1", 400)
    if (read["retentionTimeInMinutes"] == 0) != (read["retentionSizeInMB"] == 0):
        text = (
            "Invalid retention policy: Setting a single time or size limit to 0 is invalid when one of the limits has "
            "a non-zero value. Use the value of -1 instead of 0 to ignore a specific limit. To disable retention both "
            "limits must be set to 0."
        )
        raise BadValueError(text, 400)
    return read


_TYPES: Final = ("Exclusive", "Shared", "Failover", "Key_Shared")
_STRATEGIES: Final = (
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)
_DISPATCH_RATE: Final = _object(
    dispatchThrottlingRateInMsg=0, dispatchThrottlingRateInByte=0, relativeToPublishRate=False, ratePeriodInSecond=0
)
_DISPATCH_KEYS: Final = ("dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte")


def _limit(name: str, topic: str, json: str, *, no_content: bool = False, unset: Any = None) -> Policy:
    """Return a row for a policy whose value is a number and whose setting has the same name."""
    return Policy(name, topic, json, _count, ((name or topic, ""),), no_content=no_content, unset=unset)


POLICIES: Final = (
    _limit("maxProducersPerTopic", "maxProducers", "max_producers_per_topic"),
    _limit("maxConsumersPerTopic", "maxConsumers", "max_consumers_per_topic"),
    _limit(
        "maxConsumersPerSubscription", "maxConsumersPerSubscription", "max_consumers_per_subscription", no_content=True
    ),
    _limit("maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic", "max_subscriptions_per_topic", no_content=True),
    _limit("maxTopicsPerNamespace", "", "max_topics_per_namespace", unset=0),
    _limit("maxUnackedMessagesPerConsumer", "maxUnackedMessagesOnConsumer", "max_unacked_messages_per_consumer"),
    _limit(
        "maxUnackedMessagesPerSubscription",
        "maxUnackedMessagesOnSubscription",
        "max_unacked_messages_per_subscription",
    ),
    _limit("", "maxMessageSize", "", no_content=True),
    Policy(
        "deduplication", "deduplicationEnabled", "deduplicationEnabled", _flag, (("brokerDeduplicationEnabled", ""),)
    ),
    Policy(
        "autoTopicCreation",
        "",
        "autoTopicCreationOverride",
        _auto_topic_creation,
        (
            ("allowAutoTopicCreation", "allowAutoTopicCreation"),
            ("allowAutoTopicCreationType", "topicType"),
            ("defaultNumPartitions", "defaultNumPartitions"),
        ),
    ),
    Policy(
        "autoSubscriptionCreation",
        "autoSubscriptionCreation",
        "autoSubscriptionCreationOverride",
        _object(allowAutoSubscriptionCreation=False),
        (("allowAutoSubscriptionCreation", "allowAutoSubscriptionCreation"),),
    ),
    Policy(
        "encryptionRequired",
        "",
        "encryption_required",
        _flag,
        (("encryptionRequireOnProducer", ""),),
        unset=False,
        keep=True,
        listed=True,
        either=True,
    ),
    Policy(
        "delayedDelivery",
        "delayedDelivery",
        "delayed_delivery_policies",
        _object(tickTime=0, active=False, maxDeliveryDelayInMillis=0),
        (
            ("delayedDeliveryEnabled", "active"),
            ("delayedDeliveryTickTimeMillis", "tickTime"),
            ("delayedDeliveryMaxDelayInMillis", "maxDeliveryDelayInMillis"),
        ),
    ),
    Policy(
        "subscriptionTypesEnabled",
        "subscriptionTypesEnabled",
        "subscription_types_enabled",
        _words(*_TYPES, several=True),
        (("subscriptionTypesEnabled", ""),),
        unset=[],
        listed=True,
        no_content=True,
    ),
    Policy(
        "schemaCompatibilityStrategy",
        "schemaCompatibilityStrategy",
        "schema_compatibility_strategy",
        _words(*_STRATEGIES),
        (("schemaCompatibilityStrategy", ""),),
        verb="PUT",
        topic_verb="PUT",
        unset="UNDEFINED",
        keep=True,
        listed=True,
    ),
    Policy(
        "isAllowAutoUpdateSchema",
        "",
        "is_allow_auto_update_schema",
        _flag,
        (("isAllowAutoUpdateSchemaEnabled", ""),),
        unset=True,
        keep=True,
        listed=True,
    ),
    Policy(
        "schemaValidationEnforced",
        "schemaValidationEnforced",
        "schema_validation_enforced",
        _flag,
        (("isSchemaValidationEnforced", ""),),
        unset=False,
        keep=True,
        listed=True,
        either=True,
    ),
    Policy(
        "publishRate",
        "publishRate",
        "publishMaxMessageRate",
        _object(publishThrottlingRateInMsg=0, publishThrottlingRateInByte=0),
        (
            ("maxPublishRatePerTopicInMessages", "publishThrottlingRateInMsg"),
            ("maxPublishRatePerTopicInBytes", "publishThrottlingRateInByte"),
        ),
        by_cluster=True,
        no_content=True,
    ),
    Policy(
        "dispatchRate",
        "dispatchRate",
        "topicDispatchRate",
        _DISPATCH_RATE,
        (
            ("dispatchThrottlingRatePerTopicInMsg", _DISPATCH_KEYS[0]),
            ("dispatchThrottlingRatePerTopicInByte", _DISPATCH_KEYS[1]),
        ),
        by_cluster=True,
    ),
    Policy(
        "subscriptionDispatchRate",
        "subscriptionDispatchRate",
        "subscriptionDispatchRate",
        _DISPATCH_RATE,
        (
            ("dispatchThrottlingRatePerSubscriptionInMsg", _DISPATCH_KEYS[0]),
            ("dispatchThrottlingRatePerSubscriptionInByte", _DISPATCH_KEYS[1]),
        ),
        by_cluster=True,
    ),
    Policy(
        "subscribeRate",
        "subscribeRate",
        "clusterSubscribeRate",
        _object(subscribeThrottlingRatePerConsumer=0, ratePeriodInSecond=30),
        (
            ("subscribeThrottlingRatePerConsumer", "subscribeThrottlingRatePerConsumer"),
            ("subscribeRatePeriodPerConsumerInSecond", "ratePeriodInSecond"),
        ),
        by_cluster=True,
    ),
    Policy(
        "messageTTL",
        "messageTTL",
        "message_ttl_in_seconds",
        _ttl,
        (("ttlDurationDefaultInSeconds", ""),),
        in_query=True,
    ),
    Policy(
        "subscriptionExpirationTime",
        "",
        "subscription_expiration_time_minutes",
        _count,
        (("subscriptionExpirationTimeMinutes", ""),),
    ),
    Policy(
        "retention",
        "retention",
        "retention_policies",
        _retention,
        (
            ("defaultRetentionTimeInMinutes", "retentionTimeInMinutes"),
            ("defaultRetentionSizeInMB", "retentionSizeInMB"),
        ),
    ),
    Policy(
        "inactiveTopicPolicies",
        "inactiveTopicPolicies",
        "inactive_topic_policies",
        _object(inactiveTopicDeleteMode="", maxInactiveDurationSeconds=0, deleteWhileInactive=False),
        (
            ("brokerDeleteInactiveTopicsMode", "inactiveTopicDeleteMode"),
            ("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", "maxInactiveDurationSeconds"),
            ("brokerDeleteInactiveTopicsEnabled", "deleteWhileInactive"),
        ),
    ),
    Policy(
        "compactionThreshold",
        "compactionThreshold",
        "compaction_threshold",
        _count,
        (("brokerServiceCompactionThresholdInBytes", ""),),
        verb="PUT",
    ),
    # Policies without effect: replication is not implemented.
    Policy(
        "deduplicationSnapshotInterval",
        "deduplicationSnapshotInterval",
        "deduplicationSnapshotIntervalSeconds",
        _count,
        keep=True,
    ),
    Policy(
        "persistence",
        "persistence",
        "persistence",
        _object(
            bookkeeperEnsemble=0, bookkeeperWriteQuorum=0, bookkeeperAckQuorum=0, managedLedgerMaxMarkDeleteRate=0.0
        ),
    ),
    Policy(
        "replicatorDispatchRate",
        "replicatorDispatchRate",
        "replicatorDispatchRate",
        _DISPATCH_RATE,
        by_cluster=True,
    ),
    Policy(
        "subscriptionAuthMode",
        "",
        "subscription_auth_mode",
        _words("None", "Prefix"),
        unset="None",
        keep=True,
        listed=True,
    ),
)

NAMESPACE: Final = {policy.name: policy for policy in POLICIES if policy.name}
TOPIC: Final = {policy.topic: policy for policy in POLICIES if policy.topic}
BY_SETTING: Final = {setting: (policy, key) for policy in POLICIES for setting, key in policy.settings}
"""The row, and the key inside the value, by setting name."""
