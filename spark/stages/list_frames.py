"""The table `frames`, written split by split."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from pcli.spark.engine import Engine
from pcli.spark.stages.read_recording import ReadRecording, part_number, tables_of
from pcli.spark.stages.split_tables import SplitParts, size_of
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import DataFile, Staging, write_rows

__all__ = ["list_frames"]


def list_frames(engine: Engine, staging: Staging, reading: ReadRecording, place: int) -> list[DataFile]:
    """Write the table `frames` of the recording with the index ``place``."""
    sizes = [size_of([split], "frames") for split in reading.splits]
    write = partial(_write, staging, place)
    return [one for some in engine.map("frames", write, reading.splits, sizes=sizes) for one in some]


def _write(staging: Staging, place: int, split: SplitParts) -> list[DataFile]:
    tables = list(tables_of(staging, split, "frames"))
    if not tables:
        return []
    return write_rows(staging, TABLES["frames"], part_number(place, split.split), pa.concat_tables(tables))
