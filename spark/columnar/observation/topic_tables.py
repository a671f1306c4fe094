"""The columns of the tables `topics`, `subscriptions` and `keys`.

An unknown figure of `topics stats` is null; the column ``unknown`` contains the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.system_topics import is_system_subscription
from pcli.codec.observe.tracking.records.topic_records import KeyRecord, SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.spark.columnar.observation.final_statistics import FinalStatistics
from pcli.spark.columnar.observation.record_columns import (
    COUNTS,
    REASONS,
    Cell,
    cell,
    counts,
    known,
    non_negative,
    reasons,
    state_duration,
)
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, many

__all__ = ["KEY_CELLS", "SUBSCRIPTION_CELLS", "TOPIC_CELLS", "FinalSubscription", "FinalTopic", "keys_of", "topics_of"]


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
    tracker: SubscriptionTracker, standing: FinalStatistics, is_own: Callable[[Any], bool]
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


def keys_of(tracker: SubscriptionTracker, is_own: Callable[[Any], bool]) -> Iterator[dict[str, Any]]:
    """Yield the retained keys of Key_Shared subscriptions, as Keys.rows does, with topic and subscription."""
    for topic in tracker.lifecycles.topics.values():
        for state in topic.subscriptions.values():
            if state.keys is not None and is_own(state.record):
                records: dict[str, KeyRecord] = state.keys.records
                system = topic.record.system or is_system_subscription(state.record.name)
                for row in state.keys.rows():
                    record = records.get(row["key"])
                    yield {**row, "subscription": state.record, "record": record, "system": system}


_TOPIC: Final = {"msgInCounter": "msg_in_counter"}

_SUBSCRIPTION: Final = {
    "msgBacklog": "msg_backlog",
    "msgOutCounter": "msg_out_counter",
    "unackedMessages": "unacked_messages",
    "blockedSubscriptionOnUnackedMsgs": "blocked_subscription_on_unacked_msgs",
}

TOPIC_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name", lambda one: one.record.name),
    cell("system", BOOL, "true if the topic belongs to the broker's internal traffic", lambda one: one.record.system),
    cell("persistent", BOOL, "true if the topic is persistent", lambda one: one.record.persistent),
    cell("msg_in_counter", LONG, "messages published since the broker loaded the topic; null if the number is unknown",
         lambda one: one.figures["msgInCounter"]),
    cell("unknown", REASONS, "reasons for null values", lambda one: reasons(one.figures.get("unknown", {}), _TOPIC)),
    cell("messages_in", LONG, "messages published in the capture", lambda one: one.record.messages_in),
    cell("bytes_in", LONG, "bytes of those messages, as counted by Pulsar", lambda one: one.record.bytes_in),
    cell("entries_in", LONG, "stored entries", lambda one: one.record.entries_in),
    cell("last_in_ns", LONG, "time of the last stored entry", lambda one: non_negative(one.record.last_in_ns)),
    cell("last_ledger", LONG, "ledger of its highest captured message id",
         lambda one: non_negative(one.record.last_id[0])),
    cell("last_entry", LONG, "entry of its highest captured message id",
         lambda one: non_negative(one.record.last_id[1])),
    cell("deduplicates", BOOL, "true if the broker dropped duplicates in the capture",
         lambda one: one.record.deduplicates),
    cell("unloads", LONG, "number of times that the broker closed its producers and consumers without a request",
         lambda one: one.record.unloads.count),
    cell("doubts", many(TEXT), "reasons why evidence may be incomplete (see docs/tables.md)",
         lambda one: sorted(one.record.doubts)),
)  # fmt: skip
"""All columns of `topics` except the cluster."""

SUBSCRIPTION_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name", lambda one: known(one.record.topic.name)),
    cell("subscription", TEXT, "name", lambda one: one.record.name),
    cell("system", BOOL, "true if the subscription belongs to the broker's internal traffic",
         lambda one: one.record.topic.system or is_system_subscription(one.record.name)),
    cell("type", TEXT, "Exclusive, Shared, Failover, Key_Shared; null if the type is unknown",
         lambda one: known(one.record.type)),
    cell("durable", BOOL, "true if the subscription is durable", lambda one: one.record.durable),
    cell("gone", BOOL, "true if the subscription was deleted", lambda one: one.record.gone),
    cell("key_shared_mode", TEXT, "AUTO_SPLIT, STICKY; null if the type is not Key_Shared or the mode is unknown",
         lambda one: known(one.record.key_shared_mode)),
    cell("consumers", LONG, "number of consumers in the capture", lambda one: len(one.record.consumers)),
    cell("msg_backlog", LONG, "unacknowledged entries at the end of the capture; null if the number is unknown",
         lambda one: one.figures.get("msgBacklog")),
    cell("msg_out_counter", LONG, "messages delivered since the broker loaded the topic; null if the number is unknown",
         lambda one: one.figures.get("msgOutCounter")),
    cell("unacked_messages", LONG, "messages that its consumers hold; null if the number is unknown",
         lambda one: one.figures.get("unackedMessages")),
    cell("blocked_subscription_on_unacked_msgs", BOOL, "value that `topics stats` reports; null if it is unknown",
         lambda one: one.figures.get("blockedSubscriptionOnUnackedMsgs")),
    cell("unknown", REASONS, "reasons for null values",
         lambda one: reasons(one.figures.get("unknown", {}), _SUBSCRIPTION)),
    cell("delivered", LONG, "messages delivered to all consumers, including all messages of batches",
         lambda one: one.record.delivered),
    cell("entries_out", LONG, "entries that contained those messages", lambda one: one.record.entries_out),
    cell("redelivered", COUNTS, "redelivered messages by cause (see docs/tables.md)",
         lambda one: counts(one.record.again)),
    cell("redelivered_per_second", LONG, "maximum number of redelivered entries in one second",
         lambda one: one.record.redelivered_per_second),
    cell("redelivered_peak_ns", LONG, "start of that second", lambda one: known(one.record.redelivered_peak_ns)),
    cell("dead_lettered", LONG, "messages that clients sent to a dead letter topic",
         lambda one: one.record.dead_lettered.count),
    cell("seeks", LONG, "number of SEEKs", lambda one: one.record.seeks.count),
    cell("hash_waits", LONG, "number of times that entries of a key waited for another consumer",
         lambda one: one.record.hash_waits.count),
    cell("hash_waits_ns", LONG, "total duration of these waits",
         lambda one: state_duration(one.record.hash_waits, one.now_ns)),
    cell("order_broken", LONG, "messages that were delivered in violation of the order of their key",
         lambda one: one.record.order_broken.count),
    cell("doubts", many(TEXT), "reasons why evidence may be incomplete (see docs/tables.md)",
         lambda one: sorted(one.record.doubts)),
)  # fmt: skip
"""All columns of `subscriptions` except the cluster."""

KEY_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name", lambda one: known(one["subscription"].topic.name)),
    cell("subscription", TEXT, "name", lambda one: one["subscription"].name),
    cell("system", BOOL, "true if the subscription belongs to the broker's internal traffic",
         lambda one: one["system"]),
    cell("key", TEXT, "key as text; base64 if it is binary", lambda one: one["key"]),
    cell("slot", INT, "sticky hash, 0 to 65535", lambda one: one["slot"]),
    cell("owner", TEXT, "consumer that received the key last", lambda one: one["owner"]),
    cell("owners", many(TEXT), "consumers that received the key, in order (at most 8)", lambda one: one["owners"]),
    cell("moved", LONG, "number of times that the key moved to another consumer", lambda one: one["moved"]),
    cell("open_at_two", LONG, "messages delivered while another consumer held messages with this key",
         lambda one: one["open_at_two"]),
    cell("backwards", LONG, "messages first delivered after a later message", lambda one: one["backwards"]),
    cell("order_broken", BOOL, "true if open_at_two or backwards is not 0",
         lambda one: bool(one["open_at_two"] or one["backwards"])),
    cell("broken_frames", many(LONG), "frames of the evidence", lambda one: _broken(one["record"])),
    cell("held", LONG, "entries with this key that consumers hold at the end of the capture", lambda one: one["held"]),
    cell("doubts", many(TEXT), "reasons why evidence may be incomplete (see docs/tables.md)",
         lambda one: sorted(one["subscription"].doubts)),
)  # fmt: skip
"""All columns of `keys` except the cluster."""


def _broken(record: KeyRecord | None) -> list[int]:
    return [] if record is None else sorted({*record.open_at_two.frames, *record.backwards.frames})
