"""The gauges of topics, subscriptions and consumers.

Rules of this file
1. The values of objects with own series are those of `pcli top`. A value that the capture does not show has no sample.
2. The values of all other objects are added to the shared series, without those that are unknown. They are read from
   the records, because the statistics of a million topics would take minutes.
3. Consumers of one name on one subscription are one consumer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pcli.codec.observe.metrics.object_series import ObjectSeries, labels_of
from pcli.codec.observe.metrics.own_series import Key
from pcli.codec.observe.metrics.series_values import Sample
from pcli.codec.observe.system_topics import is_system_subscription
from pcli.codec.observe.tracking.records.topic_records import TopicRecord
from pcli.codec.observe.tracking.statistics.broker_statistics import topic_figures
from pcli.codec.observe.tracking.statistics.scalable_sums import sum_figures
from pcli.codec.observe.tracking.subscriptions.backlog import entries_after_cursor
from pcli.codec.observe.tracking.subscriptions.inference import topics_at
from pcli.codec.observe.tracking.subscriptions.topic_state import TopicState
from pcli.codec.steps import Steps

_Stats = dict[str, Any]

_OF_SUBSCRIPTION: Final = {
    "pulsar_subscription_back_log": "msgBacklog",
    "pulsar_subscription_unacked_messages": "unackedMessages",
    "pulsar_subscription_blocked_on_unacked_messages": "blockedSubscriptionOnUnackedMsgs",
}
_OF_CONSUMER: Final = {
    "pulsar_consumer_available_permits": "availablePermits",
    "pulsar_consumer_unacked_messages": "unackedMessages",
    "pulsar_consumer_blocked_on_unacked_messages": "blockedConsumerOnUnackedMsgs",
}
"""Names in the statistics of `broker_statistics`, by metric."""


class Gauges:
    """The gauges at one time."""

    def __init__(
        self, topics: ObjectSeries, subscriptions: ObjectSeries, consumers: ObjectSeries, row: Callable[[str], str]
    ) -> None:
        """``row`` returns the name under which a topic is shown."""
        self._topics, self._subscriptions, self._consumers, self._row = topics, subscriptions, consumers, row
        self._own: dict[str, dict[Key, float]] = defaultdict(dict)
        self._shared: dict[str, tuple[ObjectSeries, float]] = {}

    def add_all(self, topics: Mapping[str, TopicState], now_ns: int, *, sums: bool) -> Steps[None]:
        """Add the gauges of all topics; ``sums`` adds up the segments of scalable topics."""
        rows = {key[0] for series in (self._topics, self._subscriptions, self._consumers) for key in series.own}
        chosen = {name: one for name, one in topics.items() if self._row(name) in rows}
        figures = {name: topic_figures(one, now_ns) for name, one in topics_at(chosen, now_ns).items()}
        if sums:
            figures = sum_figures(figures, lambda name: topics[name].record)
        producers: dict[str, int] = defaultdict(int)
        for name, state in chosen.items():
            producers[self._row(name)] += _producers(state.record)
        for name, stats in figures.items():
            self._add_topic(name, stats, producers[name])
        for name, state in topics.items():
            yield
            if name not in chosen:
                self._add_topic(self._row(name), _light_figures(state), _producers(state.record))

    def _add_topic(self, row: str, stats: _Stats, producers: int) -> None:
        shown = {name: one for name, one in stats["subscriptions"].items() if not is_system_subscription(name)}
        backlogs = [one["msgBacklog"] for one in shown.values()]
        for metric, value in (
            ("pulsar_producers_count", producers),
            ("pulsar_subscriptions_count", len(shown)),
            ("pulsar_consumers_count", sum(len(one["consumers"]) for one in shown.values())),
            ("pulsar_msg_backlog", None if None in backlogs else sum(backlogs)),
        ):
            self._add(self._topics, metric, (row,), value)
        for name, one in shown.items():
            key = (row, name)
            self._add(self._subscriptions, "pulsar_subscription_consumers_count", key, len(one["consumers"]))
            for metric, figure in _OF_SUBSCRIPTION.items():
                self._add(self._subscriptions, metric, key, one[figure])
            for consumer in one["consumers"]:
                for metric, figure in _OF_CONSUMER.items():
                    self._add(self._consumers, metric, (*key, consumer["consumerName"] or ""), consumer[figure])

    def _add(self, series: ObjectSeries, metric: str, key: Key, value: float | None) -> None:
        if value is None:
            return
        if key in series.own:
            self._own[metric][key] = self._own[metric].get(key, 0) + value
        else:
            self._shared[metric] = series, self._shared.get(metric, (series, 0))[1] + value

    def samples(self) -> Iterator[tuple[str, Sample]]:
        """Yield the name of the metric and the sample of all gauges."""
        for metric, values in self._own.items():
            for key, value in values.items():
                yield metric, Sample(labels_of(key), value)
        for metric, (series, value) in self._shared.items():
            yield metric, Sample(series.others, value)


def _producers(topic: TopicRecord) -> int:
    return sum(one.session is not None and not one.session.end for one in topic.producers.values())


def _light_figures(topic: TopicState) -> _Stats:
    """Return the figures of a topic without own series (rule 2)."""
    return {
        "subscriptions": {
            name: {
                "msgBacklog": entries_after_cursor(one) if one.mark_delete is not None else None,
                "unackedMessages": one.record.unacked,
                "blockedSubscriptionOnUnackedMsgs": False,
                "consumers": [
                    {
                        "consumerName": consumer.record.name,
                        "availablePermits": consumer.record.permits.balance,
                        "unackedMessages": consumer.record.unacked,
                        "blockedConsumerOnUnackedMsgs": consumer.record.blocked.since_ns >= 0,
                    }
                    for consumer in one.attached
                ],
            }
            for name, one in topic.subscriptions.items()
            if one.opened and not one.unidentified
        }
    }
