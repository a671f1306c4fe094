"""The entries that producers send, and the schemas of producers and consumers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.compression import compress
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry


def _record(*fields: dict[str, Any]) -> bytes:
    return json.dumps({"type": "record", "name": "R", "fields": fields}).encode()


_A = {"name": "a", "type": "int"}
_B = {"name": "b", "type": ["null", "string"], "default": None}
_C = {"name": "c", "type": "string"}

SCHEMAS = {
    "avro": pb.Schema(name="R", type=pb.Schema.Avro, schema_data=_record(_A)),
    "avro with default": pb.Schema(name="R", type=pb.Schema.Avro, schema_data=_record(_A, _B)),
    "avro without default": pb.Schema(name="R", type=pb.Schema.Avro, schema_data=_record(_A, _C)),
    "avro of another type": pb.Schema(name="R", type=pb.Schema.Avro, schema_data=_record({**_A, "type": "string"})),
    "json": pb.Schema(name="R", type=pb.Schema.Json, schema_data=_record(_A)),
    "string": pb.Schema(name="String", type=pb.Schema.String, schema_data=b""),
    "int": pb.Schema(name="INT32", type=pb.Schema.Int32, schema_data=b""),
    "broken": pb.Schema(name="R", type=pb.Schema.Avro, schema_data=b"{"),
}
"""The schemas of plans by name."""


def entries_of(entry: dict[str, Any], step: dict[str, Any], start_ms: int, fields: dict[str, Any]) -> Iterator[bytes]:
    """Yield the entries of a message: one, or one for each chunk. ``fields`` are further fields of the metadata."""
    number, count = entry["number"], entry["chunks"]
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=entry["sequence"], publish_time=start_ms + number)
    metadata.MergeFrom(pb.MessageMetadata(**{name: value for name, value in fields.items() if value != b""}))
    if step["delay_ms"]:
        metadata.deliver_at_time = int(time.time() * 1000) + step["delay_ms"]
    if entry["key"] is not None:
        metadata.partition_key = entry["key"]
    payload = _batch(entry, metadata) if entry["batch"] else b"" if entry["empty"] else b"m%d" % number
    if step["compression"] != "NONE":
        metadata.compression = pb.CompressionType.Value(step["compression"])
        metadata.uncompressed_size = len(payload)
        payload = compress(metadata.compression, payload)
    if not count:
        yield push_entry(metadata, payload)
    for chunk in range(count):
        metadata.uuid, metadata.num_chunks_from_msg = f"p-{entry['sequence']}", count
        metadata.total_chunk_msg_size, metadata.chunk_id = len(payload) * count, chunk
        yield push_entry(metadata, payload)


def _batch(entry: dict[str, Any], metadata: pb.MessageMetadata) -> bytes:
    """Return the payload of a batch, and set its size in the metadata."""
    metadata.num_messages_in_batch = entry["batch"]
    singles = []
    for index in range(entry["batch"]):
        single = pb.SingleMessageMetadata(sequence_id=entry["sequence"] + index)
        if entry["key"] is not None:
            single.partition_key = entry["key"]
        singles.append((single, b"m%d.%d" % (entry["number"], index)))
    return join_batch(singles)
