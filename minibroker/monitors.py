"""The periodic checks of a broker's loaded topics (the monitors that class BrokerService starts).

Rules of this file
1. `check_gc` deletes a topic that had no subscriptions (or none with a backlog, depending on the mode) and no producers
   for the maximum inactive duration and, if it contains messages, for the retention time (PersistentTopic.checkGC,
   NonPersistentTopic.checkGC). System topics and segments are never deleted.
2. `check_message_expiry` applies the message TTL to each subscription (PersistentTopic.checkMessageExpiry), also when
   the TTL changes.
3. `check_inactive_subscriptions` deletes durable subscriptions that had no consumer for the expiration time
   (PersistentTopic.checkInactiveSubscriptions).
4. `check_consumed_ledgers` deletes ledgers that retention no longer keeps (BrokerService.checkConsumedLedgers).
5. `check_compaction` compacts topics by threshold (PersistentTopic.checkCompaction). Checks 2 and 3 omit the
   subscription of the compactor.
6. `check_deduplication_snapshot` stores the sequence ids of deduplication (PersistentTopic.checkDeduplicationSnapshot).
7. `check_backlog_quota` compares the backlog with the quotas (BrokerService.monitorBacklogQuota).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pcli.minibroker.scheduler import Interval
from pcli.minibroker.topics.topic_compaction import is_system_cursor

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.topics.broker_service import BrokerService
    from pcli.minibroker.topics.topic import Topic

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND


class Monitors:
    """The periodic checks of one broker. They run until the broker stops."""

    def __init__(
        self, broker: BrokerService, topics: Callable[[], Iterable[Topic]], delete: Callable[[TopicName], None]
    ) -> None:
        """``topics`` returns the loaded topics, and ``delete`` deletes a topic without clients."""
        self._broker = broker
        self._topics = topics
        self._delete = delete
        settings = broker.settings
        if settings.brokerDeleteInactiveTopicsEnabled:
            self._start(settings.brokerDeleteInactiveTopicsFrequencySeconds * _SECOND, self.check_gc)
        self._start(settings.messageExpiryCheckIntervalInMinutes * _MINUTE, self.check_message_expiry)
        self._start(settings.subscriptionExpiryCheckIntervalInMinutes * _MINUTE, self.check_inactive_subscriptions)
        self._start(settings.retentionCheckIntervalInSeconds * _SECOND, self.check_consumed_ledgers)
        self._start(settings.brokerServiceCompactionMonitorIntervalInSeconds * _SECOND, self.check_compaction)
        seconds = settings.brokerDeduplicationSnapshotFrequencyInSeconds
        self._start(seconds * _SECOND, self.check_deduplication_snapshot)
        if settings.backlogQuotaCheckEnabled:
            self._start(settings.backlogQuotaCheckIntervalInSeconds * _SECOND, self.check_backlog_quota)

    def _start(self, interval_ms: int, check: Callable[[Topic], None]) -> None:
        """Run a check on every topic at an interval. An interval of 0 disables the check."""

        def check_topics() -> None:
            for topic in list(self._topics()):
                check(topic)

        Interval(self._broker, interval_ms, check_topics)

    def check_gc(self, topic: Topic) -> None:
        """Delete a topic that is inactive for too long."""
        effective, now = topic.effective, self._broker.now
        exempt = topic.effective_policies.system or topic.name.domain == "segment"
        if exempt or not effective("brokerDeleteInactiveTopicsEnabled"):
            return
        if topic.producers or _has_subscriptions(topic, effective("brokerDeleteInactiveTopicsMode")):
            topic.last_active = now
            return
        longest = effective("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds") * _SECOND
        has_data = topic.ledger is not None and topic.ledger.next > topic.ledger.first
        retention = effective("defaultRetentionTimeInMinutes") * _MINUTE if has_data else 0
        if retention >= 0 and not topic.consumers and now - topic.last_active >= max(longest, retention):
            self._delete(topic.name)

    def check_message_expiry(self, topic: Topic) -> None:
        """Acknowledge messages that are older than the message TTL."""
        seconds = topic.effective("ttlDurationDefaultInSeconds")
        if seconds and topic.ledger is not None:
            for subscription in list(topic.subscriptions.values()):
                if not is_system_cursor(topic, subscription.name):
                    subscription.expire_messages(seconds)

    def policies_changed(self, topic: Topic) -> None:
        """Apply a changed message TTL now (PersistentTopic.maybeCheckMessageExpiryOnPolicyUpdateInBackground)."""
        seconds, policies = topic.effective("ttlDurationDefaultInSeconds"), topic.effective_policies
        if seconds != policies.last_ttl:
            policies.last_ttl = seconds
            self.check_message_expiry(topic)

    def check_inactive_subscriptions(self, topic: Topic) -> None:
        """Delete durable subscriptions without consumers that are inactive for too long."""
        longest = topic.effective("subscriptionExpirationTimeMinutes") * _MINUTE
        if longest <= 0 or not topic.persistent:
            return
        for one in list(topic.subscriptions.values()):
            idle = not one.consumers and not one.replicated and not is_system_cursor(topic, one.name)
            if idle and self._broker.now - one.last_active > longest:
                topic.remove_subscription(one)

    def check_consumed_ledgers(self, topic: Topic) -> None:
        """Delete closed ledgers that are acknowledged and not retained."""
        topic.trim()

    def check_compaction(self, topic: Topic) -> None:
        """Compact a topic whose uncompacted messages exceed the threshold."""
        if topic.compaction is not None:
            topic.compaction.check()

    def check_deduplication_snapshot(self, topic: Topic) -> None:
        """Store the sequence ids if the interval has passed."""
        if topic.deduplication_snapshot is not None:
            interval = topic.effective("brokerDeduplicationSnapshotIntervalSeconds")
            topic.deduplication_snapshot.check(interval, self._broker.now)

    def check_backlog_quota(self, topic: Topic) -> None:
        """Apply the policy of an exceeded backlog quota."""
        if topic.backlog_quota is not None:
            topic.backlog_quota.check()


def _has_subscriptions(topic: Topic, mode: str) -> bool:
    """Return whether subscriptions keep a topic active, depending on the deletion mode."""
    if mode == "delete_when_subscriptions_caught_up" and topic.persistent:
        return any(one.backlog for one in topic.subscriptions.values())
    return bool(topic.subscriptions)
