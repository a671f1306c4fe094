"""The reader of a completed run's tables, by its manifest. A run that commits during the reading is not visible.

Rules of this file
1. A table has the columns of its schema, in order, whether or not it is partitioned.
2. After the manifest is read, a different run may commit and remove a file. If a file is missing, the new manifest is
   read, and reading is repeated once.
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
        """``place`` is a path, a URI or a store. Raise LocalError if it contains no tables of pcli."""
        self._store = open_store(place) if isinstance(place, str) else place
        self.manifest: Manifest = self._manifest()
        """The current manifest."""

    def _manifest(self) -> Manifest:
        manifest = read_manifest(self._store)
        if manifest is None:
            raise LocalError(f"{self._store.root}: the folder contains no tables: create them with `pcli analyze -o`")
        return manifest

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return self.manifest.tables

    def folder(self, name: str) -> str:
        """Return the folder of a table, as a path or URI."""
        return self._store.place_of(name)

    def files(self, name: str) -> list[str]:
        """Return the files of a table, as paths or URIs; raise LocalError if there is no such table."""
        self._check(name)
        return [self._store.place_of(file.path) for file in self.manifest.of(name)]

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise LocalError(f"{self._store.root}: no table {name!r}; the tables are {', '.join(self.names)}")

    def dataset(self, name: str) -> Any:
        """Return a table as a pyarrow dataset for queries. A later run may remove files of the dataset."""
        self._check(name)
        paths = [self._store.path(file.path) for file in self.manifest.of(name)]
        schema = TABLES[name].schema
        if name not in self.manifest.partitioned:
            return ds.dataset(paths, schema, format="parquet", filesystem=self._store.files)
        more = {"partitioning": _PARTITION, "partition_base_dir": self._store.path(name)}
        return ds.dataset(paths, schema, format="parquet", filesystem=self._store.files, **more)

    def read(self, name: str, columns: Sequence[str] | None = None, where: Any = None) -> pa.Table:
        """Return a table, or only these columns of the table; ``where`` is a pyarrow filter expression."""
        wanted = list(columns) if columns is not None else TABLES[name].schema.names if name in TABLES else None
        return self._again(lambda: self.dataset(name).to_table(columns=wanted, filter=where))

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns of a table in batches, for tables of any size."""
        yield from self.dataset(name).to_batches(columns=list(columns))

    def _again(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except FileNotFoundError:
            self.manifest = self._manifest()
        with refused(self._store.root):
            return read()
