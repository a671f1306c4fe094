"""Reading the tables that a run has left: by its manifest, so that a run which ends meanwhile does not show.

Rules of this file
1. A table looks the same whether it is partitioned or not: its schema's columns, in order.
2. Between the reading of the manifest and that of a file a run may end and remove it. Then the new manifest is read and
   all begins again, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from pcli.codec.errors import LocalError
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.manifest import Manifest
from pcli.spark.tables.table_commit import read_manifest
from pcli.spark.tables.table_store import Store, open_store, refused

__all__ = ["StoredTables"]

_T = TypeVar("_T")

_PARTITION: Final = ds.partitioning(pa.schema([("cluster", pa.string()), ("hour", pa.string())]), flavor="hive")


class StoredTables:
    """The tables in a folder."""

    def __init__(self, place: str | Store) -> None:
        """``place``: a path, a URI, or a store. LocalError when there are no tables of pcli."""
        self._store = open_store(place) if isinstance(place, str) else place
        self.manifest: Manifest = self._manifest()
        """What there is, and of which run."""

    def _manifest(self) -> Manifest:
        manifest = read_manifest(self._store)
        if manifest is None:
            raise LocalError(f"{self._store.root}: there are no tables in it: `pcli analyze -o` makes them")
        return manifest

    @property
    def names(self) -> tuple[str, ...]:
        """The tables that are there."""
        return self.manifest.tables

    def folder(self, name: str) -> str:
        """Where a table lies, as a path or URI."""
        return self._store.place_of(name)

    def files(self, name: str) -> list[str]:
        """Where the files of a table lie, as paths or URIs; LocalError when there is no such table."""
        self._check(name)
        return [self._store.place_of(file.path) for file in self.manifest.of(name)]

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise LocalError(f"{self._store.root}: it has no table {name!r}: there are {', '.join(self.names)}")

    def dataset(self, name: str) -> Any:
        """A table as a pyarrow dataset, for queries; its files may go away when a new run ends."""
        self._check(name)
        paths = [self._store.path(file.path) for file in self.manifest.of(name)]
        schema = TABLES[name].schema
        if name not in self.manifest.partitioned:
            return ds.dataset(paths, schema, format="parquet", filesystem=self._store.files)
        more = {"partitioning": _PARTITION, "partition_base_dir": self._store.path(name)}
        return ds.dataset(paths, schema, format="parquet", filesystem=self._store.files, **more)

    def read(self, name: str, columns: Sequence[str] | None = None, where: Any = None) -> pa.Table:
        """A table, or these columns of it; ``where``: a pyarrow expression that rows have to fulfil."""
        wanted = list(columns) if columns is not None else TABLES[name].schema.names if name in TABLES else None
        return self._again(lambda: self.dataset(name).to_table(columns=wanted, filter=where))

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of a table, a piece at a time: for tables of any size."""
        yield from self.dataset(name).to_batches(columns=list(columns))

    def _again(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except FileNotFoundError:
            self.manifest = self._manifest()
        with refused(self._store.root):
            return read()
