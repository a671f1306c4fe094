"""Merging of small files of a table that incremental runs no longer change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow.dataset as ds

from pcli.spark.stages.kept_states import KeptStates, State
from pcli.spark.stages.read_recording import PartWriter, ReadRecording
from pcli.spark.tables.catalog import DAY, TABLES
from pcli.spark.tables.data_files import DataFile
from pcli.spark.tables.table_store import refused

_LEAST: Final = 16
"""Minimum number of files of similar size that are merged."""

_LARGE: Final = 64 << 20
"""Size in bytes from which a file is not merged."""


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """The files of a table after the merge."""

    files: list[DataFile]
    """All files."""
    made: list[DataFile]
    """The new files among them."""
    replaced: list[DataFile]
    """The files that the new files replace."""


def merge_files(reading: ReadRecording, files: Sequence[DataFile]) -> MergedFiles:
    """Merge files of one table that have the same partition and similar sizes, if there are many.

    The number of files grows with the logarithm of their size, and each row is
    written again about once per 16-fold growth.
    """
    if not files:
        return MergedFiles([], [], [])
    groups = [chunk for group in _groups(files) for chunk in _chunks(group) if len(chunk) >= _LEAST]
    merged = partial(_merged, reading.writer(files[0].table))
    made = reading.engine.map("compact", merged, groups, sizes=[_size(group) for group in groups])
    replaced = [file for group in groups for file in group]
    paths = {file.path for file in replaced}
    new = [file for some in made for file in some]
    return MergedFiles([*(file for file in files if file.path not in paths), *new], new, replaced)


def merge_files_of_states(reading: ReadRecording, kept: KeptStates[State]) -> tuple[KeptStates[State], list[DataFile]]:
    """Merge the files of each state; return the states and the new files."""
    merged = [merge_files(reading, one.files) for one in kept.states]
    states = [replace(one, files=found.files) for one, found in zip(kept.states, merged, strict=True)]
    replaced = [file for found in merged for file in found.replaced]
    return KeptStates(states, [*kept.replaced, *replaced]), [file for found in merged for file in found.made]


def _groups(files: Iterable[DataFile]) -> Iterable[list[DataFile]]:
    """Return the files of each partition whose sizes differ by a factor of less than 16."""
    groups: dict[tuple[object, ...], list[DataFile]] = defaultdict(list)
    for file in files:
        if file.bytes < _LARGE:
            groups[*sorted(file.partition.items()), file.bytes.bit_length() // 4].append(file)
    return groups.values()


def _chunks(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Divide files into groups of about `_LARGE` bytes, which one task can merge."""
    chunk: list[DataFile] = []
    for file in files:
        if chunk and _size([*chunk, file]) > _LARGE:
            yield chunk
            chunk = []
        chunk.append(file)
    yield chunk


def _size(files: Iterable[DataFile]) -> int:
    return sum(file.bytes for file in files)


def _merged(write: PartWriter, files: Sequence[DataFile]) -> list[DataFile]:
    """Write the rows of files as one file."""
    table, store = TABLES[write.table], write.staging.store
    paths = [store.path(f"{table.name}/{one.path}") for one in files]
    with refused(paths[0]):
        rows = ds.dataset(paths, table.schema, format="parquet", filesystem=store.files).to_table()
    return write.rows(0, rows.drop_columns([DAY]))
