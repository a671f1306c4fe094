"""Token buckets: how much may be published or dispatched, as a function of the times that are handed in.

Rules of this file
1. A bucket holds at most what one period gives, and is full at the start. It fills evenly (class AsyncTokenBucket).
2. It is charged after the fact and may go below zero: one message always passes, what it cost too much is waited for.
3. Who ran dry goes on when a hundredth of a period's tokens is there again, not at the first token, so that a
   connection is not stopped and let go for every message.

4. A publisher that ran a limit dry is not told: the broker stops reading its connection until there are tokens again
   (class PublishRateLimiterImpl). What the connection carries beside it waits too.

Times are ms since 1970, rates tokens for each period. A rate of 0 or less means: no limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pcli.codec.session.timers import Timer
    from pcli.minibroker.scheduler import Scheduler
    from pcli.minibroker.topics.transport_cnx import TransportCnx

__all__ = ["UNLIMITED", "PublishThrottle", "RateLimiter", "SubscribeLimiter", "TokenBucket"]

UNLIMITED: Final = 1 << 62
"""Tokens where nothing is limited."""

_SECOND: Final = 1000
_MANY: Final = 1000
"""So many consumers are remembered before those are forgotten that have not subscribed lately."""

_RESUME: Final = 100
"""The part of a period's tokens with which one who ran dry goes on."""


class TokenBucket:
    """``rate`` tokens for each period of ``period_ms``."""

    __slots__ = ("_last", "_scaled", "period_ms", "rate")

    def __init__(self, rate: int, now: int, period_ms: int = _SECOND) -> None:
        assert rate > 0
        assert period_ms > 0
        self.rate = rate
        self.period_ms = period_ms
        # Tokens times period: one ms adds `rate`, and nothing is ever rounded.
        self._scaled = rate * period_ms
        self._last = now

    def tokens(self, now: int) -> int:
        """What is there now; not above zero: wait."""
        if now > self._last:
            self._scaled = min(self.rate * self.period_ms, self._scaled + (now - self._last) * self.rate)
            self._last = now
        return self._scaled // self.period_ms

    def charge(self, amount: int, now: int) -> None:
        """Take tokens, whether they are there or not."""
        self.tokens(now)
        self._scaled -= amount * self.period_ms

    def wait_ms(self, now: int) -> int:
        """How long until it may go on; 0: now."""
        if self.tokens(now) > 0:
            return 0
        wanted = max(1, self.rate // _RESUME) * self.period_ms
        return -((self._scaled - wanted) // self.rate)


class RateLimiter:
    """A limit of messages and one of bytes; either may be missing."""

    __slots__ = ("messages", "size", "terms")

    def __init__(self, messages: int, size: int, now: int, period_ms: int = _SECOND) -> None:
        self.terms = max(0, messages), max(0, size), period_ms
        """Messages, bytes (0: no limit) and the period: two limiters of the same terms limit alike."""
        self.messages = TokenBucket(messages, now, period_ms) if messages > 0 else None
        self.size = TokenBucket(size, now, period_ms) if size > 0 else None

    @property
    def limits(self) -> bool:
        """Whether it limits anything at all."""
        return self.messages is not None or self.size is not None

    def available(self, now: int) -> tuple[int, int]:
        """Messages and bytes that may pass now, UNLIMITED where there is no limit; below zero is none."""
        return (
            UNLIMITED if self.messages is None else max(0, self.messages.tokens(now)),
            UNLIMITED if self.size is None else max(0, self.size.tokens(now)),
        )

    def charge(self, messages: int, size: int, now: int) -> None:
        """Count what has passed."""
        if self.messages is not None:
            self.messages.charge(messages, now)
        if self.size is not None:
            self.size.charge(size, now)

    def wait_ms(self, now: int) -> int:
        """How long until both buckets let something pass; 0: now."""
        return max(0 if bucket is None else bucket.wait_ms(now) for bucket in (self.messages, self.size))


class SubscribeLimiter:
    """How often each consumer may subscribe: ``rate`` times in a period, and no debts."""

    __slots__ = ("_buckets", "_many", "_period_ms", "_rate", "terms")

    def __init__(self, rate: int, period_ms: int) -> None:
        self.terms = rate, period_ms
        self._rate = rate
        self._period_ms = period_ms
        self._buckets: dict[Hashable, TokenBucket] = {}
        self._many = _MANY

    def admit(self, consumer: Hashable, now: int) -> bool:
        """Whether this one may subscribe now; if so it is counted."""
        bucket = self._buckets.get(consumer)
        if bucket is None:
            self._forget_idle(now)
            bucket = self._buckets[consumer] = TokenBucket(self._rate, now, self._period_ms)
        if bucket.tokens(now) <= 0:
            return False
        bucket.charge(1, now)
        return True

    def _forget_idle(self, now: int) -> None:
        """A bucket that is full again is as good as none."""
        if len(self._buckets) >= self._many:
            self._buckets = {key: one for key, one in self._buckets.items() if one.tokens(now) < self._rate}
            self._many = max(_MANY, 2 * len(self._buckets))


class PublishThrottle:
    """One limit of publishing, and the connections that are not read because of it."""

    __slots__ = ("_broker", "_paused", "_timer", "limiter")

    def __init__(self, broker: Scheduler, limiter: RateLimiter) -> None:
        self._broker = broker
        self.limiter = limiter
        self._paused: dict[TransportCnx, None] = {}
        self._timer: Timer | None = None

    def charge(self, connection: TransportCnx, messages: int, size: int) -> None:
        """Count a SEND; if that ran the limit dry, stop reading from its connection for a while."""
        now = self._broker.now
        self.limiter.charge(messages, size, now)
        wait = self.limiter.wait_ms(now)
        if wait and connection not in self._paused:
            self._paused[connection] = None
            connection.pause_reading()
            if self._timer is None:
                self._timer = self._broker.call_later(wait, self._retry)

    def release(self) -> None:
        """Read from all of them again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._paused = self._paused, {}
        for connection in held:
            connection.resume_reading()

    def _retry(self) -> None:
        self._timer = None
        wait = self.limiter.wait_ms(self._broker.now)
        if wait:
            self._timer = self._broker.call_later(wait, self._retry)
        else:
            self.release()
