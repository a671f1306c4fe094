"""Blocks of an exchange without Spark: in any order, in memory or in a file."""

import random

import pyarrow as pa
import pytest

from pcli.codec.errors import LocalError
from pcli.spark.engine import Block
from pcli.spark.jobs import shuffle as module
from pcli.spark.jobs.shuffle import in_buckets, sent


def rows(*numbers):
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def cut(item):
    for number in range(40):
        yield Block(number % 7, -item if number % 2 else 0, f"kind{number % 3}", rows(item, number))


def failing(item):
    yield Block(3, 0, "", rows(item))
    raise LocalError(f"item {item} is bad")


def loads_of(items, partitions, function=cut):
    """Return the loads of each partition, shuffled."""
    out = {partition: [] for partition in range(partitions)}
    for item in items:
        for partition, load in sent(item, function(item), partitions):
            out[partition].append(load)
    for loads in out.values():
        random.Random(1).shuffle(loads)
    return out


def given(loads):
    found = {}
    for some in loads.values():
        for bucket, blocks in in_buckets(iter(some)):
            assert bucket not in found
            found[bucket] = [(kind, batch["n"].to_pylist()) for kind, batch in blocks]
    return found


def wanted(items):
    order = sorted(
        (block.bucket, block.rank, item, place, block.kind, block.rows["n"].to_pylist())
        for item in items
        for place, block in enumerate(cut(item))
    )
    return {bucket: [one[4:] for one in order if one[0] == bucket] for bucket in range(7)}


@pytest.mark.parametrize("partitions", [1, 3, 7, 200])
def test_buckets_have_their_blocks_in_order(partitions):
    assert given(loads_of(range(5), partitions)) == wanted(range(5))


def test_blocks_beyond_the_memory_limit_are_in_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_KEPT", 5000)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    shelves = []
    monkeypatch.setattr(module, "_BlockStore", lambda file: shelves.append(Shelf(file)) or shelves[-1])
    assert given(loads_of(range(5), 2)) == wanted(range(5))
    assert all(shelf.written > 5000 for shelf in shelves)
    assert not list(tmp_path.iterdir())


class Shelf(module._BlockStore):
    written = 0

    def fill(self, loads):
        super().fill(loads)
        self.written = self._file.seek(0, 2)


def test_blocks_are_sent_before_they_become_large(monkeypatch):
    monkeypatch.setattr(module, "_LOAD", 3000)
    loads = loads_of(range(2), 1)
    assert len(loads[0]) > 4
    assert max(map(len, loads[0])) < 6000
    assert given(loads) == wanted(range(2))


def test_large_rows_are_sliced(monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 800)
    loads = loads_of([0], 1, lambda item: iter([Block(0, 0, "k", rows(*range(1000)))]))
    ((bucket, blocks),) = ((bucket, list(blocks)) for bucket, blocks in in_buckets(loads[0]))
    assert bucket == 0
    assert len(blocks) == 10
    assert [n for _, batch in blocks for n in batch["n"].to_pylist()] == list(range(1000))


def test_the_error_of_the_first_item_is_raised_in_any_order():
    for seed in range(5):
        loads = loads_of([2, 1, 3], 4, failing)[0]
        random.Random(seed).shuffle(loads)
        with pytest.raises(LocalError, match="item 1 is bad"):
            list(in_buckets(loads))


def test_a_bucket_that_is_not_read_to_its_end():
    loads = loads_of(range(3), 1)
    firsts = {bucket: next(blocks)[1]["n"].to_pylist() for bucket, blocks in in_buckets(loads[0])}
    assert firsts == {bucket: blocks[0][1] for bucket, blocks in wanted(range(3)).items()}
