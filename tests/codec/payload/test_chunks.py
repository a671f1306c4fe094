"""Chunks, by the rules of ConsumerImpl.processMessageChunk of the Java client; test_truth.py reads whole captures."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.chunks import ChunkJoiner, Joined, chunk_problems, is_chunk
from pcli.codec.proto import pb

Meta = Callable[..., pb.MessageMetadata]


@pytest.fixture
def send(meta: Meta) -> Callable[..., Joined]:
    def add(
        joiner: ChunkJoiner, uuid: str, number: int, of: int, data: bytes, scope: Hashable = None, total: int = -1
    ) -> Joined:
        metadata = meta(uuid=uuid, chunk_id=number, num_chunks_from_msg=of)
        if total >= 0:
            metadata.total_chunk_msg_size = total
        return joiner.add(metadata, data, scope)

    return add


def test_two_messages_interleaved(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    assert send(joiner, "a", 0, 3, b"A0") == Joined(None)
    assert send(joiner, "b", 0, 2, b"B0") == Joined(None)
    assert send(joiner, "a", 1, 3, b"A1") == Joined(None)
    assert joiner.waiting == [(None, "a", 2, 3), (None, "b", 1, 2)]
    assert send(joiner, "b", 1, 2, b"B1") == Joined(b"B0B1")
    assert send(joiner, "a", 2, 3, b"A2") == Joined(b"A0A1A2")
    assert joiner.waiting == []
    assert joiner.size == 0


def test_the_same_message_to_two_consumers(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    send(joiner, "a", 0, 2, b"A0", scope=1)
    send(joiner, "a", 0, 2, b"A0", scope=2)
    assert send(joiner, "a", 1, 2, b"A1", scope=2).payload == b"A0A1"
    assert send(joiner, "a", 1, 2, b"A1", scope=1).payload == b"A0A1"


def test_a_redelivery_starts_again(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    send(joiner, "a", 0, 2, b"old")
    assert send(joiner, "a", 0, 2, b"A0") == Joined(None)
    assert send(joiner, "a", 1, 2, b"A1") == Joined(b"A0A1")


def test_a_duplicate_chunk_is_ignored(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    send(joiner, "a", 0, 3, b"A0")
    send(joiner, "a", 1, 3, b"A1")
    assert send(joiner, "a", 1, 3, b"A1") == Joined(None)
    assert send(joiner, "a", 2, 3, b"A2") == Joined(b"A0A1A2")


def test_a_chunk_out_of_order_discards_the_message(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    send(joiner, "a", 0, 3, b"A0")
    (problem,) = send(joiner, "a", 2, 3, b"A2").problems
    assert problem == ("chunk", "chunk 2 (from 0) of 3 of 'a' arrived where 1 was expected: the message is discarded")
    assert joiner.waiting == []
    (problem,) = send(joiner, "a", 1, 3, b"A1").problems
    assert "the earlier chunks were not captured" in problem.detail


@pytest.mark.parametrize(("number", "of"), [(3, 2), (2, 2), (-1, 2), (1, 1), (5, 0), (2**31 - 1, 2), (4, -3)])
def test_chunk_three_of_two(number: int, of: int, send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    joined = send(joiner, "a", number, of, b"x")
    assert joined.payload is None
    assert joined.problems[0].detail == f"chunk {number} (from 0) of {of} of 'a' has an invalid number"


def test_a_changed_number_of_chunks(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    send(joiner, "a", 0, 3, b"A0")
    assert "belongs to a message of 3 chunks" in send(joiner, "a", 1, 2, b"A1").problems[0].detail
    assert joiner.waiting == []


def test_a_wrong_total_size_is_reported_and_the_message_kept(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    send(joiner, "a", 0, 2, b"A0", total=5)
    joined = send(joiner, "a", 1, 2, b"A1", total=5)
    assert joined.payload == b"A0A1"
    assert "completes 4 bytes instead of the announced 5" in joined.problems[0].detail


def test_a_changed_total_size_is_reported(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    send(joiner, "a", 0, 3, b"A0", total=6)
    (problem,) = send(joiner, "a", 1, 3, b"A1", total=7).problems
    assert problem.detail == "chunk 1 (from 0) of 3 of 'a' belongs to a message of 7 bytes; chunk 0 specifies 6"
    assert send(joiner, "a", 2, 3, b"A2", total=6) == Joined(b"A0A1A2")


def test_a_restart_with_other_sizes_is_reported(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner()
    send(joiner, "a", 0, 3, b"A0", total=6)
    first, second = send(joiner, "a", 0, 2, b"A0", total=4).problems
    assert first.detail == "chunk 0 (from 0) of 2 of 'a' belongs to a message of 3 chunks: the message starts again"
    assert second.detail.endswith("belongs to a message of 4 bytes; chunk 0 specifies 6")
    assert send(joiner, "a", 1, 2, b"A1", total=4) == Joined(b"A0A1")


@pytest.mark.parametrize(
    ("fields", "size", "told"),
    [
        ({"chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 9, "uuid": "u"}, 5, []),
        ({"chunk_id": 1, "num_chunks_from_msg": 2, "total_chunk_msg_size": 5, "uuid": "u"}, 5, []),
        ({"chunk_id": 1, "num_chunks_from_msg": 2, "uuid": "u"}, 5, []),
        ({"chunk_id": 2, "num_chunks_from_msg": 2, "uuid": "u"}, 5, ["has an invalid number"]),
        ({"chunk_id": -1, "num_chunks_from_msg": 2, "uuid": "u"}, 5, ["has an invalid number"]),
        ({"chunk_id": 0, "num_chunks_from_msg": 0, "uuid": "u"}, 5, ["has an invalid number"]),
        ({"chunk_id": 0, "num_chunks_from_msg": 2}, 5, ["has no uuid, so its message is unknown"]),
        (
            {"chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 0, "uuid": "u"},
            5,
            ["belongs to a message of 0 bytes"],
        ),
        (
            {"chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 4, "uuid": "u"},
            5,
            ["of 5 bytes belongs to a message of 4"],
        ),
        (
            {"chunk_id": 3, "num_chunks_from_msg": 2, "total_chunk_msg_size": -1},
            0,
            [
                "has an invalid number",
                "has no uuid, so its message is unknown",
                "belongs to a message of -1 bytes",
            ],
        ),
    ],
)
def test_contradictions_in_one_chunk(fields: dict[str, object], size: int, told: list[str], meta: Meta) -> None:
    problems = chunk_problems(meta(**fields), size)
    assert {problem.kind for problem in problems} <= {"chunk"}
    assert [
        problem.detail.partition(" of 'u' ")[2] or problem.detail.partition(" of '' ")[2] for problem in problems
    ] == told


def test_the_oldest_message_is_discarded_above_the_message_limit(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner(max_pending=2)
    send(joiner, "a", 0, 2, b"A0")
    send(joiner, "b", 0, 2, b"B0")
    (problem,) = send(joiner, "c", 0, 2, b"C0").problems
    assert problem.detail == "message 'a' is discarded with 1 of 2 chunks: too many bytes are pending"
    assert [uuid for _, uuid, _, _ in joiner.waiting] == ["b", "c"]


def test_messages_are_discarded_above_the_byte_limit(
    send: Callable[..., Joined], peak: Callable[[Callable[[], object]], int]
) -> None:
    joiner = ChunkJoiner(max_bytes=1_000_000)
    told = []

    def flood() -> None:
        for number in range(50):
            told.extend(send(joiner, "giant", number, 2**31 - 1, bytes(100_000)).problems)
            assert joiner.size <= 1_000_000

    assert peak(flood) < 1_500_000
    assert told[0].detail.startswith("this message is discarded with 10 of 2147483647 chunks")


def test_long_uuids_and_empty_chunks_count_as_memory(send: Callable[..., Joined]) -> None:
    joiner = ChunkJoiner(max_bytes=100_000)
    for number in range(100):
        for problem in send(joiner, f"{number}" * 10_000, 0, 2, b"").problems:
            assert len(problem.detail) < 200
    assert joiner.size <= 100_000
    for number in range(10_000):
        send(joiner, "a", number, 2**31 - 1, b"")
    assert joiner.size <= 100_000


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_any_interleaving_of_messages(bodies: list[bytes], chance: random.Random) -> None:
    joiner = ChunkJoiner()
    trains = {
        str(index): [(number, len(body), body[number : number + 1]) for number in range(len(body))]
        for index, body in enumerate(bodies)
    }
    done: dict[str, bytes | None] = {}
    while any(trains.values()):
        uuid = chance.choice([name for name, train in trains.items() if train])
        number, of, data = trains[uuid].pop(0)
        metadata = pb.MessageMetadata(uuid=uuid, chunk_id=number, num_chunks_from_msg=of)
        done[uuid] = joiner.add(metadata, data).payload
    assert done == {str(index): body for index, body in enumerate(bodies)}


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(-2, 5), st.integers(-2, 4), st.binary(max_size=9)), max_size=40
    )
)
def test_no_chunks_raise_and_the_memory_count_is_exact(chunks: list[tuple[str, int, int, bytes]]) -> None:
    joiner = ChunkJoiner(max_bytes=300, max_pending=2)
    for uuid, number, of, data in chunks:
        metadata = pb.MessageMetadata(uuid=uuid, chunk_id=number, num_chunks_from_msg=of)
        joiner.add(metadata, data)
        assert 0 <= joiner.size <= 300
    for uuid in "ab":
        joiner.forget(pb.MessageMetadata(uuid=uuid))
    assert joiner.size == 0


def test_a_uuid_with_invalid_utf8() -> None:
    metadata = pb.MessageMetadata.FromString(b"\xd2\x01\x02a\xff\xd8\x01\x02\xe8\x01\x00")
    joiner = ChunkJoiner()
    joiner.add(metadata, b"one")
    assert joiner.waiting == [(None, "a\\xff", 1, 2)]
    metadata.chunk_id = 7
    assert "'a\\\\xff'" in joiner.add(metadata, b"").problems[0].detail


def test_what_is_a_chunk(meta: Meta) -> None:
    assert not is_chunk(meta())
    assert not is_chunk(meta(num_chunks_from_msg=1, chunk_id=0))
    assert is_chunk(meta(num_chunks_from_msg=2, chunk_id=0))
    assert is_chunk(meta(chunk_id=3))
