"""Batches: when they are full, and what is sent. The numbers are those of BatchMessageContainerImpl."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pcli.replay.client.producer.batch_container import BatchContainer, BatchTimer, KeyBasedBatchContainer
from pcli.replay.client.producer.outgoing_message import OutgoingMessage


def fill(container: BatchContainer, sizes: Sequence[int]) -> list[bool]:
    """Return for each message whether the batch was full after it."""
    return [container.add(OutgoingMessage(bytes(size)), n, None, 100 + n, b"") for n, size in enumerate(sizes)]


@pytest.mark.parametrize("kind", [BatchContainer, KeyBasedBatchContainer])
@pytest.mark.parametrize(
    ("most", "most_bytes", "sizes", "full"),
    [
        (3, 1000, [1, 1, 1], [False, False, True]),
        (1, 1000, [1], [True]),
        (0, 1000, [1] * 5, [False] * 5),
        (9, 100, [50, 49], [False, False]),
        (9, 100, [50, 50], [False, True]),
        (9, 100, [101], [True]),
        (9, 0, [5 << 20], [True]),
        (9, 0, [(5 << 20) - 1], [False]),
    ],
)
def test_a_full_batch(
    kind: type[BatchContainer], most: int, most_bytes: int, sizes: list[int], full: list[bool]
) -> None:
    assert fill(kind(most, most_bytes), sizes) == full


def test_without_a_byte_limit_the_brokers_maximum_applies() -> None:
    container = BatchContainer(9, 0)
    container.may_hold(64)
    assert fill(container, [63, 1]) == [False, True]
    limited = BatchContainer(9, 100)
    limited.may_hold(64)
    assert limited.most_bytes == 100


def test_taken_messages_are_removed() -> None:
    container = BatchContainer(9, 1000)
    fill(container, [3, 4])
    assert (container.count, container.size, container.time) == (2, 7, 100)
    [batch] = container.take()
    assert (batch.sequence_ids, batch.size, batch.time, batch.lowest) == ([0, 1], 7, 100, None)
    assert container.take() == []
    assert (container.count, container.size) == (0, 0)
    container.add(OutgoingMessage(b""), 7, None, 200, b"")
    assert container.time == 200


def test_a_batch_has_one_schema_version() -> None:
    container = BatchContainer(9, 1000)
    assert container.has_same_schema(OutgoingMessage(b""), b"2")
    container.add(OutgoingMessage(b""), 0, None, 0, b"1")
    assert container.has_same_schema(OutgoingMessage(b""), b"1")
    assert not container.has_same_schema(OutgoingMessage(b""), b"2")


def container_of(*keys: str | bytes | None) -> KeyBasedBatchContainer:
    """Messages with these keys; bytes are ordering keys."""
    container = KeyBasedBatchContainer(100, 1000)
    for number, key in enumerate(keys):
        given = {"ordering_key": key} if isinstance(key, bytes) else {"key": key}
        container.add(OutgoingMessage(b"12", **given), number, None, 100 + number, b"")  # type: ignore[arg-type]
    return container


def test_each_key_has_a_batch_and_the_last_id_orders_them() -> None:
    batches = container_of("A", "B", "B", "A", "A").take()
    assert [(batch.sequence_ids, batch.lowest, batch.size) for batch in batches] == [([1, 2], 2, 4), ([0, 3, 4], 4, 6)]


def test_messages_without_a_key_share_a_batch() -> None:
    batches = container_of(None, "A", None).take()
    assert [batch.sequence_ids for batch in batches] == [[1], [0, 2]]


def test_the_ordering_key_precedes_the_key_and_is_compared_as_base64() -> None:
    batches = container_of(b"key", "a2V5", b"other").take()
    assert [batch.sequence_ids for batch in batches] == [[0, 1], [2]]


def test_the_time_is_the_first_messages() -> None:
    container = container_of("A", "B", "A")
    assert (container.count, container.size, container.time) == (3, 6, 100)
    assert [batch.time for batch in container.take()] == [101, 100]
    assert (container.count, container.size) == (0, 0)
    container.add(OutgoingMessage(b""), 9, None, 300, b"")
    assert container.time == 300


def test_schemas_are_compared_within_a_key() -> None:
    container = KeyBasedBatchContainer(100, 1000)
    container.add(OutgoingMessage(b"", key="A"), 0, None, 0, b"1")
    assert container.has_same_schema(OutgoingMessage(b"", key="B"), b"2")
    assert not container.has_same_schema(OutgoingMessage(b"", key="A"), b"2")


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
