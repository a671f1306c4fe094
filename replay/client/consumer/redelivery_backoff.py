"""Delay before a redelivery request, by redelivery count (MultiplierRedeliveryBackoff)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RedeliveryBackoff"]


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """Delays from ``minDelayMs`` to ``maxDelayMs`` that grow by the factor ``multiplier`` with each redelivery."""

    minDelayMs: int = 1000  # noqa: N815 -- as in the Java client
    maxDelayMs: int = 600_000  # noqa: N815
    multiplier: float = 2.0

    def next(self, redelivery_count: int) -> int:
        """Return the delay in milliseconds for a message with this redelivery count."""
        if redelivery_count <= 0 or self.minDelayMs <= 0:
            return self.minDelayMs
        try:
            return int(min(self.minDelayMs * self.multiplier**redelivery_count, self.maxDelayMs))
        except OverflowError:
            return self.maxDelayMs
