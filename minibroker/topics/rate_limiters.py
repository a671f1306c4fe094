"""Token buckets for publish and dispatch rates; the caller passes the time.

Rules of this file
1. A bucket contains at most the tokens of one period and starts full (class AsyncTokenBucket). That of a dispatch rate
   gets the tokens of the elapsed time when a period has passed; other buckets fill evenly.
2. It is charged after a message passes and can become negative: a message that exceeds the remaining tokens passes, and
   the deficit delays the messages after it.
3. An empty bucket resumes when it contains a hundredth of a period's tokens, not at the first token. Otherwise reading
   from a connection would stop and resume for every message.
4. A publisher that exceeds a limit gets no error: the broker stops reading from its connection until there are tokens
   (class PublishRateLimiterImpl). This also delays all other commands on the connection.

Times are in ms since 1970. Rates are in tokens per period. A rate of 0 or less is unlimited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pcli.minibroker.scheduler import Runnable, Scheduler
from pcli.minibroker.storage.backlog_size import entries_of_size

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pcli.codec.session.timers import Timer
    from pcli.minibroker.policies.policy_store import Policies
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.storage.cursor import ManagedCursor
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.transport_cnx import TransportCnx

UNLIMITED: Final = 1 << 62
"""Number of available tokens if there is no limit."""

_SECOND: Final = 1000
_MANY: Final = 1000
"""Number of consumers above which idle ones are removed."""

_RESUME: Final = 100
"""A bucket resumes when it contains a period's tokens divided by this number."""


class TokenBucket:
    """A bucket that gets ``rate`` tokens per period of ``period_ms``, at intervals of at least ``step_ms``."""

    __slots__ = ("_last", "_scaled", "_step_ms", "period_ms", "rate")

    def __init__(self, rate: int, period_ms: int = _SECOND, step_ms: int = 1) -> None:
        assert rate > 0
        assert period_ms > 0
        self.rate = rate
        self.period_ms = period_ms
        self._step_ms = step_ms
        # Tokens multiplied by the period: each ms adds `rate`, without rounding.
        self._scaled = rate * period_ms
        self._last: int | None = None
        """The last time at which tokens were added, which begins with the first use."""

    def tokens(self, now: int) -> int:
        """Return the number of available tokens; if it is 0 or less, the caller waits."""
        if self._last is None:
            self._last = now
        elif now >= self._last + self._step_ms:
            self._scaled = min(self.rate * self.period_ms, self._scaled + (now - self._last) * self.rate)
            self._last = now
        return self._scaled // self.period_ms

    def set_rate(self, rate: int, now: int) -> None:
        """Change the rate, and remove tokens that exceed the new maximum."""
        self.tokens(now)
        self.rate = rate
        self._scaled = min(self._scaled, rate * self.period_ms)

    def charge(self, amount: int, now: int) -> None:
        """Take tokens, even if they are not available."""
        self.tokens(now)
        self._scaled -= amount * self.period_ms

    def wait_ms(self, now: int) -> int:
        """Return the time until the bucket can resume, or 0."""
        if self.tokens(now) > 0:
            return 0
        wanted = max(1, self.rate // _RESUME) * self.period_ms
        return -((self._scaled - wanted) // self.rate)


class RateLimiter:
    """A limit of messages and a limit of bytes, both optional."""

    __slots__ = ("messages", "size", "terms")

    def __init__(
        self, messages: int, size: int, period_ms: int = _SECOND, *, relative: bool = False, by_period: bool = False
    ) -> None:
        """``by_period`` means that tokens are added once per period."""
        self.terms = max(0, messages), max(0, size), period_ms, relative
        """Limits of messages and bytes (0 is unlimited), the period, and whether the limits are relative to another
        rate. Limiters with equal terms are equivalent."""
        step = period_ms if by_period else 1
        self.messages = TokenBucket(messages, period_ms, step) if messages > 0 else None
        self.size = TokenBucket(size, period_ms, step) if size > 0 else None

    @property
    def limits(self) -> bool:
        """Whether there is any limit."""
        return self.messages is not None or self.size is not None

    def available(self, now: int) -> tuple[int, int]:
        """Return the messages and bytes available now, at least 0, or UNLIMITED if there is no limit."""
        return (
            UNLIMITED if self.messages is None else max(0, self.messages.tokens(now)),
            UNLIMITED if self.size is None else max(0, self.size.tokens(now)),
        )

    def set_base(self, base: tuple[float, float], now: int) -> None:
        """Set the rates of messages and bytes to which the limits are relative."""
        most, most_bytes, _, relative = self.terms
        if relative and self.messages is not None:
            self.messages.set_rate(most + int(base[0]), now)
        if relative and self.size is not None:
            self.size.set_rate(most_bytes + int(base[1]), now)

    def charge(self, messages: int, size: int, now: int) -> None:
        """Charge both buckets."""
        if self.messages is not None:
            self.messages.charge(messages, now)
        if self.size is not None:
            self.size.charge(size, now)

    def wait_ms(self, now: int) -> int:
        """Return the time until both buckets can resume, or 0."""
        return max(0 if bucket is None else bucket.wait_ms(now) for bucket in (self.messages, self.size))


class SubscribeLimiter:
    """A limit of subscribe requests per consumer: ``rate`` per period. Other requests are refused."""

    __slots__ = ("_buckets", "_many", "_period_ms", "_rate", "terms")

    def __init__(self, rate: int, period_ms: int) -> None:
        self.terms = rate, period_ms
        self._rate = rate
        self._period_ms = period_ms
        self._buckets: dict[Hashable, TokenBucket] = {}
        self._many = _MANY

    def admit(self, consumer: Hashable, now: int) -> bool:
        """Return whether a consumer may subscribe now, and charge it if so."""
        bucket = self._buckets.get(consumer)
        if bucket is None:
            self._forget_idle(now)
            bucket = self._buckets[consumer] = TokenBucket(self._rate, self._period_ms)
        if bucket.tokens(now) <= 0:
            return False
        bucket.charge(1, now)
        return True

    def _forget_idle(self, now: int) -> None:
        """Remove full buckets, because they behave like new ones."""
        if len(self._buckets) >= self._many:
            self._buckets = {key: one for key, one in self._buckets.items() if one.tokens(now) < self._rate}
            self._many = max(_MANY, 2 * len(self._buckets))


class PublishThrottle:
    """One publish rate limit, which starts unlimited, and the connections that it paused."""

    __slots__ = ("_broker", "_paused", "_timer", "limiter")

    def __init__(self, broker: Scheduler) -> None:
        self._broker = broker
        self.limiter = RateLimiter(0, 0)
        self._paused: dict[TransportCnx, None] = {}
        self._timer: Timer | None = None

    def update(self, messages: int, size: int) -> None:
        """Set the limits. A changed limit starts with all of its tokens, and the paused connections are read again."""
        limiter = RateLimiter(messages, size)
        if limiter.terms != self.limiter.terms:
            self.limiter = limiter
            self.release()

    def charge(self, connection: TransportCnx, messages: int, size: int) -> None:
        """Charge a SEND. If the limit is exceeded, stop reading from the connection until there are tokens."""
        now = self._broker.now
        self.limiter.charge(messages, size, now)
        wait = self.limiter.wait_ms(now)
        if wait and connection not in self._paused:
            self._paused[connection] = None
            connection.pause_reading()
            if self._timer is None:
                self._timer = self._broker.call_later(wait, self._retry)

    def release(self) -> None:
        """Resume reading from all paused connections."""
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


_BACK_OFF_MS: Final = 1000
"""Delay in ms before a dispatcher without tokens retries (MESSAGE_RATE_BACKOFF_MS)."""


class _Broker(Scheduler, Protocol):
    """A broker with settings."""

    settings: Settings


class _Reader(Runnable, Protocol):
    """A dispatcher that reads entries."""

    cursor: ManagedCursor
    ledger: ManagedLedger


class DispatchRateLimiter:
    """The dispatch rate limits of one subscription."""

    __slots__ = ("_broker", "_limiters", "_waiting")

    def __init__(self, broker: _Broker, limiters: list[RateLimiter]) -> None:
        self._broker = broker
        self._limiters = limiters
        self._waiting = False

    def entries(self, dispatcher: _Reader, wanted: int) -> int:
        """Return the number of entries that may be read. If the result is 0, the dispatcher is scheduled for later."""
        broker = self._broker
        for limiter in self._limiters:
            messages, size = limiter.available(broker.now)
            wanted = min(wanted, messages) if size > 0 else 0
            if limiter.size is not None and wanted:
                wanted = min(wanted, entries_of_size(dispatcher.ledger, dispatcher.cursor.read_position, size))
        if wanted <= 0 and not self._waiting:
            self._waiting = True
            broker.call_later(_BACK_OFF_MS, lambda: self._retry(dispatcher))
        return max(0, wanted)

    def _retry(self, dispatcher: Runnable) -> None:
        self._waiting = False
        self._broker.schedule(dispatcher)

    def charge(self, messages: int, entries: list[Entry]) -> None:
        """Charge the sent messages to all limits."""
        broker = self._broker
        count = len(entries) if broker.settings.dispatchThrottlingOnBatchMessageEnabled else messages
        size = sum(len(entry.data) for entry in entries)
        for limiter in self._limiters:
            limiter.charge(count, size, broker.now)


class ResourceGroupThrottles:
    """The limits of all groups, by name."""

    def __init__(self, broker: Scheduler, policies: Policies) -> None:
        self._broker = broker
        self._policies = policies
        self._throttles: dict[str, PublishThrottle] = {}

    def of(self, group: str) -> PublishThrottle:
        """Return the limit of a group, which can be unlimited."""
        rates = self._policies.resource_groups.get(group, {})
        throttle = self._throttles.setdefault(group, PublishThrottle(self._broker))
        throttle.update(rates.get("publishRateInMsgs", -1), rates.get("publishRateInBytes", -1))
        return throttle
