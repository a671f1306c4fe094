"""Batches: when they are full, and what is sent. The numbers are those of BatchMessageContainerImpl."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pcli.replay.client.producer.batch_container import BatchContainer
from pcli.replay.client.producer.key_based_batch_container import KeyBasedBatchContainer
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
