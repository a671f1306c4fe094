"""The columns of the tables `topics`, `subscriptions`, `keys` and `balances`, and the statistics at the end.

Rules of this file
1. The figures of `topics stats` are computed before the Tracker finishes, because a finished Tracker has released its
   lifecycles and therefore has no backlog.
2. An unknown figure is null; the column ``unknown`` contains the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from pcli.codec.observe.system_topics import is_system_subscription
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.topic_records import KeyRecord, SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.statistics.broker_statistics import consumer_figures, topic_figures
from pcli.codec.observe.tracking.statistics.message_balance import Balance, topic_balances
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.spark.columnar.observation.record_columns import (
    COUNTS,
    DOUBTS,
    REASONS,
    UNKNOWN,
    Cell,
    cell,
    count_of,
    counts_of,
    duration_of,
    figure,
    known,
    known_of,
    non_negative,
    non_negative_of,
    of,
)
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, many


@dataclass(frozen=True, slots=True)
class FinalTopic:
    """A topic at the end of the recording."""

    record: TopicRecord
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FinalSubscription:
    """A subscription at the end of the recording."""

    record: SubscriptionRecord
    figures: dict[str, Any]
    """The statistics of the subscription; empty if the broker removed the subscription, or if it was never opened."""
    now_ns: int


def topics_of(
    tracker: SubscriptionTracker, standing: FinalStatistics, is_own: Callable[[object], bool]
) -> tuple[list[FinalTopic], list[FinalSubscription]]:
    """Return all topics with known names, and their subscriptions that have a captured SUBSCRIBE.

    ``is_own`` selects the records of this part.
    """
    topics: list[FinalTopic] = []
    subscriptions: list[FinalSubscription] = []
    now = standing.now_ns
    for state in tracker.lifecycles.topics.values():
        found = standing.topics.get(state.record.name)
        if found is not None and is_own(state.record):
            topics.append(FinalTopic(state.record, found))
            nameless = {name for name, one in state.subscriptions.items() if one.unidentified}
            known = ((name, one) for name, one in state.record.subscriptions.items() if name not in nameless)
            subscriptions += (FinalSubscription(one, found["subscriptions"].get(name, {}), now) for name, one in known)
    return topics, subscriptions


def keys_of(tracker: SubscriptionTracker, is_own: Callable[[object], bool]) -> Iterator[dict[str, Any]]:
    """Yield the retained keys of Key_Shared subscriptions, as Keys.rows does, with topic and subscription."""
    for topic in tracker.lifecycles.topics.values():
        for state in topic.subscriptions.values():
            if state.keys is not None and is_own(state.record):
                records: dict[str, KeyRecord] = state.keys.records
                system = topic.record.system or is_system_subscription(state.record.name)
                for row in state.keys.rows():
                    record = records.get(row["key"])
                    yield {**row, "subscription": state.record, "record": record, "system": system}


TOPIC_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name", of("name")),
    cell("system", BOOL, "true if the topic belongs to the broker's internal traffic", of("system")),
    cell("persistent", BOOL, "true if the topic is persistent", of("persistent")),
    figure("msgInCounter", LONG, "messages published since the broker loaded the topic; null if the number is unknown"),
    UNKNOWN,
    cell("messages_in", LONG, "messages published in the capture", of("messages_in")),
    cell("bytes_in", LONG, "bytes of those messages, as counted by Pulsar", of("bytes_in")),
    cell("entries_in", LONG, "stored entries", of("entries_in")),
    cell("last_in_ns", LONG, "time of the last stored entry", non_negative_of("last_in_ns")),
    cell("last_ledger", LONG, "ledger of its highest captured message id",
         lambda one: non_negative(one.record.last_id[0])),
    cell("last_entry", LONG, "entry of its highest captured message id",
         lambda one: non_negative(one.record.last_id[1])),
    cell("sent_elsewhere", LONG, "messages that clients sent again to another segment because this segment was sealed",
         of("messages.moved")),
    cell("deduplicates", BOOL, "true if the broker dropped duplicates in the capture", of("deduplicates")),
    cell("unloads", LONG, "number of times that the broker closed its producers and consumers without a request",
         count_of("unloads")),
    DOUBTS,
)  # fmt: skip
"""All columns of `topics` except the cluster."""

SUBSCRIPTION_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name", known_of("topic.name")),
    cell("subscription", TEXT, "name", of("name")),
    cell("system", BOOL, "true if the subscription belongs to the broker's internal traffic",
         lambda one: one.record.topic.system or is_system_subscription(one.record.name)),
    cell("type", TEXT, "Exclusive, Shared, Failover, Key_Shared; null if the type is unknown", known_of("type")),
    cell("durable", BOOL, "true if the subscription is durable", of("durable")),
    cell("gone", BOOL, "true if the subscription was deleted", of("gone")),
    cell("key_shared_mode", TEXT, "AUTO_SPLIT, STICKY; null if the type is not Key_Shared or the mode is unknown",
         known_of("key_shared_mode")),
    cell("consumers", LONG, "number of consumers in the capture", lambda one: len(one.record.consumers)),
    figure("msgBacklog", LONG, "unacknowledged entries at the end of the capture; null if the number is unknown"),
    figure("msgOutCounter", LONG,
           "messages delivered since the broker loaded the topic; null if the number is unknown"),
    figure("unackedMessages", LONG, "messages that its consumers hold; null if the number is unknown"),
    figure("blockedSubscriptionOnUnackedMsgs", BOOL, "value that `topics stats` reports; null if it is unknown"),
    UNKNOWN,
    cell("delivered", LONG, "messages delivered to all consumers, including all messages of batches", of("delivered")),
    cell("entries_out", LONG, "entries that contained those messages", of("entries_out")),
    cell("redelivered", COUNTS, "redelivered messages by cause (see docs/tables.md)", counts_of("again")),
    cell("redelivered_per_second", LONG, "maximum number of redelivered entries in one second",
         of("redelivered_per_second")),
    cell("redelivered_peak_ns", LONG, "start of that second", known_of("redelivered_peak_ns")),
    cell("dead_lettered", LONG, "messages that clients sent to a dead letter topic", count_of("dead_lettered")),
    cell("seeks", LONG, "number of SEEKs", count_of("seeks")),
    cell("hash_waits", LONG, "number of times that entries of a key waited for another consumer",
         count_of("hash_waits")),
    cell("hash_waits_ns", LONG, "total duration of these waits", duration_of("hash_waits")),
    cell("order_broken", LONG, "messages that were delivered in violation of the order of their key",
         count_of("order_broken")),
    DOUBTS,
)  # fmt: skip
"""All columns of `subscriptions` except the cluster."""

KEY_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name", lambda one: known(one["subscription"].topic.name)),
    cell("subscription", TEXT, "name", lambda one: one["subscription"].name),
    cell("system", BOOL, "true if the subscription belongs to the broker's internal traffic", itemgetter("system")),
    cell("key", TEXT, "key as text; base64 if it is binary", itemgetter("key")),
    cell("slot", INT, "sticky hash, 0 to 65535", itemgetter("slot")),
    cell("owner", TEXT, "consumer that received the key last", itemgetter("owner")),
    cell("owners", many(TEXT), "consumers that received the key, in order (at most 8)", itemgetter("owners")),
    cell("moved", LONG, "number of times that the key moved to another consumer", itemgetter("moved")),
    cell("open_at_two", LONG, "messages delivered while another consumer held messages with this key",
         itemgetter("open_at_two")),
    cell("backwards", LONG, "messages first delivered after a later message", itemgetter("backwards")),
    cell("order_broken", BOOL, "true if open_at_two or backwards is not 0",
         lambda one: bool(one["open_at_two"] or one["backwards"])),
    cell("broken_frames", many(LONG), "frames of the evidence", lambda one: _broken(one["record"])),
    cell("held", LONG, "entries with this key that consumers hold at the end of the capture", itemgetter("held")),
    cell("doubts", many(TEXT), "reasons why evidence may be incomplete (see docs/tables.md)",
         lambda one: sorted(one["subscription"].doubts)),
)  # fmt: skip
"""All columns of `keys` except the cluster."""


def _broken(record: KeyRecord | None) -> list[int]:
    return [] if record is None else sorted({*record.open_at_two.frames, *record.backwards.frames})


@dataclass(frozen=True, slots=True)
class FinalStatistics:
    """Figures at the end of the recording."""

    topics: dict[str, dict[str, Any]]
    """Figures by topic name, as returned by broker_statistics.topic_figures."""
    balances: dict[str, list[Balance]]
    """Balances of a topic and of its subscriptions, by topic name."""
    _consumers: dict[int, dict[str, Any]]
    now_ns: int

    def consumer(self, record: ConsumerRecord) -> dict[str, Any]:
        """Return the figures of a consumer; empty if the consumer is not attached."""
        return self._consumers.get(id(record), {})


def final_statistics_of(tracker: SubscriptionTracker, now_ns: int) -> FinalStatistics:
    """Return the figures at a time (ns since 1970). The result is valid as long as the tracker's records exist."""
    tracker.conclude(now_ns)
    books = tracker.lifecycles.topics.items()
    members = [
        one for _, book in books for subscription in book.subscriptions.values() for one in subscription.attached
    ]
    topics = {name: topic_figures(book, now_ns) for name, book in books if name}
    found = {name: list(topic_balances(book, now_ns)) for name, book in books if name}
    return FinalStatistics(topics, found, {id(one.record): consumer_figures(one) for one in members}, now_ns)


@dataclass(frozen=True, slots=True)
class FinalBalance:
    """A balance at the end of the recording."""

    balance: Balance
    system: bool
    """Whether the topic or the subscription belongs to the broker's internal traffic."""


def balances_of(
    tracker: SubscriptionTracker, statistics: FinalStatistics, is_own: Callable[[object], bool]
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

_BALANCE_COLUMNS: Final = {name: "unaccounted" if name == "unknown" else name for name in _HELP}
"""The column of each value. The column ``unknown`` contains reasons, as in other tables."""


def _value(name: str) -> Callable[[FinalBalance], int | None]:
    return lambda one: one.balance.values.get(name)


def _balance_reasons(one: FinalBalance) -> list[dict[str, str]]:
    return [{"figure": _BALANCE_COLUMNS[name], "reason": why} for name, why in one.balance.reasons.items()]


BALANCE_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name", lambda one: one.balance.topic),
    cell("subscription", TEXT, "name; null in the row of the topic", lambda one: known(one.balance.subscription)),
    cell("system", BOOL, "true if the row belongs to the broker's internal traffic", lambda one: one.system),
    *(cell(_BALANCE_COLUMNS[name], LONG, text, _value(name)) for name, text in _HELP.items()),
    cell("unknown", REASONS, "reasons for null values", _balance_reasons),
)
"""All columns of `balances` except the cluster."""
