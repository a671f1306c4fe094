"""The time at which a delayed entry is due: arithmetic of the tracker's groups."""

from hypothesis import given
from hypothesis import strategies as st

from pcli.minibroker.dispatch.delayed_delivery import InMemoryDelayedDeliveryTracker
from pcli.minibroker.scheduler import HashedWheelTimer

NOW = 1_700_000_000_000


def test_up_to_one_tick_early():
    tracker = InMemoryDelayedDeliveryTracker(1000, strict=False, bitmap_bytes=58)
    assert not tracker.add(0, NOW + 1000, NOW)  # within the tick: delivered at once
    assert tracker.add(1, NOW + 3000, NOW)
    assert tracker.due(NOW + 1000, 10) == []
    assert tracker.due(NOW + 3000, 10) == [1]


def test_strict_is_never_early():
    tracker = InMemoryDelayedDeliveryTracker(1000, strict=True, bitmap_bytes=58)
    assert tracker.add(1, NOW + 1, NOW)
    assert not tracker.add(2, NOW, NOW)
    time = tracker.next_delivery_time
    assert time > NOW
    assert tracker.due(time - 1, 10) == []
    assert tracker.due(time, 10) == [1]


def test_the_lowest_time_first():
    tracker = InMemoryDelayedDeliveryTracker(1000, strict=False, bitmap_bytes=58)
    for offset, delay in enumerate((9000, 5000, 7000)):
        tracker.add(offset, NOW + delay, NOW)
    assert tracker.due(NOW + 20_000, 2) == [1, 2]
    assert tracker.due(NOW + 20_000, 2) == [0]
    assert tracker.next_delivery_time == -1


def test_the_groups_of_a_new_tick():
    tracker = InMemoryDelayedDeliveryTracker(1000, strict=False, bitmap_bytes=58)
    tracker.set_tick(100)
    assert not tracker.add(0, NOW + 100, NOW)
    assert tracker.add(1, NOW + 101, NOW)
    assert NOW + 101 - 64 < tracker.next_delivery_time <= NOW + 101


def test_a_timeout_expires_at_the_end_of_its_tick():
    timer = HashedWheelTimer(1000)
    assert timer.expiry(NOW, NOW + 4300) == NOW + 5000
    assert timer.expiry(NOW + 10, NOW + 5000) == NOW + 6000
    assert timer.expiry(NOW + 7100, NOW + 5000) == NOW + 8000


def test_fixed_delays_are_detected():
    tracker = InMemoryDelayedDeliveryTracker(1000, strict=False, bitmap_bytes=58)
    for offset in range(5):
        tracker.add(offset, NOW + 10_000 + offset * 100, NOW)
    assert tracker.fixed_delays
    tracker.add(5, NOW + 5000, NOW)
    assert not tracker.fixed_delays


@given(st.lists(st.integers(-5000, 50_000), max_size=40), st.booleans(), st.integers(1, 3000))
def test_all_entries_are_delivered_in_time(delays, strict, tick):
    tracker = InMemoryDelayedDeliveryTracker(tick, strict=strict, bitmap_bytes=58)
    kept = {offset: NOW + delay for offset, delay in enumerate(delays) if tracker.add(offset, NOW + delay, NOW)}
    given_back = {}
    now = NOW
    while (time := tracker.next_delivery_time) >= 0:
        now = max(now + 1, time)
        for offset in tracker.due(now, 100):
            given_back[offset] = now
    assert given_back.keys() == kept.keys()
    for offset, at in given_back.items():
        early, late = (0, 2 * tick) if strict else (tick, tick)
        assert kept[offset] - early <= at <= kept[offset] + late
