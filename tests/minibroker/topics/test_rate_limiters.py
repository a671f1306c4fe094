"""Token buckets: arithmetic of their rates with given times."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.session.timers import Timer, Timers
from pcli.minibroker.topics.rate_limiters import UNLIMITED, PublishThrottle, RateLimiter, SubscribeLimiter, TokenBucket


def test_a_bucket_starts_full_and_never_exceeds_its_size() -> None:
    bucket = TokenBucket(10)
    assert bucket.tokens(0) == 10
    assert bucket.tokens(60_000) == 10


def test_a_bucket_fills_evenly() -> None:
    bucket = TokenBucket(10)
    bucket.charge(10, 0)
    assert [bucket.tokens(ms) for ms in (0, 99, 100, 250, 1000)] == [0, 0, 1, 2, 10]


def test_a_bucket_with_another_period() -> None:
    bucket = TokenBucket(30, period_ms=60_000)
    bucket.charge(30, 0)
    assert [bucket.tokens(ms) for ms in (1999, 2000, 60_000)] == [0, 1, 30]


def test_a_bucket_with_steps_fills_when_a_period_has_passed_since_its_first_use() -> None:
    bucket = TokenBucket(10, period_ms=2000, step_ms=2000)
    bucket.charge(10, 500)
    assert [bucket.tokens(ms) for ms in (500, 2000, 2499, 2500)] == [0, 0, 0, 10]
    bucket.charge(14, 2500)
    # 3000 ms add 15 tokens, of which 4 were missing.
    assert [bucket.tokens(ms) for ms in (4499, 5500, 5501)] == [-4, 10, 10]


def test_a_deficit_delays_the_next_message() -> None:
    bucket = TokenBucket(1000)
    bucket.charge(3000, 0)
    assert bucket.tokens(0) == -2000
    # 2000 tokens are missing and ten more are needed, at one token per ms.
    assert bucket.wait_ms(0) == 2010
    assert bucket.wait_ms(2000) == 10
    assert bucket.wait_ms(2001) == 0


def test_nothing_to_wait_for() -> None:
    bucket = TokenBucket(5)
    bucket.charge(4, 0)
    assert bucket.wait_ms(0) == 0


def test_no_tokens_without_time() -> None:
    bucket = TokenBucket(10)
    bucket.charge(10, 500)
    assert bucket.tokens(500) == 0
    assert bucket.tokens(400) == 0


@given(
    rate=st.integers(1, 10**7),
    period=st.integers(1, 60_000),
    charges=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 10**7)), max_size=30),
)
def test_the_returned_wait_is_sufficient(rate: int, period: int, charges: list[tuple[int, int]]) -> None:
    now, bucket = 0, TokenBucket(rate, period)
    for pause, amount in charges:
        now += pause
        bucket.charge(amount, now)
        wait = bucket.wait_ms(now)
        assert (wait == 0) == (bucket.tokens(now) > 0)
        assert bucket.tokens(now + wait) > 0 or wait == 0
        now += wait
        assert bucket.tokens(now) <= rate


def test_message_and_byte_limits_apply_together() -> None:
    limiter = RateLimiter(10, 1000)
    assert limiter.available(0) == (10, 1000)
    limiter.charge(2, 1500, 0)
    assert limiter.available(0) == (8, 0)
    assert limiter.wait_ms(0) == 510


@pytest.mark.parametrize(("messages", "size", "limits"), [(0, 0, False), (-1, -1, False), (1, 0, True), (0, 1, True)])
def test_no_rate_no_limit(messages: int, size: int, limits: bool) -> None:
    limiter = RateLimiter(messages, size)
    assert limiter.limits is limits
    limiter.charge(10**9 if messages <= 0 else 0, 10**9 if size <= 0 else 0, 0)
    assert limiter.wait_ms(0) == 0
    assert UNLIMITED in limiter.available(0)


def test_a_consumer_may_subscribe_a_number_of_times_per_period() -> None:
    limiter = SubscribeLimiter(2, period_ms=30_000)
    assert [limiter.admit("a", 0) for _ in range(3)] == [True, True, False]
    assert limiter.admit("b", 0)
    assert not limiter.admit("a", 14_999)
    assert limiter.admit("a", 15_000)


def test_idle_consumers_are_removed() -> None:
    limiter = SubscribeLimiter(1, period_ms=1000)
    for number in range(5000):
        assert limiter.admit(number, number)
    assert len(limiter._buckets) <= 2 * 1000


class _World:
    """The part of a broker that a throttle uses."""

    def __init__(self) -> None:
        self.now = 0
        self._timers = Timers()

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        return self._timers.call_at(self.now + delay_ms, action)

    def advance(self, now: int) -> None:
        while (timer := self._timers.pop_due(now)) is not None:
            self.now = timer[0]
            timer[1]()
        self.now = now


class _Reader:
    """The part of a connection that a throttle uses."""

    def __init__(self) -> None:
        self.holds = 0

    def pause_reading(self) -> None:
        self.holds += 1

    def resume_reading(self) -> None:
        self.holds -= 1


def _throttle(messages: int) -> tuple[_World, PublishThrottle]:
    world = _World()
    throttle = PublishThrottle(world)  # type: ignore[arg-type]
    throttle.update(messages, 0)
    return world, throttle


def test_the_message_that_empties_the_bucket_passes_then_reading_stops() -> None:
    world, throttle = _throttle(10)
    a, b = _Reader(), _Reader()
    throttle.charge(a, 9, 100)  # type: ignore[arg-type]
    assert (a.holds, b.holds) == (0, 0)
    throttle.charge(a, 1, 100)  # type: ignore[arg-type]
    assert (a.holds, b.holds) == (1, 0)
    throttle.charge(a, 1, 100)  # type: ignore[arg-type]
    assert (a.holds, b.holds) == (1, 0)
    throttle.charge(b, 1, 100)  # type: ignore[arg-type]
    assert (a.holds, b.holds) == (1, 1)
    # Two tokens are missing and one more is needed, at one in 100 ms.
    world.advance(299)
    assert (a.holds, b.holds) == (1, 1)
    world.advance(300)
    assert (a.holds, b.holds) == (0, 0)


def test_removing_a_limit_resumes_all_connections() -> None:
    world, throttle = _throttle(1)
    reader = _Reader()
    throttle.charge(reader, 100, 1)  # type: ignore[arg-type]
    throttle.release()
    assert reader.holds == 0
    world.advance(1_000_000)
    assert reader.holds == 0
