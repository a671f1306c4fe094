"""Message and byte rates of producers, consumers and dropped messages, measured every ``statsUpdateFrequencyInSecs``.

As on the real broker, a rate is the count between the last two measurements, divided by the time between them, or by
the time from the client's connection to the last measurement if that is shorter. A client that connected after the last
measurement has a rate of 0. Subscriptions of non-persistent topics are also measured, because dropped messages belong
to no consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from pcli.minibroker.dispatch.non_persistent import NonPersistentDispatcher
from pcli.minibroker.topics.broker_service import Rate, StorageRate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pcli.minibroker.topics.broker_service import BrokerService
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.producer import Producer
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

    _Client: TypeAlias = Producer | Consumer | Subscription

_NO_STORAGE_RATE: Final = StorageRate()
_STORAGE_PERIOD: Final = 60_000
"""The default of managedLedgerStatsPeriodSeconds."""


NO_RATE: Final = Rate()
"""The rate of a client that connected after the last measurement."""

_Counters = tuple[int, ...]
"""Counters in the order of the fields of Rate."""
_ZERO: Final[_Counters] = (0,) * 8


class Rates:
    """The rates of all clients of a broker."""

    def __init__(self, broker: BrokerService, topics: Mapping[str, Topic]) -> None:
        self._broker = broker
        self._topics = topics
        self._counters: dict[_Client, _Counters] = {}
        self._rates: dict[object, Rate] = {}
        self._measured = broker.now
        self._period = max(1, broker.settings.statsUpdateFrequencyInSecs) * 1000
        broker.call_later(self._period, self._tick)
        self._entries: dict[Topic, tuple[int, int]] = {}
        """Written and read entries of each persistent topic at the last measurement of the storage."""
        self._storage_rates: dict[object, StorageRate] = {}
        broker.call_later(_STORAGE_PERIOD, self._measure_storage)

    def of(self, client: object) -> Rate:
        """Return the rates of a producer, a consumer or a subscription."""
        return self._rates.get(client, NO_RATE)

    def of_storage(self, topic: object) -> StorageRate:
        """Return the rates of the storage of a topic."""
        return self._storage_rates.get(topic, _NO_STORAGE_RATE)

    def _measure_storage(self) -> None:
        self._broker.call_later(_STORAGE_PERIOD, self._measure_storage)
        before, self._entries, self._storage_rates = self._entries, {}, {}
        for topic in self._topics.values():
            if topic.ledger is not None:
                written, read = topic.ledger.entries_added, topic.ledger.entries_read
                old_written, old_read = before.get(topic, (0, 0))
                self._entries[topic] = written, read
                new = max(written - old_written, 0)
                seconds = _STORAGE_PERIOD / 1000
                self._storage_rates[topic] = StorageRate(new, new / seconds, (read - old_read) / seconds)

    def _tick(self) -> None:
        self.measure()
        self._broker.call_later(self._period, self._tick)

    def measure(self) -> None:
        """Compute all rates since the last measurement, and remove clients that have disconnected."""
        now = self._broker.now
        before, self._counters = self._counters, {}
        rates: dict[object, Rate] = {}
        for topic in self._topics.values():
            for producer in topic.producers.values():
                topic.chunk_published = topic.chunk_published or (producer.chunked and topic.persistent)
                producer.chunked = False
            for client, since, count in _counted(topic):
                start = self._measured if client in before else max(self._measured, since)
                rates[client] = _rate(count, before.get(client, _ZERO), now - start)
                self._counters[client] = count
            published = [rates[producer] for producer in topic.producers.values()]
            total = sum(one.messages_in for one in published), sum(one.bytes_in for one in published)
            topic.effective_policies.publish_rate_measured(*total)
        self._rates, self._measured = rates, now


def _counted(topic: Topic) -> Iterator[tuple[_Client, int, _Counters]]:
    """Return the measured clients, with the time of connection (ms) and their counters."""
    for producer in topic.producers.values():
        yield producer, producer.connected_since, (producer.messages_in, producer.bytes_in, 0, 0, 0, 0, 0, 0)
    for subscription in topic.subscriptions.values():
        for one in subscription.consumers:
            count = (0, 0, one.messages_out, one.bytes_out, one.messages_redelivered, one.messages_acked, 0, 0)
            yield one, one.connected_since, count
        if subscription.expired:
            yield subscription, topic.created, (0, 0, 0, 0, 0, 0, 0, subscription.expired)
        dispatcher = subscription.dispatcher
        if isinstance(dispatcher, NonPersistentDispatcher) and dispatcher.consumers:
            since = min(one.connected_since for one in dispatcher.consumers)
            yield subscription, since, (0, 0, 0, 0, 0, 0, dispatcher.dropped, 0)


def _rate(count: _Counters, before: _Counters, elapsed: int) -> Rate:
    if elapsed <= 0:
        return NO_RATE
    # An unload of the topic resets the counters of a subscription.
    return Rate(*(1000 * max(0, new - old) / elapsed for new, old in zip(count, before)))
