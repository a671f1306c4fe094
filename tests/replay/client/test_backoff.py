"""The delays of pulsar-common's Backoff."""

from __future__ import annotations

from pcli.replay.client.backoff import Backoff


def _waits(count: int, *, initial: int = 100, most: int = 60_000, stop: int = 0, chance: float = 0.0) -> list[int]:
    backoff = Backoff(initial, most, stop, lambda: chance)
    now, waits = 0, []
    for _ in range(count):
        waits.append(backoff.next(now))
        now += waits[-1]
    return waits


def test_delays_double_up_to_the_maximum() -> None:
    assert _waits(12) == [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000]


def test_jitter_is_less_than_a_tenth_and_never_below_the_initial_delay() -> None:
    assert _waits(4, chance=0.999) == [100, 181, 361, 721]
    assert _waits(3, chance=0.5) == [100, 190, 380]


def test_short_delays_have_no_jitter() -> None:
    assert _waits(3, initial=2, chance=0.999) == [2, 4, 8]


def test_the_mandatory_stop_shortens_one_delay() -> None:
    waits = _waits(6, stop=1000)
    assert waits == [100, 200, 400, 300, 1600, 3200]
    assert sum(waits[:4]) == 1000


def test_a_past_stop_gives_the_initial_delay_once() -> None:
    backoff = Backoff(100, 60_000, 500, lambda: 0.0)
    assert backoff.next(0) == 100
    assert backoff.next(5_000) == 100
    assert backoff.next(5_100) == 400


def test_reset_restarts_the_delays_and_the_stop() -> None:
    backoff = Backoff(100, 60_000, 1000, lambda: 0.0)
    for now in (0, 100, 300, 700):
        backoff.next(now)
    backoff.reset()
    assert [backoff.next(now) for now in (9_000, 9_100, 9_300, 9_700)] == [100, 200, 400, 300]


def test_all_zero_has_no_delay() -> None:
    assert _waits(3, initial=0, most=0) == [0, 0, 0]
