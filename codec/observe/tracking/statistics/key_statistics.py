"""Statistics of Key_Shared keys as plain values: slots of consumers, moves, and violations of the order.

Rules of this file
1. The SUBSCRIBE of a STICKY consumer contains its slots. If the mode is AUTO_SPLIT, no frame contains the slots; each
   slot of a known key is listed with the consumer that last received the key.
2. A slot is one of the 65536 that sticky ranges use. A broker with consistent hashing has a ring of a different size,
   where neighbouring slots may belong to different consumers, so ranges are not inferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcli.codec.observe.tracking.records.counters import StateDuration
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker

_Row = dict[str, Any]


def key_figures(tracker: SubscriptionTracker, now_ns: int, *, system: bool = False) -> list[_Row]:
    """Return a row for each Key_Shared subscription at a time in ns since 1970.

    "keys" lists the keys in memory; it is None if the subscription was removed. If ``system`` is set, the broker's own
    subscriptions are included.
    """
    found = []
    for topic in tracker.topics_at(now_ns).values():
        for record in topic.record.subscriptions.values():
            if record.type == "Key_Shared" and (system or not topic.record.system):
                subscription = topic.subscriptions.get(record.name)
                rows = subscription.keys.rows() if subscription is not None and subscription.keys is not None else []
                found.append(_subscription(record, None if subscription is None else rows, now_ns))
    return found


def _subscription(record: SubscriptionRecord, keys: list[_Row] | None, now_ns: int) -> _Row:
    found: _Row = {
        "topic": record.topic.name,
        "subscription": record.name,
        "keySharedMode": record.key_shared_mode,
        "allowOutOfOrderDelivery": record.allow_out_of_order,
        "consumers": _consumers(record, keys or []),
        "keys": keys,
        "batches": record.key_batches,
        "mixed_batches": record.mixed_batches.count,
        "split_keys": record.split_keys.count,
        "order_broken": record.order_broken.count,
        "order_broken_frames": record.order_broken.frames,
        "waits": _waits(record, now_ns),
        "doubts": [DOUBTS[word] for word in sorted(record.doubts - {"end"})],
    }
    if keys is None:
        found["unknown"] = {"keys": "the subscription and its keys were removed"}
    return found


def _consumers(record: SubscriptionRecord, keys: list[_Row]) -> list[_Row]:
    """Return a row for each consumer that the broker accepted, in the order of arrival."""
    found = []
    for one in record.consumers.values():
        if one.session is None or one.session.ready_ns < 0:
            continue
        slots = [key["slot"] for key in keys if key["owner"] == one.name]
        found.append(
            {
                "consumer": one.name,
                "attached": not one.session.end,
                "keyHashRanges": [list(pair) for pair in one.key_ranges] or None,
                "keys_seen": len(slots),
                "slots_seen": sorted(set(slots)),
            }
        )
    return found


def _waits(record: SubscriptionRecord, now_ns: int) -> _Row:
    """Return the number and duration of the waits for another consumer that held earlier entries of a key."""
    waits: StateDuration = record.hash_waits
    lasts = now_ns - waits.since_ns if waits.since_ns >= 0 else 0
    return {
        "count": waits.count,
        "seconds": (waits.total_ns + lasts) / 1e9,
        "longest_seconds": max(waits.longest_ns, lasts) / 1e9,
        "longest_frames": [frame for frame in waits.longest_frames if frame],
        "waiting": waits.since_ns >= 0,
        "holder": record.hash_holder or None,
    }
