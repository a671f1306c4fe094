"""The tables about the input: the extent to which each file was read, and the bytes that the captures lack."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pcli.spark.columnar.table_schema import INT, LONG, TEXT, column, many

__all__ = ["CAPTURES", "GAPS", "STATUSES"]

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
