"""The times at which the batch timer sends, in milliseconds, by the rules of ProducerImpl.batchFlushTask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pcli.replay.client.producer.batch_timer import BatchTimer

Run = Callable[..., list[int]]


@pytest.fixture
def run(network: Any) -> Run:
    """Add messages and fill batches at these times after the start; return the times at which the timer sent."""

    def play(*, delay: int, messages: list[int], full: tuple[int, ...] = (), away: tuple[int, ...] = ()) -> list[int]:
        engine = network.engine()
        start = engine.now
        sent: list[int] = []
        waits = [False]

        def flush() -> bool:
            had, waits[0] = waits[0], False
            if had:
                timer.sent()
                sent.append(engine.now - start)
            return had

        timer = BatchTimer(engine, delay, ready=lambda: engine.now - start not in away, flush=flush)
        timer.set(0)
        for moment in sorted((*messages, *full)):
            engine.advance(start + moment)
            if moment in full:
                timer.sent()
                waits[0] = False
            else:
                waits[0] = True
                timer.message_waits()
        engine.advance(start + 1000)
        return sent

    return play


def test_the_first_batch_waits_for_the_producers_first_timer(run: Run) -> None:
    assert run(delay=10, messages=[3]) == [10]


def test_a_single_message_waits_for_a_whole_delay(run: Run) -> None:
    assert run(delay=10, messages=[50]) == [60]


def test_a_stream_of_messages_is_sent_once_per_delay(run: Run) -> None:
    assert run(delay=10, messages=list(range(50, 80))) == [60, 70, 80]


def test_after_a_batch_the_timer_runs_once_without_effect(run: Run) -> None:
    # After the send at 60, the timer fires at 70 without messages. A message at 65 is sent then; one at 75 has to wait.
    assert run(delay=10, messages=[50, 65]) == [60, 70]
    assert run(delay=10, messages=[50, 75]) == [60, 85]


def test_a_full_batch_gives_the_next_one_its_whole_delay(run: Run) -> None:
    assert run(delay=10, messages=[50, 56], full=(55,)) == [65]


def test_a_producer_that_is_not_ready_sends_nothing_and_sets_no_timer(run: Run) -> None:
    assert run(delay=10, messages=[50], away=(50,)) == []
    assert run(delay=10, messages=[50], away=(60,)) == []
    assert run(delay=10, messages=[50, 90], away=(60,)) == [100]
