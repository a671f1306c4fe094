"""Delta tables in a folder of tables, read and written with delta-rs.

Rules of this file
1. The log of a table is read and written by delta-rs; data files are read and written with pyarrow.
2. delta-rs and pyarrow open the same place. The options of an S3 URI (credentials, region, endpoint) are converted;
   both also read the environment variables of AWS.
3. An error of delta-rs is reported in one line with the path of the table.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from pcli.codec.errors import LocalError
from pcli.spark.tables.catalog import Table
from pcli.spark.tables.data_files import DataFile, Staging
from pcli.spark.tables.table_store import Store, reason_of
from pcli.spark.tables.uri_redaction import hidden

RUN_METADATA: Final = "pcli.run"
"""The key of the name of the run's folders in the metadata of a commit."""

_APPLICATION: Final = "pcli"
"""The application id of the transaction in each commit. Its version is the number of the run."""

CONFLICT: Final = "a different run or program has committed in the meantime; nothing was changed: run again"

_CHECKPOINT_INTERVAL: Final = "20"
"""Number of commits between two checkpoints of a log. Expired entries are removed with a checkpoint."""


def open_delta(store: Store, name: str, version: int | None = None) -> DeltaTable | None:
    """Return a table, or None if it does not exist. Raise LocalError if it or the version cannot be read."""
    uri, options = _location(store, name)
    if store.local and not store.has(f"{name}/_delta_log"):
        return None
    with delta_errors(store, name):
        try:
            return DeltaTable(uri, version=version, storage_options=options)
        except TableNotFoundError:
            return None


def commit_files(
    staging: Staging,
    table: Table,
    current: DeltaTable | None,
    files: Sequence[DataFile],
    number: int,
    *,
    log_days: int,
    replaced: Collection[str] | None = None,
) -> int:
    """Replace files of a table by these files. Return the new version of the table.

    ``current`` is the table that the run has seen at its start, or None if there was none; ``number`` is the number of
    the run. The log of a new table keeps its entries for ``log_days``. ``replaced`` contains the paths of the replaced
    files in the folder of the table; None for all files. Raise LocalError if another writer has committed since then,
    or if the log cannot be written.
    """
    uri, options = _location(staging.store, table.name)
    actions: list[Any] = [_action(file) for file in files]
    actions += [_removal(path) for path in replaced or ()]
    properties = CommitProperties(
        custom_metadata={RUN_METADATA: staging.run}, app_transactions=[Transaction(_APPLICATION, number)]
    )
    schema = Schema.from_arrow(_logged(table.schema))
    with delta_errors(staging.store, table.name):
        if current is None:
            create_table_with_add_actions(
                uri,
                schema,
                actions,
                partition_by=list(table.partition),
                name=table.name,
                description=f"Each row is {table.row}.",
                configuration={
                    "delta.checkpointInterval": _CHECKPOINT_INTERVAL,
                    "delta.logRetentionDuration": f"interval {log_days} days",
                },
                storage_options=options,
                commit_properties=properties,
            )
            return 0
        mode = "overwrite" if replaced is None else "append"
        partition_by = list(table.partition)
        current.create_write_transaction(actions, mode, schema, partition_by, commit_properties=properties)
        current.update_incremental()
        return int(current.version())


def versions_since(current: DeltaTable, version: int) -> list[dict[str, Any]]:
    """Return the commits after a version, the newest first."""
    newer = current.version() - version
    return current.history(newer) if newer > 0 else []


def file_paths(store: Store, name: str, table: DeltaTable) -> list[str]:
    """Return the paths of a table's files in the store. Raise LocalError if a path is not below the table's folder."""
    # The log contains encoded paths, and tables may come from anyone.
    paths = [f"{name}/{unquote(path)}" for path in pa.table(table.get_add_actions())["path"].to_pylist()]
    for path in paths:
        store.path(path)
    return paths


def _action(file: DataFile) -> AddAction:
    modified_ms = int(time.time() * 1000)
    return AddAction(file.path, file.bytes, dict(file.partition), modified_ms, data_change=True, stats=file.statistics)


def _removal(path: str) -> RemoveAction:
    return RemoveAction(path, data_change=True, deletion_timestamp=int(time.time() * 1000))


def _logged(schema: pa.Schema) -> pa.Schema:
    """Return a schema for the log, where the description of a column is its comment, as Spark expects."""
    return pa.schema([_commented(field) for field in schema])


def _commented(field: pa.Field) -> pa.Field:
    text = (field.metadata or {}).get(b"what")
    kind = field.type
    if pa.types.is_struct(kind):
        field = field.with_type(pa.struct([_commented(one) for one in kind]))
    elif pa.types.is_list(kind):
        field = field.with_type(pa.list_(_commented(kind.value_field)))
    return field if text is None else field.with_metadata({b"comment": text})


@contextmanager
def delta_errors(store: Store, name: str) -> Iterator[None]:
    """Convert the errors of delta-rs to LocalError with the path of a table."""
    place = hidden(store.path(name))
    try:
        yield
    except CommitFailedError:
        raise LocalError(f"{place}: {CONFLICT}") from None
    except DeltaError as error:
        if "already exists" in str(error):  # both runs have created the table
            raise LocalError(f"{place}: {CONFLICT}") from None
        raise LocalError(f"{place}: {_reason(error)}") from None
    except OSError as error:
        reason = reason_of(error) if error.errno is not None else _reason(error)
        raise LocalError(f"{place}: {reason}") from None


_FRAME: Final = re.compile(r"\x1b\[\d+m|↳")
"""The marks with which delta-rs shows the causes of an error, one on each line."""


def _reason(error: BaseException) -> str:
    """Return the message of delta-rs in one line: the error and its last cause."""
    lines = [line.strip() for line in _FRAME.sub("", str(error)).splitlines() if line.strip()]
    return hidden(": ".join(line.rstrip(":. ") for line in dict.fromkeys((*lines[:1], *lines[-1:]))))


_S3_OPTIONS: Final = {
    "region": "AWS_REGION",
    "session_token": "AWS_SESSION_TOKEN",
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
}
"""Parameters of pyarrow's S3 URIs, and their names in delta-rs."""


def _location(store: Store, name: str) -> tuple[str, dict[str, str]]:
    """Return the URI of a table for delta-rs, and its options."""
    if store.local:
        return store.path(name), {}
    parts = urlsplit(store.place)
    path = f"{parts.path.rstrip('/')}/{name}"
    if parts.scheme != "s3":
        return f"{parts.scheme}://{parts.netloc}{path}", {}
    _, _, bucket = parts.netloc.rpartition("@")
    return f"s3://{bucket}{path}", _s3_options(parts.username, parts.password, parse_qs(parts.query))


def _s3_options(user: str | None, password: str | None, query: Mapping[str, list[str]]) -> dict[str, str]:
    options = {known: query[name][-1] for name, known in _S3_OPTIONS.items() if name in query}
    if user and password:
        options |= {"AWS_ACCESS_KEY_ID": unquote(user), "AWS_SECRET_ACCESS_KEY": unquote(password)}
    if "endpoint_override" in query:
        endpoint, scheme = query["endpoint_override"][-1], query.get("scheme", ["https"])[-1]
        options["AWS_ENDPOINT_URL"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        options["AWS_ALLOW_HTTP"] = json.dumps(options["AWS_ENDPOINT_URL"].startswith("http://"))
    # Of two simultaneous commits, the storage refuses the second one (If-None-Match).
    return options | {"conditional_put": "etag"}
