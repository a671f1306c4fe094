"""Messages and bytes a second of producers and consumers, measured over ``statsUpdateFrequencyInSecs``.

As on the real broker a rate is what was counted between the last two measurements, divided by the time between them (or
since the client came); whoever came after the last one has rates of 0 until the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.consumer import Consumer
    from pcli.minibroker.producer import Producer

__all__ = ["NONE", "Rate", "Rates"]


@dataclass(frozen=True, slots=True)
class Rate:
    """What one producer or consumer did, each a second."""

    messages_in: float = 0.0
    bytes_in: float = 0.0
    messages_out: float = 0.0
    bytes_out: float = 0.0
    redelivered: float = 0.0
    """Messages delivered again."""
    acked: float = 0.0
    """Messages acknowledged."""


NONE: Final = Rate()
"""Of whoever came after the last measurement."""

_Counters = tuple[int, int, int, int, int, int]
_ZERO: Final[_Counters] = (0, 0, 0, 0, 0, 0)


class Rates:
    """The rates of all clients of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._counters: dict[Producer | Consumer, _Counters] = {}
        self._rates: dict[Producer | Consumer, Rate] = {}
        self._measured = broker.now
        self._period = max(1, broker.settings.statsUpdateFrequencyInSecs) * 1000
        broker.call_later(self._period, self._tick)

    def of(self, client: Producer | Consumer) -> Rate:
        """The rates of a producer or a consumer."""
        return self._rates.get(client, NONE)

    def _tick(self) -> None:
        self.measure()
        self._broker.call_later(self._period, self._tick)

    def measure(self) -> None:
        """Count, divide by the time since the last measurement, and remember. Clients that left are forgotten."""
        now = self._broker.now
        counters: dict[Producer | Consumer, _Counters] = {}
        for topic in self._broker.topics.values():
            for producer in topic.producers.values():
                counters[producer] = (producer.messages_in, producer.bytes_in, 0, 0, 0, 0)
            for one in topic.consumers:
                counters[one] = (0, 0, one.messages_out, one.bytes_out, one.messages_redelivered, one.messages_acked)
        self._rates = {
            client: _rate(count, self._counters.get(client, _ZERO), now - max(self._measured, client.connected_since))
            for client, count in counters.items()
        }
        self._counters, self._measured = counters, now


def _rate(count: _Counters, before: _Counters, elapsed: int) -> Rate:
    if elapsed <= 0:
        return NONE
    return Rate(*(1000 * (new - old) / elapsed for new, old in zip(count, before)))
