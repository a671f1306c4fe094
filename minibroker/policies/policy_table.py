"""The table of policies: their names in REST and in the policies of a namespace, and the settings that they override.

Rules of this file
1. Each policy has one row, found by either of its names. A policy without settings is stored and returned, but has no
   effect.
2. A value is converted to the form that a real broker returns, and then checked by the rules of the real broker
   (NamespacesBase, PersistentTopicsBase). An invalid value raises BadValueError with the HTTP status. None means that
   the policy is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pcli.minibroker.policies import policy_checks as checks
from pcli.minibroker.policies import policy_types as types
from pcli.minibroker.policies.auto_scale_policy import AUTO_SCALE_POLICY, check_override
from pcli.minibroker.policies.java_types import (
    BOOLEAN,
    BOOLEAN_OBJECT,
    INT,
    INTEGER,
    LONG,
    STRING_SET,
    JavaType,
    convert_value,
)
from pcli.minibroker.settings import Settings


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy."""

    name: str
    """The name in REST for namespaces; empty if the policy exists for topics only."""
    topic: str
    """The name in REST for topics; empty if the policy exists for namespaces only."""
    json: str
    """The key in the policies of a namespace."""
    kind: JavaType | None
    """The type of the value; None if setting the policy means the value True."""
    settings: tuple[tuple[str, str], ...] = ()
    """The overridden settings, each with the key inside the value; an empty key means the value itself."""
    enforced: bool = False
    """Whether a policy without settings has an effect."""
    topic_kind: JavaType | None = None
    """The type of a topic's value, if it differs."""
    check: checks.Check | None = None
    """A check of a namespace's value."""
    topic_check: checks.Check | None = None
    """A check of a topic's value; None if it is `check`."""
    verb: str = "POST"
    """The HTTP method that sets the policy of a namespace."""
    topic_verb: str = "POST"
    """The HTTP method that sets the policy of a topic."""
    in_query: bool = False
    """Whether a query parameter contains the value for a topic. If it is missing, the policy is removed."""
    unset: Any = None
    """The response for a namespace without the policy."""
    topic_unset: Any = None
    """The response for a topic without the policy. If `no_content` is set, it applies to topics with other policies."""
    default: Any = None
    """The broker's value of a policy without settings."""
    keep: bool = False
    """Whether the policy cannot be removed from a namespace."""
    removed: Any = None
    """The value in the policies of a namespace after the policy was removed; None if there is none."""
    listed: bool = False
    """Whether the policies of a namespace contain the policy even if it was never set."""
    either: bool = False
    """Whether True overrides False at any level: a topic cannot revoke what its namespace or the broker requires."""
    by_cluster: bool = False
    """Whether the policies of a namespace contain the policy under the cluster's name."""
    no_content: bool = False
    """Whether the response for a topic without the policy is 204 instead of an empty 200."""
    name_no_content: bool = False
    """Whether the response for a namespace without the policy is 204 instead of an empty 200."""
    topic_keep: bool = False
    """Whether the policy cannot be removed from a topic."""
    setting: str = ""
    """The setting without which the policy does not exist; empty if it always exists."""
    null_ignored: bool = False
    """Whether setting a topic's policy to null has no effect; otherwise null removes the policy."""

    @property
    def stored_only(self) -> bool:
        """Return whether the policy has no effect."""
        return not self.settings and not self.enforced

    def read(self, value: Any, settings: Settings) -> Any:
        """Return the value for a namespace. Raises BadValueError."""
        return _read(value, self.kind, self.check, settings)

    def read_topic(self, value: Any, settings: Settings) -> Any:
        """Return the value for a topic. Raises BadValueError."""
        return _read(value, self.topic_kind or self.kind, self.topic_check or self.check, settings)


def _read(value: Any, kind: JavaType | None, check: checks.Check | None, settings: Settings) -> Any:
    read = True if kind is None else convert_value(value, kind)
    if check is not None:
        check(read, settings)
    return read


# -- rows --------------------------------------------------------------------------------------------------------------

_DISPATCH_KEYS: Final = ("dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte")
_NO_RATE: Final = {**dict.fromkeys(_DISPATCH_KEYS, 0), "relativeToPublishRate": False, "ratePeriodInSecond": 1}


def _row(names: str, kind: JavaType | None, settings: str = "", *, flags: str = "", **more: Any) -> Policy:
    """Return the row of a policy.

    ``names`` are the name for namespaces, the name for topics and the key in the policies of a namespace; ``-`` stands
    for none. ``settings`` are the overridden settings, each followed by a dot and its key if the value is an object.
    ``flags`` are the fields of Policy that are True.
    """
    name, topic, json = ("" if one == "-" else one for one in names.split())
    overridden = ((setting, key) for setting, _, key in (one.partition(".") for one in settings.split()))
    more |= dict.fromkeys(flags.split(), True)
    return Policy(name, topic, json, kind, tuple(overridden), **more)


def _limit(names: str, topic_text: str = "", *, topic_check: checks.Check | None = None, **more: Any) -> Policy:
    """Return a row for a policy whose value is a number and whose setting has the same name."""
    name, topic = ("" if one == "-" else one for one in names.split()[:2])
    check = checks.not_negative(f"{name} must be 0 or more")
    topic_check = topic_check or checks.not_negative(topic_text or f"{topic} must be 0 or more")
    return _row(names, INT, name or topic, check=check, topic_check=topic_check, **more)


POLICIES: Final = (
    _limit("maxProducersPerTopic maxProducers max_producers_per_topic"),
    _limit("maxConsumersPerTopic maxConsumers max_consumers_per_topic"),
    _limit(
        "maxConsumersPerSubscription maxConsumersPerSubscription max_consumers_per_subscription",
        "Invalid value for maxConsumersPerSubscription",
        flags="no_content",
    ),
    _limit("maxSubscriptionsPerTopic maxSubscriptionsPerTopic max_subscriptions_per_topic", flags="no_content"),
    _limit("maxTopicsPerNamespace - max_topics_per_namespace", unset=0),
    _limit(
        "maxUnackedMessagesPerConsumer maxUnackedMessagesOnConsumer max_unacked_messages_per_consumer",
        "maxUnackedNum must be 0 or more",
        topic_kind=INTEGER,
    ),
    _limit(
        "maxUnackedMessagesPerSubscription maxUnackedMessagesOnSubscription max_unacked_messages_per_subscription",
        "maxUnackedNum must be 0 or more",
        topic_kind=INTEGER,
    ),
    _limit("- maxMessageSize -", topic_check=checks.message_size, flags="no_content"),
    _row(
        "deduplication deduplicationEnabled deduplicationEnabled",
        BOOLEAN,
        "brokerDeduplicationEnabled",
        topic_kind=BOOLEAN_OBJECT,
    ),
    _row(
        "autoTopicCreation - autoTopicCreationOverride",
        types.AUTO_TOPIC_CREATION,
        "allowAutoTopicCreation.allowAutoTopicCreation "
        "allowAutoTopicCreationType.topicType defaultNumPartitions.defaultNumPartitions",
        check=checks.auto_topic_creation,
    ),
    _row(
        "autoSubscriptionCreation autoSubscriptionCreation autoSubscriptionCreationOverride",
        types.AUTO_SUBSCRIPTION_CREATION,
        "allowAutoSubscriptionCreation.allowAutoSubscriptionCreation",
    ),
    _row(
        "encryptionRequired - encryption_required",
        BOOLEAN,
        "encryptionRequireOnProducer",
        unset=False,
        flags="keep listed either",
    ),
    _row(
        "delayedDelivery delayedDelivery delayed_delivery_policies",
        types.DELAYED_DELIVERY,
        "delayedDeliveryEnabled.active "
        "delayedDeliveryTickTimeMillis.tickTime delayedDeliveryMaxDelayInMillis.maxDeliveryDelayInMillis",
    ),
    _row(
        "subscriptionTypesEnabled subscriptionTypesEnabled subscription_types_enabled",
        types.SUBSCRIPTION_TYPES,
        "subscriptionTypesEnabled",
        check=checks.subscription_types,
        topic_check=checks.topic_subscription_types,
        unset=[],
        topic_unset=[],
        flags="no_content listed",
    ),
    _row(
        "schemaCompatibilityStrategy schemaCompatibilityStrategy schema_compatibility_strategy",
        types.SCHEMA_STRATEGY,
        "schemaCompatibilityStrategy",
        verb="PUT",
        topic_verb="PUT",
        unset="UNDEFINED",
        flags="keep listed",
    ),
    _row(
        "isAllowAutoUpdateSchema - is_allow_auto_update_schema",
        BOOLEAN,
        "isAllowAutoUpdateSchemaEnabled",
        unset=True,
        flags="keep listed",
    ),
    _row(
        "schemaValidationEnforced schemaValidationEnforced schema_validation_enforced",
        BOOLEAN,
        "isSchemaValidationEnforced",
        unset=False,
        topic_unset=False,
        flags="topic_keep keep listed either",
    ),
    _row(
        "publishRate publishRate publishMaxMessageRate",
        types.PUBLISH_RATE,
        "maxPublishRatePerTopicInMessages.publishThrottlingRateInMsg "
        "maxPublishRatePerTopicInBytes.publishThrottlingRateInByte",
        flags="by_cluster no_content null_ignored",
    ),
    _row(
        "dispatchRate dispatchRate topicDispatchRate",
        types.DISPATCH_RATE,
        "dispatchThrottlingRatePerTopicInMsg.dispatchThrottlingRateInMsg "
        "dispatchThrottlingRatePerTopicInByte.dispatchThrottlingRateInByte",
        flags="by_cluster null_ignored",
    ),
    _row(
        "subscriptionDispatchRate subscriptionDispatchRate subscriptionDispatchRate",
        types.DISPATCH_RATE,
        "dispatchThrottlingRatePerSubscriptionInMsg.dispatchThrottlingRateInMsg "
        "dispatchThrottlingRatePerSubscriptionInByte.dispatchThrottlingRateInByte",
        flags="by_cluster null_ignored",
    ),
    _row(
        "subscribeRate subscribeRate clusterSubscribeRate",
        types.SUBSCRIBE_RATE,
        "subscribeThrottlingRatePerConsumer.subscribeThrottlingRatePerConsumer "
        "subscribeRatePeriodPerConsumerInSecond.ratePeriodInSecond",
        flags="by_cluster null_ignored",
    ),
    _row(
        "messageTTL messageTTL message_ttl_in_seconds",
        INT,
        "ttlDurationDefaultInSeconds",
        check=checks.not_negative("Invalid value for message TTL, message TTL must >= 0"),
        topic_kind=INTEGER,
        topic_check=checks.not_negative("Invalid value for message TTL"),
        flags="in_query",
    ),
    _row(
        "subscriptionExpirationTime subscriptionExpirationTime subscription_expiration_time_minutes",
        INT,
        "subscriptionExpirationTimeMinutes",
        topic_kind=INTEGER,
        check=checks.not_negative("Invalid value for subscription expiration time"),
        flags="in_query",
    ),
    _row(
        "retention retention retention_policies",
        types.RETENTION,
        "defaultRetentionTimeInMinutes.retentionTimeInMinutes defaultRetentionSizeInMB.retentionSizeInMB",
        check=checks.retention,
        flags="null_ignored",
    ),
    _row(
        "inactiveTopicPolicies inactiveTopicPolicies inactive_topic_policies",
        types.INACTIVE_TOPIC,
        "brokerDeleteInactiveTopicsMode.inactiveTopicDeleteMode "
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds.maxInactiveDurationSeconds "
        "brokerDeleteInactiveTopicsEnabled.deleteWhileInactive",
    ),
    _row(
        "compactionThreshold compactionThreshold compaction_threshold",
        LONG,
        "brokerServiceCompactionThresholdInBytes",
        verb="PUT",
        check=checks.not_negative("compactionThreshold must be 0 or more"),
        topic_check=checks.not_negative("Invalid value for compactionThreshold"),
    ),
    # The policies of replication, entry filters and bookies have no effect.
    _row(
        "deduplicationSnapshotInterval deduplicationSnapshotInterval deduplicationSnapshotIntervalSeconds",
        INTEGER,
        "brokerDeduplicationSnapshotIntervalSeconds",
        check=checks.not_negative("interval must be greater than or equal to 0"),
        topic_check=checks.not_negative("interval must be 0 or more"),
        flags="keep",
    ),
    _row(
        "persistence persistence persistence",
        types.PERSISTENCE,
        check=checks.persistence,
        default={
            **dict.fromkeys(("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"), 1),
            "managedLedgerMaxMarkDeleteRate": 1.0,
        },
    ),
    _row(
        "replicatorDispatchRate replicatorDispatchRate replicatorDispatchRate",
        types.DISPATCH_RATE,
        default=_NO_RATE,
        flags="by_cluster",
    ),
    _row(
        "subscriptionAuthMode - subscription_auth_mode",
        types.SUBSCRIPTION_AUTH_MODE,
        unset="None",
        flags="enforced keep listed",
    ),
    _row(
        "entryFilters entryFilters entryFilters",
        types.ENTRY_FILTERS,
        check=checks.entry_filters,
        default={"entryFilterNames": ""},
    ),
    _row(
        "schemaAutoUpdateCompatibilityStrategy - schema_auto_update_compatibility_strategy",
        types.SCHEMA_AUTO_UPDATE_STRATEGY,
        verb="PUT",
        flags="enforced name_no_content keep",
    ),
    _row(
        "dispatcherPauseOnAckStatePersistent "
        "dispatcherPauseOnAckStatePersistent dispatcherPauseOnAckStatePersistentEnabled",
        None,
        "dispatcherPauseOnAckStatePersistentEnabled",
        unset=False,
        removed=False,
        topic_unset=False,
    ),
    _row("persistence/bookieAffinity - -", types.BOOKIE_AFFINITY),
    _row(
        "allowedTopicPropertyKeysForMetrics - allowed_topic_property_keys_for_metrics",
        STRING_SET,
        "allowedTopicPropertyKeysForMetrics",
    ),
    _row(
        f"{AUTO_SCALE_POLICY} - {AUTO_SCALE_POLICY}",
        types.AUTO_SCALE,
        check=check_override,
        setting="scalableTopicsEnabled",
        flags="enforced",
    ),
)

NAMESPACE: Final = {policy.name: policy for policy in POLICIES if policy.name}
TOPIC: Final = {policy.topic: policy for policy in POLICIES if policy.topic}
BY_SETTING: Final = {setting: (policy, key) for policy in POLICIES for setting, key in policy.settings}
"""The row, and the key inside the value, by setting name."""
