"""The tables that say what the others are worth: which files were read how far, and what the captures do not have."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pcli.spark.columnar.table_schema import INT, LONG, TEXT, column, many

__all__ = ["CAPTURES", "CAPTURES_ORDER", "GAPS", "GAPS_ORDER", "STATUSES"]

STATUSES: Final = {
    "read": "read to its end",
    "partly": "damaged or cut: what came before the damage was read",
    "unreadable": "it could not be opened or read",
    "not a capture": "it is neither pcap nor pcapng, packed or not",
}
"""What became of a file."""

CAPTURES: Final = pa.schema(
    [
        column("cluster", TEXT, "the label of the cluster that it was recorded of"),
        column("path", TEXT, "the file, as it was given or found"),
        column("part", INT, "its place among the parts of its recording, from 0; null: it was not read"),
        column("status", TEXT, f"{'; '.join(f'`{word}`: {text}' for word, text in STATUSES.items())}"),
        column(
            "error",
            TEXT,
            "why it was not read, or not to its end; of one that was read before: why it cannot be read now",
        ),
        column("format", TEXT, "`pcap` or `pcapng`"),
        column("packing", TEXT, "`gzip` or `zstd`; null: it is not packed"),
        column("link_types", many(INT), "LINKTYPE numbers of its interfaces"),
        column("file_bytes", LONG, "bytes of the file as it lies there"),
        column("read_bytes", LONG, "bytes that were read, unpacked"),
        column("not_read_bytes", LONG, "bytes behind the place where reading ended; of a packed file: packed ones"),
        column("packets", LONG, "packets in it"),
        column("frames", LONG, "Pulsar frames that became known by its packets"),
        column("first_ns", LONG, "time of its first packet"),
        column("last_ns", LONG, "time of its last packet"),
    ]
)
CAPTURES_ORDER: Final = ("cluster", "part", "path")

GAPS: Final = pa.schema(
    [
        column("cluster", TEXT, "the label of the cluster"),
        column("capture", TEXT, "the file in which it was noticed"),
        column("connection", LONG, "`tcp.stream` of the connection; null: it is about the file"),
        column("direction", TEXT, "`client` or `broker`, who sent the bytes; null: both, or it is about the file"),
        column("kind", TEXT, "as the notes of `dissect` are called: `gap`, `leftover`, `resync`, `file`, `snaplen`, …"),
        column("offset", LONG, "where it begins: in the direction of the connection, or in the file"),
        column("bytes", LONG, "how many bytes it is about"),
        column("packet", LONG, "the packet at which it was noticed, counted over the recording; 0: before the first"),
        column("time_ns", LONG, "time of that packet"),
        column("text", TEXT, "a line for a person"),
    ]
)
GAPS_ORDER: Final = ("cluster", "packet", "connection", "direction", "kind", "offset")
