"""The memory limit (MemoryLimitController)."""

from __future__ import annotations

from pcli.replay.client.memory_limit import MemoryLimit


def test_only_one_reservation_may_exceed_the_limit() -> None:
    memory = MemoryLimit(100)
    assert memory.reserve(60)
    assert memory.reserve(60)
    assert not memory.reserve(1)
    memory.release(60)
    assert memory.reserve(1)
    assert memory.held == 61


def test_no_limit() -> None:
    memory = MemoryLimit(0)
    assert all(memory.reserve(1 << 40) for _ in range(3))


def test_refused_callers_are_notified_once() -> None:
    memory, results = MemoryLimit(10), []
    memory.reserve(20)
    tell = lambda: results.append(1)  # noqa: E731
    memory.when_available(tell)
    memory.when_available(tell)
    memory.release(5)
    assert results == []
    memory.release(15)
    memory.reserve(5)
    memory.release(5)
    assert results == [1]
