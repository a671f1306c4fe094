"""The reader of a run's tables: the versions of the Delta tables that belong to this run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import fs

from pcli.codec.errors import LocalError
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.delta_tables import delta_errors, file_paths, open_delta
from pcli.spark.tables.runs import Run, find_run, read_runs
from pcli.spark.tables.table_store import Store, open_store, refused


class StoredTables:
    """The tables in a folder."""

    def __init__(self, place: str | Store, *, run: int | None = None, at_ns: int | None = None) -> None:
        """``place`` is a path, a URI or a store.

        ``run`` selects a run by its number, and ``at_ns`` the last run that had finished at this time (ns since 1970);
        the default is the last run. Raise LocalError if the folder contains no tables of pcli, or no such run.
        """
        self._store = open_store(place) if isinstance(place, str) else place
        self.run: Run = find_run(read_runs(self._store), self._store.root, number=run, at_ns=at_ns)
        """The run whose tables are read."""

    @property
    def root(self) -> str:
        """The path or URI of the folder."""
        return self._store.place or self._store.root

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return self.run.names

    def _delta(self, name: str) -> Any:
        """Return a table at the version of the run."""
        known = self.run.table(name)
        if known is None:
            raise LocalError(f"{self._store.root}: no table {name!r}; the tables are {', '.join(self.names)}")
        table = open_delta(self._store, name, known.version)
        if table is None:
            raise LocalError(f"{self._store.path(name)}: the table is missing")
        return table

    def files(self, name: str) -> list[str]:
        """Return the files of a table, as paths or URIs; raise LocalError if there is no such table.

        A file contains all columns of the table, so it can be read with any reader of Parquet.
        """
        return [self._store.place_of(path) for path in file_paths(self._store, name, self._delta(name))]

    def dataset(self, name: str) -> Any:
        """Return a table as a pyarrow dataset for queries. It skips files by their statistics."""
        table = self._delta(name)
        file_paths(self._store, name, table)  # raises LocalError for a path that is not below the folder
        folder = fs.SubTreeFileSystem(self._store.path(name), self._store.files)
        with delta_errors(self._store, name):
            return table.to_pyarrow_dataset(filesystem=folder, schema=TABLES[name].schema)

    def read(self, name: str, columns: Sequence[str] | None = None, where: Any = None) -> pa.Table:
        """Return a table, or only these columns of the table; ``where`` is a pyarrow filter expression.

        Raise LocalError if a file is missing, for example because `pcli tables vacuum` has removed it.
        """
        wanted = list(columns) if columns is not None else TABLES[name].schema.names if name in TABLES else None
        with self._reading(name) as dataset:
            return dataset.to_table(columns=wanted, filter=where)

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns of a table in batches, for tables of any size."""
        with self._reading(name) as dataset:
            yield from dataset.to_batches(columns=list(columns))

    @contextmanager
    def _reading(self, name: str) -> Iterator[Any]:
        path = self._store.path(name)
        with refused(path):
            try:
                yield self.dataset(name)
            except FileNotFoundError:
                text = f"a file of run {self.run.run} is missing; another program has removed it"
                raise LocalError(f"{path}: {text}") from None
            except pa.ArrowInvalid as error:  # a damaged file, or a column whose type has changed between versions
                text = f"run {self.run.run} of pcli {self.run.pcli} cannot be read: {str(error).splitlines()[0]}"
                raise LocalError(f"{path}: {text}") from None
