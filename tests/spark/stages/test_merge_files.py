"""Which small files of a table are merged."""

from pcli.spark.stages.merge_files import _chunks, _groups
from pcli.spark.tables.data_files import DataFile


def file(number, size, **partition):
    return DataFile("frames", f"{number}.parquet", 1, size, partition)


def merged(files):
    return [[one.path for one in chunk] for group in _groups(files) for chunk in _chunks(group)]


def test_files_of_a_partition_with_similar_sizes():
    files = [file(1, 5000, day="1"), file(2, 6000, day="1"), file(3, 5000, day="2"), file(4, 900_000, day="1")]
    assert merged(files) == [["1.parquet", "2.parquet"], ["3.parquet"], ["4.parquet"]]


def test_a_merge_is_limited_to_the_size_of_a_large_file():
    sizes = [len(chunk) for chunk in merged([file(number, 30 << 20) for number in range(7)])]
    assert sizes == [2, 2, 2, 1]
    assert merged([file(1, 80 << 20)]) == []
