"""The documents of the schemas: one document for each schema id, with all versions that are not deleted."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, unquote

from pcli.codec.proto import pb
from pcli.minibroker.errors import decoding
from pcli.minibroker.schema.registry import SchemaRegistry, StoredSchema, version_number

__all__ = ["SCHEMAS", "SchemaDocuments"]

SCHEMAS: Final = "/schemas/"
"""Start of the paths of these documents."""


class SchemaDocuments:
    """The documents of all schemas (class Documented)."""

    def __init__(self, schemas: SchemaRegistry, record: Callable[[], None]) -> None:
        """``record`` records that documents of this object have changed."""
        self._schemas = schemas
        self._record = record
        self._changed: set[str] = set()
        """Changed schema ids."""

    def restore(self, documents: Iterable[tuple[str, Any]]) -> None:
        """Add the stored schemas, and record changes from now on."""
        for path, value in documents:
            with decoding(path):
                versions = [_schema(*row) for row in value["versions"]]
                self._schemas.restore(unquote(path.removeprefix(SCHEMAS)), value["next"], versions)
        self._schemas.on_change = self._schema_changed

    def _schema_changed(self, schema_id: str) -> None:
        self._changed.add(schema_id)
        self._record()

    def changed_documents(self) -> Iterator[tuple[str, Any]]:
        """Return the documents that have changed, as defined in Documented."""
        changed, self._changed = self._changed, set()
        for schema_id in sorted(changed):
            following = self._schemas.next_version(schema_id)
            versions = [
                [version_number(one.version), one.timestamp, b64encode(one.schema.SerializeToString()).decode()]
                for one in self._schemas.versions(schema_id)
            ]
            value = None if following is None else {"next": following, "versions": versions}
            yield SCHEMAS + quote(schema_id, safe=""), value


def _schema(version: int, timestamp: int, schema: str) -> StoredSchema:
    return StoredSchema(pb.Schema.FromString(b64decode(schema)), version.to_bytes(8, "big"), timestamp)
