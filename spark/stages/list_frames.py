"""The table `frames`, written split by split. An incremental run writes only the rows of new splits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from pcli.spark.engine import Engine
from pcli.spark.stages.kept_states import KeptStates, TableState
from pcli.spark.stages.merge_files import merge_files_of_states
from pcli.spark.stages.read_recording import ReadRecording, part_number, tables_of
from pcli.spark.stages.split_tables import SplitParts, size_of
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import DataFile, Staging, write_rows

__all__ = ["list_frames", "list_new_frames"]


def list_frames(engine: Engine, staging: Staging, splits: Sequence[SplitParts], place: int) -> list[DataFile]:
    """Write the table `frames` of the splits of the recording with the index ``place``."""
    sizes = [size_of([split], "frames") for split in splits]
    write = partial(_write, staging, place)
    return [one for some in engine.map("frames", write, splits, sizes=sizes) for one in some]


def list_new_frames(
    engine: Engine, staging: Staging, reading: ReadRecording, kept: KeptStates[TableState], place: int
) -> tuple[list[DataFile], list[DataFile], KeptStates[TableState]]:
    """Continue the table `frames` of the recording with the index ``place``.

    The last split of ``reading`` contains the rows from the end of the recording. Return the new files, the replaced
    files, and the states.
    """
    first = kept.states[-1].parts if kept.states else 0
    splits = [split for split in reading.splits[:-1] if split.part >= first]
    files = list_frames(engine, staging, splits, place)
    left = list_frames(engine, staging, reading.splits[-1:], place)
    kept, merged = merge_files_of_states(engine, staging, part_number(place, 0), kept)
    state = TableState(len(reading.recording.parts), files)
    return [*files, *left, *merged], kept.replaced, kept.followed_by(state, left)


def _write(staging: Staging, place: int, split: SplitParts) -> list[DataFile]:
    tables = list(tables_of(staging, split, "frames"))
    if not tables:
        return []
    return write_rows(staging, TABLES["frames"], part_number(place, split.split), pa.concat_tables(tables))
