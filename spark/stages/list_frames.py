"""The table `frames`, written split by split. An incremental run writes only the rows of new splits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from pcli.spark.stages.kept_states import KeptStates, TableState
from pcli.spark.stages.merge_files import merge_files_of_states
from pcli.spark.stages.read_recording import PartWriter, ReadRecording, tables_of
from pcli.spark.stages.split_tables import SplitParts, size_of
from pcli.spark.tables.data_files import DataFile


def list_frames(reading: ReadRecording, splits: Sequence[SplitParts]) -> list[DataFile]:
    """Write the table `frames` of splits of a recording."""
    sizes = [size_of([split], "frames") for split in splits]
    write = partial(_write, reading.writer("frames"))
    return [one for some in reading.engine.map("frames", write, splits, sizes=sizes) for one in some]


def list_new_frames(
    reading: ReadRecording, kept: KeptStates[TableState]
) -> tuple[list[DataFile], list[DataFile], KeptStates[TableState]]:
    """Continue the table `frames` of a recording.

    The last split of ``reading`` contains the rows from the end of the recording. Return the new files, the replaced
    files, and the states.
    """
    first = kept.states[-1].parts if kept.states else 0
    splits = [split for split in reading.splits[:-1] if split.part >= first]
    files = list_frames(reading, splits)
    left = list_frames(reading, reading.splits[-1:])
    kept, merged = merge_files_of_states(reading, kept)
    state = TableState(len(reading.recording.parts), files)
    return [*files, *left, *merged], kept.replaced, kept.followed_by(state, left)


def _write(write: PartWriter, split: SplitParts) -> list[DataFile]:
    tables = list(tables_of(write.staging, split, "frames"))
    return write.rows(split.split, pa.concat_tables(tables)) if tables else []
