"""Statistics of scalable topics: the graph of segments, with messages, rates, backlogs and consumers of each.

Rules of this file
1. Counters of a segment are those of the topic that stores it (broker_statistics.py). A count is None if it is unknown,
   and "unknown" contains the reason.
2. The rate of a segment is its number of messages divided by the time from the first layout that contains it to its
   seal, or to the end.
3. The segments of a consumer are None if the capture has no assignment to it.
4. Times are seconds since the first frame of the capture.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord, SegmentRecord
from pcli.codec.observe.tracking.statistics.broker_statistics import figures
from pcli.codec.scalable.segment_name import HASHES

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker


def segment_figures(
    subscriptions: SubscriptionTracker, scalable: Iterable[ScalableTopicRecord], now_ns: int
) -> list[dict[str, Any]]:
    """Return scalable topics at a time in the capture, by name, without classic topics that clients looked up."""
    topics = figures(subscriptions, now_ns)
    start = subscriptions.capture.first_ns
    listed = sorted((one for one in scalable if one.name.startswith("topic://")), key=lambda one: one.name)
    return [_topic(one, topics, start, now_ns) for one in listed]


def _topic(topic: ScalableTopicRecord, topics: dict[str, Any], start_ns: int, now_ns: int) -> dict[str, Any]:
    def since(time_ns: int) -> float | None:
        return None if time_ns < 0 else round((time_ns - start_ns) / 1e9, 6)

    layout = topic.layout
    return {
        "topic": topic.name,
        "epoch": layout.epoch if layout is not None else None,
        "controller": topic.controller,
        "updates": topic.updates,
        "changes": [
            {
                "kind": one.change.kind, "before": list(one.change.before), "after": list(one.change.after),
                "epoch": one.change.epoch, "at": since(one.time_ns), "frame": one.frame,
            }
            for one in topic.changes
        ],
        "segments": [_segment(one, topics.get(one.name, {}), since, now_ns) for one in _in_order(topic)],
        "sessions": [
            {
                "stream": one.stream, "session": one.id, "began": since(one.began_ns), "ended": since(one.ended_ns),
                "epoch": one.epochs[-1][0] if one.epochs else None, "updates": one.updates, "repeated": one.repeated,
            }
            for one in topic.sessions
        ],
        "consumers": [
            {
                "subscription": one.subscription, "consumer": one.name, "type": one.type, "stream": one.stream,
                "frame": one.frame,
                "began": since(one.began_ns), "ended": since(one.ended_ns), "end": one.end,
                "segments": sorted(one.segments) if one.assignments else None,
                "shared": sorted(seg for seg, part in one.segments.items() if part),
            }
            for one in topic.consumers
        ],
        "hand_overs": [
            {
                "segment": one.segment, "subscription": one.subscription, "before": one.before, "after": one.after,
                "at": since(one.time_ns), "ready": since(one.ready_ns), "withdrawn": since(one.withdrawn_ns),
                "refused": one.busy.count, "frame": one.frame,
            }
            for one in topic.hand_overs
        ],
        "unattended": [
            {
                "segment": one.segment, "subscription": one.subscription, "consumer": one.consumer.name,
                "since": since(one.since_ns), "until": since(one.until_ns), "frame": one.since_frame,
            }
            for one in topic.unattended
        ],
        "contradictions": sorted(topic.contradictions),
    }  # fmt: skip


def _in_order(topic: ScalableTopicRecord) -> list[SegmentRecord]:
    """Return the segments so that children follow their first parent, in the order of ranges."""
    children: dict[int, list[SegmentRecord]] = {}
    for one in topic.segments.values():
        parents = one.segment.parents if one.segment is not None else ()
        known = [parent for parent in parents if parent in topic.segments and parent != one.id]
        children.setdefault(min(known, default=-1), []).append(one)
    found: dict[int, SegmentRecord] = {}
    left = sorted(children.get(-1, ()), key=_place, reverse=True)
    while left:
        one = left.pop()
        if one.id not in found:
            found[one.id] = one
            left += sorted(children.get(one.id, ()), key=_place, reverse=True)
    return [*found.values(), *(one for one in topic.segments.values() if one.id not in found)]


def _place(one: SegmentRecord) -> tuple[int, int]:
    return one.start, one.id


def _segment(one: SegmentRecord, stats: dict[str, Any], since: Any, now_ns: int) -> dict[str, Any]:
    messages = stats.get("msgInCounter", 0)
    until_ns = one.sealed_ns if one.sealed else now_ns
    seconds = (until_ns - one.first_ns) / 1e9 if one.first_ns >= 0 else 0
    return {
        "segment": one.id,
        "name": one.name,
        "state": one.state,
        "first_hash": one.start,
        "last_hash": one.end,
        "share": round((one.end - one.start + 1) / HASHES, 6),
        "parents": list(one.segment.parents) if one.segment is not None else [],
        "children": list(one.segment.children) if one.segment is not None else [],
        "buckets": len(one.segment.bucket_starts) + 1 if one.segment is not None else None,
        "broker": one.owner,
        "sealed": since(one.sealed_ns),
        "pruned": since(one.pruned_ns),
        "messages_in": messages,
        "rate_in": round(messages / seconds, 3) if messages is not None and seconds > 0 else None,
        "subscriptions": {
            name: {
                "msgBacklog": subscription["msgBacklog"],
                "unackedMessages": subscription["unackedMessages"],
                "msgOutCounter": subscription["msgOutCounter"],
                "drained": since(one.drained(name, subscription["msgBacklog"])[0]),
                "consumers": [consumer["consumerName"] for consumer in subscription["consumers"]],
            }
            for name, subscription in stats.get("subscriptions", {}).items()
        },
        "unknown": stats.get("unknown", {}),
    }
