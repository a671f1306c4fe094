"""Statistics of scalable topics, from those of their segments.

Rules of this file
1. A value is the sum over the segments that the capture contains, also sealed and pruned segments. It is None if the
   value of a segment is None; the reason names the segment.
2. Consumers of one name on several segments are one consumer: a V5 client adds ``-seg-`` and the number of the segment.
3. A message that a client sent again to another segment, because its first segment was sealed, is one message: it
   counts where it was sent last. If both copies were stored, one of them counts as ``stored_twice``.
4. A split copies the subscriptions of a segment to its children, without a frame. If a durable subscription has no
   consumer in the capture on a segment with messages, the values that depend on that segment are None.
5. An ordinary topic with the name of a scalable topic is counted in it. Classic topics that became segments in a
   migration are topics of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pcli.codec.observe.text_format import short_topic
from pcli.codec.observe.tracking.records.message_counts import PublishCounts
from pcli.codec.observe.tracking.records.topic_records import TopicRecord
from pcli.codec.observe.tracking.statistics.message_balance import Balance
from pcli.codec.scalable.segment_name import name_without_segment, scalable_topic

_Stats = dict[str, Any]


def sum_figures(figures: Mapping[str, _Stats], topic_of: Callable[[str], TopicRecord]) -> dict[str, _Stats]:
    """Return the result of `broker_statistics.figures` with one object for each scalable topic, by name.

    ``topic_of`` returns the record of a topic by its name.
    """
    found: dict[str, _Stats] = {}
    for name, members in _grouped(figures, lambda topic: topic).items():
        if not scalable_topic(members[0]):
            found[name] = figures[name]
            continue
        of_topics = [(one, figures[one]) for one in members]
        by_name: dict[str, list[tuple[str, _Stats]]] = {}
        for topic, stats in of_topics:
            for subscription, one in stats["subscriptions"].items():
                by_name.setdefault(subscription, []).append((topic, one))
        found[name] = {**_sum(of_topics, "subscriptions"), "subscriptions": {}}
        stored = [topic for topic, stats in of_topics if stats["msgInCounter"] != 0]
        records = [topic_of(topic) for topic in members]
        for subscription, some in sorted(by_name.items()):
            total = found[name]["subscriptions"][subscription] = _subscription(some)
            reason = _without_consumer(subscription, stored, [topic for topic, _ in some], records)
            if reason:
                total["msgBacklog"] = None
                total["unknown"] = {"msgBacklog": reason, **total.get("unknown", {})}
    return dict(sorted(found.items()))


def _subscription(members: Sequence[tuple[str, _Stats]]) -> _Stats:
    total = _sum(members, "consumers", "type")
    types = sorted({stats["type"] for _, stats in members})
    total["type"] = ", ".join([one for one in types if one != "None"] or types)
    consumers: dict[Any, list[tuple[str, _Stats]]] = {}
    for number, (topic, one) in enumerate((topic, one) for topic, stats in members for one in stats["consumers"]):
        name = name_without_segment(one["consumerName"] or "", topic)
        consumers.setdefault(name or number, []).append((topic, one))
    total["consumers"] = [
        {**_sum(some, "consumerName"), "consumerName": name if isinstance(name, str) else ""}
        for name, some in consumers.items()
    ]
    return total


def _sum(members: Sequence[tuple[str, _Stats]], *others: str) -> _Stats:
    """Return the sums of figures of segments, except ``others``, and the reasons for those that are None."""
    total: _Stats = {}
    reasons: dict[str, str] = {}
    for figure in members[0][1]:
        if figure not in (*others, "unknown"):
            total[figure] = _total([stats[figure] for _, stats in members])
            if total[figure] is None:
                topic, stats = next((topic, stats) for topic, stats in members if stats[figure] is None)
                reasons[figure] = _reason(topic, stats.get("unknown", {}).get(figure, ""))
    return total | ({"unknown": reasons} if reasons else {})


def _total(values: list[Any]) -> Any:
    if any(value is True for value in values):
        return True
    if any(value is None for value in values):
        return None
    return sum(values) if not isinstance(values[0], bool) else False


def _without_consumer(
    subscription: str, stored: Iterable[str], known: Collection[str], records: Iterable[TopicRecord]
) -> str:
    """Return why values of a subscription are unknown (rule 4); empty if they are known.

    ``stored`` are the segments with messages, and ``known`` those on which the capture contains the subscription.
    """
    missing = [topic for topic in stored if topic not in known]
    states = [one.subscriptions[subscription] for one in records if subscription in one.subscriptions]
    if not missing or not any(one.durable and not one.gone for one in states):
        return ""
    return _reason(missing[0], "the capture contains no consumer of the subscription on this segment")


def _reason(topic: str, reason: str) -> str:
    return f"{short_topic(topic)}: {reason}"


def sum_balances(balances: Iterable[Balance], topic_of: Callable[[str], TopicRecord]) -> list[Balance]:
    """Return balances of topics and subscriptions with those of scalable topics in place of those of segments.

    ``topic_of`` returns the record of a topic by its name.
    """
    found: list[Balance] = []
    for name, of_topic in _grouped(balances, lambda one: one.topic).items():
        if not scalable_topic(of_topic[0].topic):
            found += of_topic
            continue
        records = [topic_of(one.topic) for one in of_topic if not one.subscription]
        stored = [one.topic for one in of_topic if not one.subscription and one.values["stored"] != 0]
        for subscription in sorted({one.subscription for one in of_topic}):
            members = [one for one in of_topic if one.subscription == subscription]
            total = _balance(name, members)
            if not subscription:
                _count_moves(total, [one.messages for one in records])
            elif reason := _without_consumer(subscription, stored, [one.topic for one in members], records):
                for value in ("stored", "remaining"):
                    total.values[value] = None
                    total.reasons.setdefault(value, reason)
            found.append(total)
    return sorted(found, key=lambda one: one.topic)


def _balance(name: str, members: Sequence[Balance]) -> Balance:
    total = Balance(name, members[0].subscription, {})
    for value in members[0].values:
        total.values[value] = _total([one.values[value] for one in members])
        if total.values[value] is None:
            first = next(one for one in members if one.values[value] is None)
            total.reasons[value] = _reason(first.topic, first.reasons.get(value, ""))
    return total


def _count_moves(total: Balance, counts: Sequence[PublishCounts]) -> None:
    """Count each message once that was sent to several segments (rule 3)."""
    moved, stored = sum(one.moved for one in counts), sum(one.moved_stored for one in counts)
    refused = sum(one.moved_refused for one in counts)
    changes = {
        "sent": -moved, "refused": -refused, "unknown": refused + stored - moved, "stored_twice": stored,
    }  # fmt: skip
    for value, change in changes.items():
        number = total.values[value]
        if number is not None:
            total.values[value] = number + change


def _grouped(items: Iterable[Any], topic_of: Callable[[Any], str]) -> dict[str, list[Any]]:
    """Return the items by scalable topic, or by the topic itself."""
    groups: dict[str, list[Any]] = {}
    for one in items:
        groups.setdefault(scalable_topic(topic_of(one)) or topic_of(one), []).append(one)
    return groups
