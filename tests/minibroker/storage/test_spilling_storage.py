"""A storage compared with a plain list: spilling, reading and trimming do not change the entries."""

from __future__ import annotations

import contextlib
import io
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.spilling_storage import Pool, SpillingStorage, Storage, StorageFull


def read_all(storage: Storage, first: int) -> list[bytes]:
    entries: list[bytes] = []
    while got := storage.read(first + len(entries), 100):
        entries += got
    return entries


def entry(number: int, size: int = 100) -> bytes:
    return number.to_bytes(4, "big") * (size // 4)


def test_offsets_start_at_zero() -> None:
    storage = SpillingStorage(Pool())
    assert (storage.start, storage.end, storage.size) == (0, 0, 0)
    for number in range(3):
        storage.append(entry(number))
    assert (storage.start, storage.end, storage.size) == (0, 3, 300)
    assert storage.read(1, 1) == [entry(1)]
    assert storage.read(3, 10) == []
    assert storage.read(0, 0) == []


def test_entries_above_the_limit_are_spilled_and_read_back() -> None:
    file = io.BytesIO()
    pool = Pool(memory_limit=1_000_000, open_file=lambda: file)
    storage = SpillingStorage(pool)
    for number in range(50_000):
        storage.append(entry(number))
    assert pool.memory < 1_300_000
    assert len(file.getvalue()) > 50_000 * 100 - 1_000_000
    assert read_all(storage, 0) == [entry(number) for number in range(50_000)]
    assert storage.read(49_999, 5) == [entry(49_999)]
    assert storage.size == 5_000_000


def test_the_oldest_block_of_all_topics_is_spilled_first() -> None:
    pool = Pool(memory_limit=100_000, open_file=io.BytesIO)
    idle, busy = SpillingStorage(pool), SpillingStorage(pool)
    idle.append(b"idle")
    for number in range(2000):
        busy.append(entry(number))
    assert idle.read(0, 1) == [b"idle"]
    idle.append(b"again")
    assert read_all(idle, 0) == [b"idle", b"again"]
    assert read_all(busy, 0) == [entry(number) for number in range(2000)]
    assert pool.memory < 150_000


def test_many_small_topics_use_little_memory() -> None:
    file = io.BytesIO()
    pool = Pool(open_file=lambda: file)
    storages = [SpillingStorage(pool) for _ in range(1000)]
    for storage in storages:
        storage.append(b"x" * 100)
    assert pool.memory == 1000 * 156
    assert file.getvalue() == b""


def test_blocks_of_large_entries_have_few_entries() -> None:
    pool = Pool(memory_limit=3_000_000, open_file=io.BytesIO)
    storage = SpillingStorage(pool)
    for number in range(10):
        storage.append(entry(number, 1_000_000))
    assert [len(storage.read(number, 10)) for number in range(10)] == [1] * 10
    assert read_all(storage, 0) == [entry(number, 1_000_000) for number in range(10)]
    assert pool.memory < 5_000_000


def test_a_file_is_released_when_its_last_block_is_trimmed() -> None:
    files: list[io.BytesIO] = []

    def open_file() -> BinaryIO:
        files.append(io.BytesIO())
        return files[-1]

    pool = Pool(memory_limit=0, open_file=open_file)
    storage = SpillingStorage(pool)
    for number in range(100):
        storage.append(entry(number))
    assert len(files) == 1
    assert not files[0].closed
    storage.trim(100)
    assert files[0].closed
    assert (pool.kept, pool.memory, storage.size) == (0, 0, 0)
    storage.append(b"next")
    assert storage.read(100, 1) == [b"next"]


def test_the_backlog_is_limited_without_losing_entries() -> None:
    storage = SpillingStorage(Pool(max_backlog=10_000))
    count = 10_000 // 156
    for number in range(count):
        storage.append(entry(number))
    with pytest.raises(StorageFull) as refusal:
        storage.append(entry(count))
    assert refusal.value.code == pb.PersistenceError
    assert storage.end == count
    storage.trim(count)
    storage.append(b"room again")
    assert storage.read(count, 1) == [b"room again"]


class FullDisk(io.BytesIO):
    def write(self, _: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_refuses_entries_and_keeps_stored_ones() -> None:
    storage = SpillingStorage(Pool(memory_limit=1000, open_file=FullDisk))
    with contextlib.suppress(StorageFull):
        while storage.end < 100:
            storage.append(entry(storage.end))
    assert 6 <= storage.end < 100
    with pytest.raises(StorageFull, match="No space left"):
        storage.append(entry(0))
    assert read_all(storage, 0) == [entry(number) for number in range(storage.end)]


def test_an_unreadable_file_is_a_refusal() -> None:
    pool = Pool(memory_limit=0, open_file=io.BytesIO)
    storage = SpillingStorage(pool)
    storage.append(b"a" * 100)
    storage.append(b"b" * 1000)
    pool.close()
    with pytest.raises(Refused):
        storage.read(0, 1)


def test_the_default_spill_file_is_temporary() -> None:
    pool = Pool(memory_limit=0)
    storage = SpillingStorage(pool)
    for number in range(10):
        storage.append(entry(number, 4000))
    assert pool.memory < pool.kept
    assert read_all(storage, 0) == [entry(number, 4000) for number in range(10)]
    pool.close()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 1), st.sampled_from([0, 1, 90, 700, 40_000])),
        st.tuples(st.just("trim"), st.integers(0, 1), st.integers(0, 60)),
        st.tuples(st.just("read"), st.integers(0, 1), st.integers(0, 60)),
    ),
    max_size=150,
)


@given(steps, st.sampled_from([0, 500, 5_000, 100_000]))
def test_two_storages_behave_like_trimmed_lists(moves: list[tuple[str, int, int]], limit: int) -> None:
    pool = Pool(memory_limit=limit, open_file=io.BytesIO)
    storages, truths, starts = [SpillingStorage(pool), SpillingStorage(pool)], [list[bytes](), list[bytes]()], [0, 0]
    for move, which, value in moves:
        storage, truth = storages[which], truths[which]
        if move == "append":
            data = len(truth).to_bytes(4, "big") + bytes(value)
            storage.append(data)
            truth.append(data)
        elif move == "trim":
            storage.trim(value)
            starts[which] = max(starts[which], min(value, len(truth)))
        else:
            got = storage.read(value, 7)
            begin = max(value, starts[which])
            assert got == truth[begin : begin + len(got)]
            assert bool(got) == (begin < len(truth))
        assert (storage.start, storage.end) == (starts[which], len(truth))
    for storage, truth, start in zip(storages, truths, starts):
        assert read_all(storage, start) == truth[start:]
        storage.trim(len(truth))
    assert (pool.memory, pool.kept) == (0, 0)
