"""The format of tables before Delta Lake: Parquet files that a manifest lists. They can only be converted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from pcli.codec.errors import LocalError
from pcli.spark.tables.catalog import DAY, TABLES
from pcli.spark.tables.table_store import Store, refused

__all__ = ["MANIFEST", "OldTables"]

MANIFEST: Final = "_manifest.json"
"""The name of the manifest in OUT."""

_FORMAT: Final = "pcli tables"
_VERSION: Final = 3
_PARTITION: Final = ds.partitioning(pa.schema([("cluster", pa.string()), ("hour", pa.string())]), flavor="hive")


class OldTables:
    """The tables of a manifest."""

    def __init__(self, store: Store) -> None:
        """Read the manifest. Raise LocalError if there is none, or if its version is unknown."""
        self._store = store
        self._content = self._decoded()

    def _decoded(self) -> dict[str, Any]:
        where = self._store.path(MANIFEST)
        data = self._store.read(MANIFEST)
        if data is None:
            raise LocalError(f"{where}: no such file: the folder contains no tables in the old format")
        try:
            content = json.loads(data)
            if content["format"] != _FORMAT or not {"files", "tables", "partitioned", "run"} <= content.keys():
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise LocalError(f"{where}: not a manifest of pcli, or damaged") from None
        if content["version"] != _VERSION:
            raise LocalError(
                f"{where}: version {content['version']} of the tables cannot be converted, only version {_VERSION}: "
                "analyze the captures again"
            )
        return dict(content)

    @property
    def names(self) -> list[str]:
        """The names of the tables."""
        return [name for name in TABLES if name in self._content["tables"]]

    @property
    def request(self) -> dict[str, Any]:
        """The request of the run that wrote the tables."""
        return dict(self._content["run"].get("request", {}))

    def parts(self, name: str) -> Iterator[pa.Table]:
        """Yield the rows of each file of a table, without the column `day`."""
        schema = pa.schema([field for field in TABLES[name].schema if field.name != DAY])
        for file in self._content["files"]:
            if file["table"] != name:
                continue
            path = "/".join(word for word in (name, file["folder"], file["name"]) if word)
            more: dict[str, Any] = {}
            if name in self._content["partitioned"]:
                more = {"partitioning": _PARTITION, "partition_base_dir": self._store.path(name)}
            with refused(self._store.path(path)):
                found = ds.dataset(
                    [self._store.path(path)], schema, format="parquet", filesystem=self._store.files, **more
                )
                yield found.to_table()
