"""The columns of the table `balances`: one row for each topic, and one for each of its subscriptions.

A value that is not known is null; the column ``unknown`` contains the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.system_topics import is_system_subscription
from pcli.codec.observe.tracking.statistics.message_balance import Balance
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.spark.columnar.observation.final_statistics import FinalStatistics
from pcli.spark.columnar.observation.record_columns import REASONS, Cell, cell, known, reasons
from pcli.spark.columnar.table_schema import BOOL, LONG, TEXT

__all__ = ["BALANCE_CELLS", "FinalBalance", "balances_of"]


@dataclass(frozen=True, slots=True)
class FinalBalance:
    """A balance at the end of the recording."""

    balance: Balance
    system: bool
    """Whether the topic or the subscription belongs to the broker's internal traffic."""


def balances_of(
    tracker: SubscriptionTracker, statistics: FinalStatistics, is_own: Callable[[Any], bool]
) -> list[FinalBalance]:
    """Return the balances of all topics and subscriptions; ``is_own`` selects the records of this part."""
    found = []
    for name, balances in statistics.balances.items():
        record = tracker.lifecycles.topics[name].record
        if is_own(record):
            for one in balances:
                system = record.system or (bool(one.subscription) and is_system_subscription(one.subscription))
                found.append(FinalBalance(one, system))
    return found


_HELP: Final = {
    "sent": "topic: messages that producers sent, without resends",
    "refused": "topic: messages whose last response is an error, or that a non-persistent topic dropped at once",
    "deduplicated": "topic: messages that deduplication dropped and that have no other copy in the capture",
    "stored": "messages in the topic, or available to the subscription, including copies",
    "stored_twice": "topic: stored messages that were stored before: resent, or sent again after a restart",
    "aborted": "topic: stored messages of aborted transactions",
    "delivered": "subscription: messages that were delivered at least once",
    "redelivered": "subscription: further deliveries of these messages",
    "acknowledged": "subscription: delivered messages that are acknowledged",
    "dropped": "subscription: messages of a non-persistent topic that no consumer received",
    "skipped": "subscription: messages that were never delivered and that the cursor has passed",
    "removed": "subscription: messages that were not acknowledged when the subscription was removed",
    "remaining": "subscription: messages that are not acknowledged, delivered or not",
    "unknown": "messages without a response (topic), or whose state the capture does not show (subscription)",
}
"""Descriptions of the values."""

_COLUMNS: Final = {name: "unaccounted" if name == "unknown" else name for name in _HELP}
"""The column of each value. The column ``unknown`` contains reasons, as in other tables."""


def _value(name: str) -> Callable[[FinalBalance], int | None]:
    return lambda one: one.balance.values.get(name)


BALANCE_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name", lambda one: one.balance.topic),
    cell("subscription", TEXT, "name; null in the row of the topic", lambda one: known(one.balance.subscription)),
    cell("system", BOOL, "true if the row belongs to the broker's internal traffic", lambda one: one.system),
    *(cell(_COLUMNS[name], LONG, text, _value(name)) for name, text in _HELP.items()),
    cell("unknown", REASONS, "reasons for null values", lambda one: reasons(one.balance.reasons, _COLUMNS)),
)
"""All columns of `balances` except the cluster."""
