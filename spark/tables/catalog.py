"""The catalog of tables: the name, meaning of a row, schema and row order of each table.

Rules of this file
1. Each schema is defined next to the code that computes its rows, except `captures` and `gaps`, whose rows the
   driver computes. This module lists the tables in the order of docs/tables.md.
2. The rows of a file are sorted by ``order``, so that repeated runs write the same bytes.
3. Tables that can become large are partitioned by the cluster and the UTC day of their column ``time``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pcli.codec.errors import LocalError
from pcli.codec.observe.fields.field_table import nearest
from pcli.spark.columnar.fields.frame_table import FRAMES
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EXCHANGES, MESSAGES
from pcli.spark.columnar.observation.observation_schemas import TABLES as OBSERVED
from pcli.spark.columnar.permits.permit_buckets import PERMITS, PERMITS_ORDER
from pcli.spark.columnar.table_schema import INT, LONG, TEXT, column, many
from pcli.spark.tables.segment_columns import with_segment_columns

DAY: Final = "day"
"""The column of a partitioned table that `pcli.spark.tables.data_files` computes."""

PARTITION: Final = ("cluster", DAY)
"""The columns by which large tables are partitioned."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table."""

    name: str
    """The name of the table and of its folder in OUT."""
    row: str
    """The meaning of a row, as a noun phrase."""
    schema: pa.Schema
    order: tuple[str, ...]
    """Columns by which the rows of a file are sorted."""
    time: str = ""
    """The column whose UTC day is the column `day` of a row; empty if the table is not partitioned."""

    @property
    def partition(self) -> tuple[str, ...]:
        """The columns by which the table is partitioned."""
        return PARTITION if self.time else ()


def _partitioned(name: str, row: str, schema: pa.Schema, order: tuple[str, ...], time: str) -> Table:
    """Return a table that is partitioned by cluster and by the day of its column ``time``."""
    day = column(DAY, pa.date32(), f"UTC day of `{time}`; the table is partitioned by `cluster` and `day`")
    return Table(name, row, schema.append(day), order, time)


STATUSES: Final = {
    "read": "read to its end",
    "partly": "damaged or truncated (everything before the damage was read)",
    "unreadable": "not opened or not read because of an error",
    "late": "not read, because an incremental run has final rows of later files (`--horizon`)",
    "not a capture": "neither pcap nor pcapng, compressed or not",
}
"""File statuses and their meanings."""

CAPTURES: Final = pa.schema(
    [
        column("cluster", TEXT, "label of the cluster in which the file was recorded"),
        column("path", TEXT, "path as specified on the command line or found in a folder"),
        column("part", INT, "position among the parts of its recording, from 0; null if the file was not read"),
        column("status", TEXT, f"{'; '.join(f'`{word}`: {text}' for word, text in STATUSES.items())}"),
        column(
            "error",
            TEXT,
            "reason why the file was not read to its end, or cannot be read now if an earlier run read it",
        ),
        column("format", TEXT, "`pcap` or `pcapng`"),
        column("packing", TEXT, "`gzip`, `zstd`, `xz`, `bzip2` or `lz4`; null if the file is not compressed"),
        column("link_types", many(INT), "LINKTYPE numbers of the interfaces in the file"),
        column("file_bytes", LONG, "size of the file"),
        column("read_bytes", LONG, "bytes read, after decompression"),
        column(
            "not_read_bytes",
            LONG,
            "bytes after the position where reading ended; for a compressed file, counted before decompression",
        ),
        column("packets", LONG, "number of packets"),
        column("frames", LONG, "number of Pulsar frames completed by its packets"),
        column("first_ns", LONG, "time of its first packet"),
        column("last_ns", LONG, "time of its last packet"),
    ]
)

GAPS: Final = pa.schema(
    [
        column("cluster", TEXT, "label of the cluster"),
        column("capture", TEXT, "the file in which the range or position was detected"),
        column("connection", LONG, "`tcp.stream` of the connection; null if the row concerns the whole file"),
        column(
            "direction",
            TEXT,
            "`client` or `broker`, the sender of the bytes; null for both directions or the whole file",
        ),
        column(
            "kind", TEXT, "kind of the note that `dissect` reports: `gap`, `leftover`, `resync`, `file`, `snaplen`, …"
        ),
        column("offset", LONG, "offset of the range or position, in the direction of the connection or in the file"),
        column("bytes", LONG, "number of bytes"),
        column(
            "packet",
            LONG,
            "packet at which the row was detected, counted across the recording; 0 if this was before the first packet",
        ),
        column("time_ns", LONG, "time of that packet"),
        column("text", TEXT, "description"),
    ]
)


_ALL: Final = (
    Table("captures", "a file that was found, whether or not it was read", CAPTURES, ("cluster", "part", "path")),
    Table("gaps", "a range of bytes that the captures lack, or an uncertain position", GAPS,
          ("cluster", "packet", "connection", "direction", "kind", "offset")),
    _partitioned("messages",
                 "an entry as brokers store it (a message or a batch), with its publication, deliveries and final "
                 "state. A message that was sent again because its segment was sealed has a row for each entry",
                 with_segment_columns(MESSAGES), ("cluster", "topic", "first_ns", "ledger", "entry"), "first_ns"),
    _partitioned("exchanges", "a request with its response, if there is one", EXCHANGES,
                 ("cluster", "asked_ns", "asked_frame"), "asked_ns"),
    Table("findings", "a problem that `pcli diagnose` reports", OBSERVED["findings"],
          ("cluster", "rule", "variant", "topic", "subscription", "consumer", "producer", "connection", "what")),
    Table("topics", "a topic", with_segment_columns(OBSERVED["topics"]), ("cluster", "topic")),
    Table("subscriptions", "a subscription", with_segment_columns(OBSERVED["subscriptions"]),
          ("cluster", "topic", "subscription")),
    Table("balances", "a topic or a subscription, with its message balance", with_segment_columns(OBSERVED["balances"]),
          ("cluster", "topic", "subscription")),
    Table("consumers", "a consumer, with all its sessions", with_segment_columns(OBSERVED["consumers"]),
          ("cluster", "topic", "subscription", "consumer", "connection", "consumer_id", "session")),
    Table("producers", "a producer, with all its sessions", with_segment_columns(OBSERVED["producers"]),
          ("cluster", "topic", "producer", "connection", "producer_id", "session")),
    Table("segments", "a segment of a scalable topic", OBSERVED["segments"], ("cluster", "scalable_topic", "segment")),
    Table("layouts", "a change of the layout of a scalable topic", OBSERVED["layouts"],
          ("cluster", "scalable_topic", "frame", "epoch")),
    Table("assignments", "a period in which the controller of a scalable topic assigns a segment to a registered "
          "consumer, or a registration without a segment", OBSERVED["assignments"],
          ("cluster", "scalable_topic", "subscription", "since_frame", "segment", "consumer")),
    Table("connections", "a TCP connection", OBSERVED["connections"], ("cluster", "connection")),
    _partitioned("permits", "a second of a consumer's session in which permits changed", PERMITS, PERMITS_ORDER,
                 "bucket_ns"),
    Table("keys", "a key whose order was broken or whose owner changed", OBSERVED["keys"],
          ("cluster", "topic", "subscription", "slot", "key")),
    _partitioned("frames", "a frame, without its payload", FRAMES, ("cluster", "number", "time_ns"), "time_ns"),
)  # fmt: skip

TABLES: Final[dict[str, Table]] = {table.name: table for table in _ALL}
"""Every table by name."""

ON_REQUEST: Final = frozenset({"frames"})
"""Names of the tables that are written only on request."""


def chosen_tables(only: Iterable[str], *, frames: bool = False) -> list[Table]:
    """Return the tables of a run: the named tables, or all tables except those that are written only on request.

    ``captures`` and ``gaps`` are always included, because they show how reliable the other tables are. Raise LocalError
    for an unknown name.
    """
    names = {name.strip() for word in only for name in word.split(",") if name.strip()}
    for name in sorted(names - TABLES.keys()):
        near = nearest(name, list(TABLES)) or f"; there are {', '.join(TABLES)}"
        raise LocalError(f"--only {name}: unknown table{near}")
    wanted = names | {"captures", "gaps"} if names else TABLES.keys() - ON_REQUEST
    return [table for table in TABLES.values() if table.name in wanted or (frames and table.name in ON_REQUEST)]
