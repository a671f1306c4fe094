"""A batch for each key: the example in the Java client's comment, and its capture (key-based-batcher.pcap)."""

from __future__ import annotations

from pcli.replay.client.producer.key_based_batch_container import KeyBasedBatchContainer
from pcli.replay.client.producer.outgoing_message import OutgoingMessage


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
