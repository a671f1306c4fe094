"""The figures of `topics stats` at the end of a recording.

They are computed before the Tracker finishes, because a finished Tracker has released its lifecycles and therefore has
no backlog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.statistics.message_balance import Balance, topic_balances
from pcli.codec.observe.tracking.statistics.topic_statistics import consumer_figures, topic_figures
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker

__all__ = ["FinalStatistics", "final_statistics_of"]


@dataclass(frozen=True, slots=True)
class FinalStatistics:
    """Figures at the end of the recording."""

    topics: dict[str, dict[str, Any]]
    """Figures by topic name, as returned by topic_statistics.topic_figures."""
    balances: dict[str, list[Balance]]
    """Balances of a topic and of its subscriptions, by topic name."""
    _consumers: dict[int, dict[str, Any]]
    now_ns: int

    def consumer(self, record: ConsumerRecord) -> dict[str, Any]:
        """Return the figures of a consumer; empty if the consumer is not attached."""
        return self._consumers.get(id(record), {})


def final_statistics_of(tracker: SubscriptionTracker, now_ns: int) -> FinalStatistics:
    """Return the figures at a time (ns since 1970). The result is valid as long as the tracker's records exist."""
    tracker.update(now_ns)
    books = tracker.lifecycles.topics.items()
    members = [
        one for _, book in books for subscription in book.subscriptions.values() for one in subscription.attached
    ]
    topics = {name: topic_figures(book, now_ns) for name, book in books if name}
    found = {name: list(topic_balances(book, now_ns)) for name, book in books if name}
    return FinalStatistics(topics, found, {id(one.record): consumer_figures(one) for one in members}, now_ns)
