"""The files of one table of one recording."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pcli.spark.stages.read_recording import part_number
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.data_files import DataFile, Staging, write_rows

__all__ = ["PartWriter"]


@dataclass(frozen=True, slots=True)
class PartWriter:
    """A writer for the parts of a table."""

    staging: Staging
    table: str
    cluster: str
    place: int

    def rows(self, number: int, rows: pa.Table) -> list[DataFile]:
        """Write a part."""
        return write_rows(self.staging, TABLES[self.table], part_number(self.place, number), rows)
