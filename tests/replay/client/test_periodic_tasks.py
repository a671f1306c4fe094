"""Tasks that run periodically."""

from __future__ import annotations

from typing import Any

from pcli.replay.client.periodic_tasks import PeriodicTasks


def test_each_run_returns_the_next_delay(network: Any) -> None:
    engine = network.engine()
    start, times = engine.now, []
    tasks = PeriodicTasks(engine)

    def task() -> int:
        times.append(engine.now - start)
        return 10 * len(times)

    tasks.begin(5, task)
    engine.advance(start + 40)
    assert times == [5, 15, 35]
    tasks.stop()
    engine.advance(start + 1000)
    assert times == [5, 15, 35]


def test_a_task_that_ends_all_tasks_is_not_run_again(network: Any) -> None:
    engine, runs = network.engine(), []
    tasks = PeriodicTasks(engine)

    def task() -> int:
        runs.append(engine.now)
        tasks.stop()
        return 10

    tasks.begin(5, task)
    engine.advance(engine.now + 1000)
    assert len(runs) == 1
    assert engine.deadline is None
