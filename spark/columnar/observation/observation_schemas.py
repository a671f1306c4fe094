"""The tables that observation produces: schemas, sort orders, and a common format for the shuffle.

TABLES are written for users; INNER are passed from the groups to `observe_group.conclude`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from pcli.spark.columnar.observation.balance_table import BALANCE_CELLS
from pcli.spark.columnar.observation.connection_table import CONNECTION_CELLS
from pcli.spark.columnar.observation.consumer_table import CONSUMER_CELLS
from pcli.spark.columnar.observation.finding_table import FINDING_CELLS
from pcli.spark.columnar.observation.host_history import HOST_EVENTS
from pcli.spark.columnar.observation.producer_table import PRODUCER_CELLS
from pcli.spark.columnar.observation.record_columns import schema_of
from pcli.spark.columnar.observation.recording_context import CAPTURE_PARTS
from pcli.spark.columnar.observation.topic_tables import KEY_CELLS, SUBSCRIPTION_CELLS, TOPIC_CELLS
from pcli.spark.columnar.table_schema import BYTES, TEXT, column

__all__ = [
    "BALANCES",
    "BALANCES_ORDER",
    "CONNECTIONS",
    "CONNECTIONS_ORDER",
    "CONSUMERS",
    "CONSUMERS_ORDER",
    "FINDINGS",
    "FINDINGS_ORDER",
    "INNER",
    "KEYS",
    "KEYS_ORDER",
    "PACKED",
    "PRODUCERS",
    "PRODUCERS_ORDER",
    "SUBSCRIPTIONS",
    "SUBSCRIPTIONS_ORDER",
    "TABLES",
    "TOPICS",
    "TOPICS_ORDER",
    "pack",
    "unpack",
]

BALANCES: Final = schema_of(BALANCE_CELLS)
BALANCES_ORDER: Final = ("cluster", "topic", "subscription")
CONNECTIONS: Final = schema_of(CONNECTION_CELLS)
CONNECTIONS_ORDER: Final = ("cluster", "connection")
CONSUMERS: Final = schema_of(CONSUMER_CELLS)
CONSUMERS_ORDER: Final = ("cluster", "topic", "subscription", "consumer", "connection", "consumer_id", "session")
FINDINGS: Final = schema_of(FINDING_CELLS)
FINDINGS_ORDER: Final = (
    "cluster",
    "rule",
    "variant",
    "topic",
    "subscription",
    "consumer",
    "producer",
    "connection",
    "what",
)
KEYS: Final = schema_of(KEY_CELLS)
KEYS_ORDER: Final = ("cluster", "topic", "subscription", "slot", "key")
PRODUCERS: Final = schema_of(PRODUCER_CELLS)
PRODUCERS_ORDER: Final = ("cluster", "topic", "producer", "connection", "producer_id", "session")
SUBSCRIPTIONS: Final = schema_of(SUBSCRIPTION_CELLS)
SUBSCRIPTIONS_ORDER: Final = ("cluster", "topic", "subscription")
TOPICS: Final = schema_of(TOPIC_CELLS)
TOPICS_ORDER: Final = ("cluster", "topic")

TABLES: Final[dict[str, pa.Schema]] = {
    "findings": FINDINGS,
    "consumers": CONSUMERS,
    "producers": PRODUCERS,
    "connections": CONNECTIONS,
    "keys": KEYS,
    "subscriptions": SUBSCRIPTIONS,
    "topics": TOPICS,
    "balances": BALANCES,
}
"""Tables that `observe` returns for each group."""

INNER: Final[dict[str, pa.Schema]] = {"host_events": HOST_EVENTS, "capture_parts": CAPTURE_PARTS}
"""Additional tables that `observe` returns for `conclude`."""

PACKED: Final = pa.schema(
    [column("table", TEXT, "name of the table"), column("data", BYTES, "rows of the table, as an Arrow stream")]
)
"""Tables with different schemas as rows of one schema."""


def pack(tables: Mapping[str, pa.RecordBatch]) -> pa.RecordBatch:
    """Return tables as rows of PACKED; tables without rows are omitted."""
    return pa.RecordBatch.from_pylist(
        [{"table": name, "data": _bytes(batch)} for name, batch in tables.items() if batch.num_rows], PACKED
    )


def unpack(batches: Iterable[pa.RecordBatch]) -> dict[str, list[pa.RecordBatch]]:
    """Return the tables in rows of PACKED: for each name, a list of the tables of all groups, which may be empty."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in (*TABLES, *INNER)}
    for row in (row for batch in batches for row in batch.to_pylist()):
        with pa.ipc.open_stream(row["data"]) as stream:
            found[row["table"]] += stream
    return found


def _bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())
