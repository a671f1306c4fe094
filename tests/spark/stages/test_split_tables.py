"""Results of splits, in memory up to a limit and in files beyond it."""

import pyarrow as pa
import pytest

from pcli.spark.stages.split_tables import PartStorage, ReadCounts, SplitParts, as_batch, load, size_of
from pcli.spark.tables.data_files import Staging
from pcli.spark.tables.table_store import open_store


@pytest.fixture
def staging(tmp_path):
    return Staging(open_store(str(tmp_path)), "x")


def table(*values):
    return pa.table({"a": pa.array(values, pa.int64())}).replace_schema_metadata({"k": "v"})


def test_small_tables_stay_in_memory_and_large_ones_go_to_files(staging):
    keeper = PartStorage(staging, memory=30)
    small, large, last = keeper.keep("t", [table(1, 2), table(*range(10)), table(3)])
    assert (small.path, last.path) == ("", "")
    assert large.path.startswith("_work/x/parts/t-")
    assert staging.store.list(deep=True) == [large.path]
    for part, wanted in ((small, table(1, 2)), (large, table(*range(10))), (last, table(3))):
        assert load(staging, part).equals(wanted, check_metadata=True)
        assert part.rows == len(wanted)


def test_nothing_is_kept_of_nothing(staging):
    assert PartStorage(staging).keep("t", [table()]) == []


def test_sizes_are_added_by_name(staging):
    keeper = PartStorage(staging, memory=1000)
    splits = [
        SplitParts(number, 0, {"a": keeper.keep("a", [table(1, 2)]), "b": keeper.keep("b", [table(1)])})
        for number in (0, 1)
    ]
    assert size_of(splits, "a") == 32
    assert size_of(splits, "a", "b", "c") == 48


def test_parts_as_one_batch():
    blocks = pa.concat_tables([table(1), table(2, 3)])
    assert as_batch(blocks).to_pydict() == {"a": [1, 2, 3]}
    assert as_batch(table()).num_rows == 0


def test_counts_of_splits_are_added():
    whole = ReadCounts()
    for one in (ReadCounts(2, 3, 10, 5, 9, {1}), ReadCounts(), ReadCounts(1, 1, 5, 2, 4, {113})):
        whole.add(one)
    assert whole == ReadCounts(3, 4, 15, 2, 9, {1, 113})
