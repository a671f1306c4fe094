"""Tasks that come again."""

from __future__ import annotations

from typing import Any

from pcli.replay.client.repeating import Repeating


def test_each_run_says_when_the_next_one_is(world: Any) -> None:
    engine = world.engine()
    start, times = engine.now, []
    tasks = Repeating(engine)

    def task() -> int:
        times.append(engine.now - start)
        return 10 * len(times)

    tasks.begin(5, task)
    engine.advance(start + 40)
    assert times == [5, 15, 35]
    tasks.stop()
    engine.advance(start + 1000)
    assert times == [5, 15, 35]
