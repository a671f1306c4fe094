"""The Java types of the values of policies (package org.apache.pulsar.common.policies.data)."""

from __future__ import annotations

from typing import Any, Final

from pcli.minibroker.policies.java_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGER,
    LONG,
    STRING,
    Bean,
    Enum,
    EnumSet,
    JavaType,
)

__all__ = [
    "AUTH_ACTION",
    "AUTH_ACTIONS",
    "AUTO_SUBSCRIPTION_CREATION",
    "AUTO_TOPIC_CREATION",
    "BACKLOG_QUOTA",
    "BOOKIE_AFFINITY",
    "DELAYED_DELIVERY",
    "DISPATCH_RATE",
    "ENTRY_FILTERS",
    "INACTIVE_TOPIC",
    "PERSISTENCE",
    "PUBLISH_RATE",
    "RETENTION",
    "SCHEMA_AUTO_UPDATE_STRATEGY",
    "SCHEMA_STRATEGY",
    "SUBSCRIBE_RATE",
    "SUBSCRIPTION_AUTH_MODE",
    "SUBSCRIPTION_TYPES",
]

_DATA: Final = "org.apache.pulsar.common.policies.data"


def _bean(name: str, **fields: tuple[JavaType, Any]) -> Bean:
    return Bean(f"{_DATA}.{name}", fields)


AUTO_TOPIC_CREATION: Final = _bean(
    "impl.AutoTopicCreationOverrideImpl",
    allowAutoTopicCreation=(BOOLEAN, False),
    topicType=(STRING, None),
    defaultNumPartitions=(INTEGER, None),
)
AUTO_SUBSCRIPTION_CREATION: Final = Bean(
    f"{_DATA}.impl.AutoSubscriptionCreationOverrideImpl",
    {"allowAutoSubscriptionCreation": (BOOLEAN, False)},
    scalar=lambda value: {"allowAutoSubscriptionCreation": value},
    scalars=("VALUE_TRUE", "VALUE_FALSE"),
)
DELAYED_DELIVERY: Final = _bean(
    "impl.DelayedDeliveryPoliciesImpl",
    tickTime=(LONG, 0),
    active=(BOOLEAN, False),
    maxDeliveryDelayInMillis=(LONG, 0),
)
DISPATCH_RATE: Final = _bean(
    "impl.DispatchRateImpl",
    dispatchThrottlingRateInMsg=(INT, 0),
    dispatchThrottlingRateInByte=(LONG, 0),
    relativeToPublishRate=(BOOLEAN, False),
    ratePeriodInSecond=(INT, 0),
)
PUBLISH_RATE: Final = _bean("PublishRate", publishThrottlingRateInMsg=(INT, -1), publishThrottlingRateInByte=(LONG, -1))
SUBSCRIBE_RATE: Final = _bean(
    "SubscribeRate", subscribeThrottlingRatePerConsumer=(INT, -1), ratePeriodInSecond=(INT, 30)
)
RETENTION: Final = _bean("RetentionPolicies", retentionTimeInMinutes=(INT, 0), retentionSizeInMB=(LONG, 0))
INACTIVE_TOPIC: Final = _bean(
    "InactiveTopicPolicies",
    inactiveTopicDeleteMode=(
        Enum(
            f"{_DATA}.InactiveTopicDeleteMode",
            ("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
        ),
        None,
    ),
    maxInactiveDurationSeconds=(INT, 0),
    deleteWhileInactive=(BOOLEAN, False),
)
PERSISTENCE: Final = _bean(
    "PersistencePolicies",
    bookkeeperEnsemble=(INT, 2),
    bookkeeperWriteQuorum=(INT, 2),
    bookkeeperAckQuorum=(INT, 2),
    managedLedgerMaxMarkDeleteRate=(DOUBLE, -1.0),
    managedLedgerStorageClassName=(STRING, None),
)
BOOKIE_AFFINITY: Final = _bean(
    "impl.BookieAffinityGroupDataImpl",
    bookkeeperAffinityGroupPrimary=(STRING, None),
    bookkeeperAffinityGroupSecondary=(STRING, None),
)
ENTRY_FILTERS: Final = Bean(
    f"{_DATA}.EntryFilters",
    {"entryFilterNames": (STRING, None)},
    scalar=lambda value: {"entryFilterNames": value},
    scalars=("VALUE_STRING",),
)

BACKLOG_QUOTA: Final = _bean(
    "impl.BacklogQuotaImpl",
    limit=(LONG, None),
    limitSize=(LONG, None),
    limitTime=(INT, None),
    policy=(
        Enum(
            f"{_DATA}.BacklogQuota$RetentionPolicy",
            ("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
        ),
        None,
    ),
)

SUBSCRIPTION_TYPES: Final = EnumSet(
    Enum("org.apache.pulsar.client.api.SubscriptionType", ("Exclusive", "Shared", "Failover", "Key_Shared"))
)
AUTH_ACTION: Final = Enum(f"{_DATA}.AuthAction", ("produce", "consume", "functions", "sources", "sinks", "packages"))
AUTH_ACTIONS: Final = EnumSet(AUTH_ACTION)
SUBSCRIPTION_AUTH_MODE: Final = Enum(f"{_DATA}.SubscriptionAuthMode", ("None", "Prefix"))
SCHEMA_STRATEGY: Final = Enum(
    f"{_DATA}.SchemaCompatibilityStrategy",
    (
        "UNDEFINED",
        "ALWAYS_INCOMPATIBLE",
        "ALWAYS_COMPATIBLE",
        "BACKWARD",
        "FORWARD",
        "FULL",
        "BACKWARD_TRANSITIVE",
        "FORWARD_TRANSITIVE",
        "FULL_TRANSITIVE",
    ),
)
SCHEMA_AUTO_UPDATE_STRATEGY: Final = Enum(
    f"{_DATA}.SchemaAutoUpdateCompatibilityStrategy",
    (
        "AutoUpdateDisabled",
        "Backward",
        "Forward",
        "Full",
        "AlwaysCompatible",
        "BackwardTransitive",
        "ForwardTransitive",
        "FullTransitive",
    ),
)
