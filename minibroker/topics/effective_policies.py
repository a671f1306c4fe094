"""The effective policies of one topic. They are looked up when a policy changes, not for every message.

Rules of this file
1. The topic's policy overrides the namespace's policy, which overrides the setting (`Policies.effective`).
2. A changed limit starts with all of its tokens, and the broker resumes reading from connections that the old limit
   paused. An unchanged limit keeps its tokens when other policies change.
3. The publish rate and the resource group of a non-persistent topic are those at the time when it is loaded.
4. System topics do not require encryption and accept any schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.topic_names import is_system
from pcli.minibroker.topics.rate_limiters import PublishThrottle, RateLimiter, SubscribeLimiter

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.topics.broker_service import BrokerService
    from pcli.minibroker.topics.transport_cnx import TransportCnx

_INDEX: Final = "AppendIndexMetadataInterceptor"
_TIMESTAMP: Final = "AppendBrokerTimestampMetadataInterceptor"


@dataclass(frozen=True, slots=True)
class Interceptors:
    """The broker entry metadata that is stored before an entry (brokerEntryMetadataInterceptors)."""

    index: bool
    """Whether to write the index of the entry's last message."""
    timestamp: bool
    """Whether to write the time of storage."""

    @classmethod
    def of(cls, classes: list[str]) -> Interceptors:
        """Return the interceptors for a list of Java class names."""
        names = {name.rpartition(".")[2] for name in classes}
        return cls(_INDEX in names, _TIMESTAMP in names)

    @property
    def any(self) -> bool:
        """Whether there is any metadata to write."""
        return self.index or self.timestamp


class _Named(Protocol):
    """A subscription."""

    name: str


class EffectivePolicies:
    """The effective policies of one topic."""

    def __init__(self, broker: BrokerService, name: TopicName) -> None:
        self._broker = broker
        self._name = name
        self.system = is_system(name)
        self.last_ttl = 0
        """Message TTL in seconds when the policies changed last (lastMessageTtlInSeconds), or 0."""
        self.interceptors = Interceptors.of(broker.settings.brokerEntryMetadataInterceptors)
        self._publish_throttle = PublishThrottle(broker)
        self._set_publish_rate()
        self._subscribe_limiter: SubscribeLimiter | None = None
        self._own_limiters: WeakKeyDictionary[object, RateLimiter] = WeakKeyDictionary()
        """The limiters of single subscriptions (subscriptionDispatchRate)."""
        self._publish_rate = 0.0, 0.0
        """Average of the published messages and bytes per second (lastUpdatedAvgPublishRateInMsg)."""
        self.dispatch_limiter: RateLimiter | None = None
        self.refresh()

    def effective(self, setting: str) -> Any:
        """Return the effective value of a setting for this topic."""
        return self._broker.policies.effective(self._name, setting)

    def refresh(self) -> None:
        """Look up all policies."""
        effective, settings = self.effective, self._broker.settings
        self.encryption_required = effective("encryptionRequireOnProducer") and not self.system
        limit = effective("maxMessageSize")
        self.max_message_size = limit if 0 < limit < settings.maxMessageSize else 0
        """Maximum message size in bytes; 0 if only the broker's limit applies."""
        self.max_delay = effective("delayedDeliveryMaxDelayInMillis") if effective("delayedDeliveryEnabled") else 0
        """Maximum delivery delay in milliseconds; 0 is unlimited."""
        self.deduplication = self._name.persistent and effective("brokerDeduplicationEnabled")
        """Whether deduplication is enabled."""
        if self._name.persistent:
            self._set_publish_rate()
        throttles = (self._publish_throttle, self._group_throttle, self._broker.publish_throttle)
        self.throttles = [one for one in throttles if one.limiter.limits]
        """The publish rate limits of the topic, of the resource group of its namespace, and of the broker."""
        rate = self._broker.policies.policy(self._name, "dispatchRate")
        self.dispatch_limiter = self._dispatch_limiter(rate, self.dispatch_limiter)
        self._set_subscribe_rate()

    def _set_subscribe_rate(self) -> None:
        rate = self.effective("subscribeThrottlingRatePerConsumer")
        period = self.effective("subscribeRatePeriodPerConsumerInSecond") * 1000
        if rate <= 0 or period <= 0:
            self._subscribe_limiter = None
        elif self._subscribe_limiter is None or self._subscribe_limiter.terms != (rate, period):
            self._subscribe_limiter = SubscribeLimiter(rate, period)

    def _set_publish_rate(self) -> None:
        messages = self.effective("maxPublishRatePerTopicInMessages")
        size = self.effective("maxPublishRatePerTopicInBytes")
        self._publish_throttle.update(messages, size)
        namespace = self._broker.policies.namespace_of(self._name)
        group = "" if namespace is None else namespace.resource_group
        self._group_throttle = self._broker.resource_group_throttles.of(group)

    def release(self) -> None:
        """Resume reading from the connections that the topic's publish rate limit paused."""
        self._publish_throttle.release()

    def _dispatch_limiter(self, rate: dict[str, Any], before: RateLimiter | None) -> RateLimiter | None:
        """Return the limiter of a dispatch rate, or the previous limiter if its limits are the same."""
        messages, size = rate["dispatchThrottlingRateInMsg"], rate["dispatchThrottlingRateInByte"]
        period, relative = max(1, rate["ratePeriodInSecond"]) * 1000, bool(rate.get("relativeToPublishRate"))
        limiter = RateLimiter(messages, size, period, relative=relative, by_period=True)
        limiter.set_base(self._publish_rate, self._broker.now)
        if before is not None and before.terms == limiter.terms:
            return before
        return limiter if limiter.limits else None

    def publish_rate_measured(self, messages: float, size: float) -> None:
        """Update the limits relative to the publish rate: its maximum, or the average with the rate before."""
        before, before_bytes = self._publish_rate
        self._publish_rate = max(messages, (messages + before) / 2), max(size, (size + before_bytes) / 2)
        for limiter in (self.dispatch_limiter, *self._own_limiters.values()):
            if limiter is not None:
                limiter.set_base(self._publish_rate, self._broker.now)

    @property
    def affects_send(self) -> bool:
        """Whether publishing a message requires any check or metadata."""
        return bool(
            self.encryption_required
            or self.max_message_size
            or self.max_delay
            or self.deduplication
            or self.throttles
            or self.interceptors.any
        )

    def dispatch_limiters(self, subscription: _Named) -> list[RateLimiter]:
        """Return the dispatch rate limits for a subscription: those of the broker, the topic and the subscription."""
        rate = self._broker.policies.subscription_dispatch_rate(self._name, subscription.name)
        own = self._dispatch_limiter(rate, self._own_limiters.pop(subscription, None))
        if own is not None:
            self._own_limiters[subscription] = own
        return [one for one in (self._broker.dispatch_rate, self.dispatch_limiter, own) if one is not None]

    def check_subscribe_rate(self, connection: TransportCnx, command: pb.CommandSubscribe) -> None:
        """Raise Refused (NotAllowedError) if one consumer subscribes too often."""
        consumer = (connection.peer[0], command.consumer_name, command.consumer_id)
        if self._subscribe_limiter is not None and not self._subscribe_limiter.admit(consumer, self._broker.now):
            text = f"Subscribe limited by subscribe rate limit per consumer: {self._name}"
            raise Refused(pb.NotAllowedError, text)

    def for_schemas(self, setting: str) -> Any:
        """Return the effective value of a setting that concerns schemas."""
        if self.system:
            if setting == "schemaCompatibilityStrategy":
                return self._broker.settings.systemTopicSchemaCompatibilityStrategy
            if setting == "isAllowAutoUpdateSchemaEnabled":
                return True
        return self.effective(setting)
