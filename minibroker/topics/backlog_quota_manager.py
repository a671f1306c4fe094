"""BacklogQuotaManager: the backlog quotas of one topic (BacklogQuotaManager, PersistentTopic).

Rules of this file
1. The backlog by size is the estimated size of the messages after the slowest durable cursor. It is compared with the
   quota when a producer is created and at every check.
2. The age is that of the oldest unacknowledged message. It is estimated: the age of a message is the time since its
   ledger was closed, and messages in the open ledger have no age. If ``preciseTimeBasedBacklogQuotaCheck`` is set, the
   age is the time since the message was published. The statistics contain the age as of the last check. A check
   computes the age again only if the slowest cursor has moved.
3. If the policy is ``producer_request_hold`` or ``producer_exception``, a check closes the producers, and new producers
   are refused, each policy with its own error. Stored messages are never refused.
4. If the policy is ``consumer_backlog_eviction``, a check acknowledges messages: by size until 90 % of the quota are
   left, by age whole ledgers, or precisely the messages older than 90 % of the quota.
5. Quotas do not apply to system topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused, service_exception
from pcli.minibroker.policies.backlog_quotas import AGE, SIZE
from pcli.minibroker.storage.backlog_size import backlog_size
from pcli.minibroker.storage.ledger import timestamp

if TYPE_CHECKING:
    from pcli.minibroker.storage.cursor import ManagedCursor
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

_ERRORS: Final = {
    "producer_request_hold": pb.ProducerBlockedQuotaExceededError,
    "producer_exception": pb.ProducerBlockedQuotaExceededException,
}
"""The error that a refused producer gets for each policy."""

_REFUSAL: Final = service_exception(
    "TopicBacklogQuotaExceededException", "Cannot create producer on topic with backlog quota exceeded"
)


class OldestPosition(NamedTuple):
    """The slowest durable cursor and the age of its backlog (OldestPositionInfo)."""

    mark_delete: int
    subscription: str
    published: int
    """The time from which the age is counted, in milliseconds since 1970."""


class BacklogQuotaManager:
    """The backlog quotas of one persistent topic."""

    __slots__ = ("_ledger", "_topic", "evictions", "oldest")

    def __init__(self, topic: Topic, ledger: ManagedLedger) -> None:
        self._topic = topic
        self._ledger = ledger
        self.oldest: OldestPosition | None = None
        """The oldest position at the last check, or None if there is no backlog with an age."""
        self.evictions = {SIZE: 0, AGE: 0}
        """Number of evictions by kind of quota."""

    def limit_size(self) -> int:
        """Return the quota by size, in bytes; negative if there is none."""
        return int(self._quota(SIZE)["limitSize"])

    def limit_time(self) -> int:
        """Return the quota by age, in seconds; 0 or less if there is none."""
        return int(self._quota(AGE)["limitTime"])

    def _quota(self, kind: str) -> dict[str, int | str]:
        return self._topic.broker.policies.backlog_quota(self._topic.name, kind)

    # -- checks --------------------------------------------------------------------------------------------------------

    def check_producer(self) -> None:
        """Raise Refused if a quota is exceeded whose policy does not permit new producers."""
        for kind, is_exceeded in ((SIZE, self._is_size_exceeded), (AGE, self._is_age_exceeded)):
            error = _ERRORS.get(str(self._quota(kind)["policy"]))
            if error is None:
                continue
            if kind == AGE:
                self._update_oldest()
            if is_exceeded():
                raise Refused(error, _REFUSAL)

    def check(self) -> None:
        """Apply the policy of an exceeded quota (BrokerService.monitorBacklogQuota)."""
        self._update_oldest()
        if self._is_size_exceeded():
            self._apply(SIZE)
        elif self._is_age_exceeded():
            self._apply(AGE)

    def _is_size_exceeded(self) -> bool:
        limit = self.limit_size()
        if limit < 0 or self._topic.effective_policies.system:
            return False
        cursor = self._slowest_cursor()
        return (0 if cursor is None else self._backlog_size(cursor)) >= limit

    def _is_age_exceeded(self) -> bool:
        limit = self.limit_time()
        if limit <= 0 or self.oldest is None or self._topic.effective_policies.system:
            return False
        return self._topic.broker.now > self.oldest.published + limit * 1000

    def _backlog_size(self, cursor: ManagedCursor) -> int:
        return backlog_size(self._ledger, cursor.mark_delete)

    def _slowest_cursor(self) -> ManagedCursor | None:
        """Return the slowest durable cursor, or None. The cursor of deduplication precedes others at its position."""
        snapshot = self._topic.deduplication_snapshot
        cursors = [] if snapshot is None else [snapshot.cursor]
        cursors += [one.cursor for one in self._topic.subscriptions.values() if one.cursor is not None and one.durable]
        return min(cursors, key=lambda one: one.mark_delete, default=None)

    def _slowest(self, tie: Subscription | None = None) -> tuple[Subscription, ManagedCursor] | None:
        """Return the slowest durable subscription and its cursor, or None. ``tie`` precedes others at its position."""
        found: tuple[Subscription, ManagedCursor] | None = None
        for one in self._topic.subscriptions.values():
            if one.cursor is None or not one.durable:
                continue
            before = one.cursor.mark_delete if found is None else found[1].mark_delete
            if found is None or one.cursor.mark_delete < before or (one is tie and one.cursor.mark_delete == before):
                found = one, one.cursor
        return found

    def _update_oldest(self) -> None:
        """Find the oldest position again if the slowest cursor has moved (updateOldPositionInfo)."""
        cursor = self._slowest_cursor()
        if cursor is None or not any(one.backlog for one in self._topic.subscriptions.values()):
            self.oldest = None
            return
        known = self.oldest
        if known is not None and known.mark_delete == cursor.mark_delete >= self._ledger.first - 1:
            published: int | None = known.published
        else:
            published = self._published(cursor.mark_delete + 1)
        self.oldest = None if published is None else OldestPosition(cursor.mark_delete, cursor.name, published)

    def _published(self, offset: int) -> int | None:
        """Return the time from which the age of an entry is counted, or None if the entry has no age."""
        if self._topic.broker.settings.preciseTimeBasedBacklogQuotaCheck:
            entry = self._ledger.entry(max(offset, self._ledger.first))
            return None if entry is None else timestamp(entry)
        return next((one.closed_ms for one in self._ledger.ledgers[:-1] if offset < one.base + one.entries), None)

    # -- effects -------------------------------------------------------------------------------------------------------

    def _apply(self, kind: str) -> None:
        topic, quota = self._topic, self._quota(kind)
        if topic.fenced:
            return
        if quota["policy"] in _ERRORS:
            topic.disconnect_producers()
            return
        self.evictions[kind] += 1
        if kind == SIZE:
            self._evict_by_size(self.limit_size())
        elif topic.broker.settings.preciseTimeBasedBacklogQuotaCheck:
            self._expire(_target(self.limit_time()))
        else:
            self._evict_ledgers(self.limit_time() * 1000)

    def _evict_by_size(self, limit: int) -> None:
        """Skip entries of the slowest subscription, and then of the next slowest (dropBacklogForSizeLimit)."""
        target = _target(limit)
        previous: Subscription | None = None
        while (slowest := self._slowest(previous)) is not None:
            subscription, cursor = slowest
            size = self._backlog_size(cursor)
            skipped = int((size - target) * subscription.backlog / size) if size > target else 0
            if subscription is previous or skipped <= 0:
                return
            subscription.advance_mark_delete(min(cursor.mark_delete + skipped, self._ledger.next - 1))
            previous = subscription

    def _expire(self, seconds: int) -> None:
        for subscription in list(self._topic.subscriptions.values()):
            if seconds > 0:
                subscription.expire_messages(seconds)

    def _evict_ledgers(self, limit_ms: int) -> None:
        """Skip the closed ledgers that are older than the quota (dropBacklogForTimeLimit)."""
        now = self._topic.broker.now
        while (slowest := self._slowest()) is not None:
            subscription, cursor = slowest
            offset = cursor.mark_delete + 1
            ledger = next((one for one in self._ledger.ledgers[:-1] if offset < one.base + one.entries), None)
            if ledger is None or ledger.closed_ms is None or now - ledger.closed_ms <= limit_ms:
                return
            subscription.advance_mark_delete(ledger.base + ledger.entries - 1)
            cursor.skip_closed_ledger()
            self._topic.trim()


def _target(limit: int) -> int:
    """Return the part of a quota that is left after an eviction (computeEvictionTarget)."""
    return int(0.9 * limit)
