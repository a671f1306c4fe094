"""The Java types of the values of policies (package org.apache.pulsar.common.policies.data)."""

from __future__ import annotations

from typing import Final

from pcli.minibroker.policies.java_types import Enum, EnumSet, bean

_DATA: Final = "org.apache.pulsar.common.policies.data"


AUTO_SCALE: Final = bean(
    f"{_DATA}.AutoScalePolicyOverride",
    "enabled:Boolean maxSegments:Integer minSegments:Integer maxDagDepth:Integer splitCooldownSeconds:Long "
    "mergeCooldownSeconds:Long splitVsRebucketMinMsgRateInThreshold:Double rebucketCooldownSeconds:Long "
    "mergeWindowSeconds:Long splitMsgRateInThreshold:Double splitBytesRateInThreshold:Long "
    "splitMsgRateOutThreshold:Double splitBytesRateOutThreshold:Long mergeMsgRateInThreshold:Double "
    "mergeBytesRateInThreshold:Long mergeMsgRateOutThreshold:Double mergeBytesRateOutThreshold:Long",
)
AUTO_TOPIC_CREATION: Final = bean(
    f"{_DATA}.impl.AutoTopicCreationOverrideImpl",
    "allowAutoTopicCreation:boolean=false topicType:string defaultNumPartitions:Integer",
)
AUTO_SUBSCRIPTION_CREATION: Final = bean(
    f"{_DATA}.impl.AutoSubscriptionCreationOverrideImpl",
    "allowAutoSubscriptionCreation:boolean=false",
    scalar=lambda value: {"allowAutoSubscriptionCreation": value},
    scalars=("VALUE_TRUE", "VALUE_FALSE"),
)
DELAYED_DELIVERY: Final = bean(
    f"{_DATA}.impl.DelayedDeliveryPoliciesImpl", "tickTime:long=0 active:boolean=false maxDeliveryDelayInMillis:long=0"
)
DISPATCH_RATE: Final = bean(
    f"{_DATA}.impl.DispatchRateImpl",
    "dispatchThrottlingRateInMsg:int=0 dispatchThrottlingRateInByte:long=0 relativeToPublishRate:boolean=false "
    "ratePeriodInSecond:int=0",
)
PUBLISH_RATE: Final = bean(
    f"{_DATA}.PublishRate", "publishThrottlingRateInMsg:int=-1 publishThrottlingRateInByte:long=-1"
)
SUBSCRIBE_RATE: Final = bean(
    f"{_DATA}.SubscribeRate", "subscribeThrottlingRatePerConsumer:int=-1 ratePeriodInSecond:int=30"
)
RETENTION: Final = bean(f"{_DATA}.RetentionPolicies", "retentionTimeInMinutes:int=0 retentionSizeInMB:long=0")
INACTIVE_TOPIC: Final = bean(
    f"{_DATA}.InactiveTopicPolicies",
    "inactiveTopicDeleteMode:mode maxInactiveDurationSeconds:int=0 deleteWhileInactive:boolean=false",
    mode=Enum(
        f"{_DATA}.InactiveTopicDeleteMode", ("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up")
    ),
)
PERSISTENCE: Final = bean(
    f"{_DATA}.PersistencePolicies",
    "bookkeeperEnsemble:int=2 bookkeeperWriteQuorum:int=2 bookkeeperAckQuorum:int=2 "
    "managedLedgerMaxMarkDeleteRate:double=-1.0 managedLedgerStorageClassName:string",
)
BOOKIE_AFFINITY: Final = bean(
    f"{_DATA}.impl.BookieAffinityGroupDataImpl",
    "bookkeeperAffinityGroupPrimary:string bookkeeperAffinityGroupSecondary:string",
)
ENTRY_FILTERS: Final = bean(
    f"{_DATA}.EntryFilters",
    "entryFilterNames:string",
    scalar=lambda value: {"entryFilterNames": value},
    scalars=("VALUE_STRING",),
)
_QUOTA_POLICIES: Final = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")
BACKLOG_QUOTA: Final = bean(
    f"{_DATA}.impl.BacklogQuotaImpl",
    "limit:long limitSize:long limitTime:int policy:policy",
    policy=Enum(f"{_DATA}.BacklogQuota$RetentionPolicy", _QUOTA_POLICIES),
)

SUBSCRIPTION_TYPES: Final = EnumSet(
    Enum("org.apache.pulsar.client.api.SubscriptionType", ("Exclusive", "Shared", "Failover", "Key_Shared"))
)
AUTH_ACTION: Final = Enum(f"{_DATA}.AuthAction", ("produce", "consume", "functions", "sources", "sinks", "packages"))
AUTH_ACTIONS: Final = EnumSet(AUTH_ACTION)
SUBSCRIPTION_AUTH_MODE: Final = Enum(f"{_DATA}.SubscriptionAuthMode", ("None", "Prefix"))
_DIRECTIONS: Final = ("BACKWARD", "FORWARD", "FULL")
SCHEMA_STRATEGY: Final = Enum(
    f"{_DATA}.SchemaCompatibilityStrategy",
    (
        *("UNDEFINED", "ALWAYS_INCOMPATIBLE", "ALWAYS_COMPATIBLE", *_DIRECTIONS),
        *(f"{direction}_TRANSITIVE" for direction in _DIRECTIONS),
    ),
)
_OLD_DIRECTIONS: Final = ("Backward", "Forward", "Full")
SCHEMA_AUTO_UPDATE_STRATEGY: Final = Enum(
    f"{_DATA}.SchemaAutoUpdateCompatibilityStrategy",
    (
        *("AutoUpdateDisabled", *_OLD_DIRECTIONS, "AlwaysCompatible"),
        *(f"{direction}Transitive" for direction in _OLD_DIRECTIONS),
    ),
)
