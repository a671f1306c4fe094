"""Delays that increase with the redelivery count."""

from pcli.replay.client.settings import RedeliveryBackoff


def test_the_delay_doubles_up_to_the_maximum():
    backoff = RedeliveryBackoff(minDelayMs=1000, maxDelayMs=10_000)
    assert [backoff.next(count) for count in range(6)] == [1000, 2000, 4000, 8000, 10_000, 10_000]


def test_a_huge_redelivery_count():
    assert RedeliveryBackoff().next(1 << 31) == 600_000
