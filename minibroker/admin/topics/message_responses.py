"""The REST response for a stored message (generateResponseWithEntry), and message ids in JSON.

The body of the response is the uncompressed payload, and the headers contain the metadata. The payload of a batch or
an encrypted message is returned as it was sent. A payload that cannot be decompressed is returned unchanged.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import signed
from pcli.minibroker.admin.endpoint import Reply, RestError
from pcli.minibroker.storage.entry import metadata_bounds
from pcli.minibroker.timestamps import instant_text

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.versions import Version

_X: Final = "X-Pulsar-"

_PLAIN: Final = {
    "producer_name": "producer-name",
    "sequence_id": "sequence-id",
    "replicated_from": "replicated-from",
    "partition_key": "partition-key",
    "partition_key_b64_encoded": "partition-key-b64-encoded",
    "encryption_algo": "encryption-algo",
    "null_partition_key": "null-partition-key",
    "null_value": "null-value",
    "uuid": "uuid",
    "chunk_id": "chunk-id",
    "num_chunks_from_msg": "num-chunks-from-msg",
    "total_chunk_msg_size": "total-chunk-msg-size",
    "marker_type": "marker-type",
    "txnid_least_bits": "txnid-least-bits",
    "txnid_most_bits": "txnid-most-bits",
    "uncompressed_size": "uncompressed-size",
}
"""Metadata fields that are returned unchanged if present."""

_TIMES: Final = {"publish_time": "publish-time", "event_time": "event-time", "deliver_at_time": "deliver-at-time"}

_BASE64: Final = {
    "ordering_key": "Base64-ordering-key",
    "schema_version": "Base64-schema-version",
    "encryption_param": "Base64-encryption-param",
}


def message_id(version: Version, place: tuple[int, int], partition: int, batch_index: int = -1) -> dict[str, int]:
    """Return a message id in the format of the REST API. ``place`` is a ledger id and an entry id."""
    ids = {"ledgerId": place[0], "entryId": place[1], "partitionIndex": partition}
    batch = {"batchIndex": batch_index, "batchSize": 0}
    return ids | {name: batch[name] for name in version.message_id_fields}


def message_response(topic: Topic, entry: Entry) -> Reply:
    """Return the response for an entry of a topic. Raises RestError 500 if the metadata cannot be parsed."""
    if not entry.parsed:
        entry.parse()
    metadata = entry.metadata
    if metadata is None:
        raise RestError(500, "The metadata of the message cannot be read")
    start, end = metadata_bounds(entry.data, entry.block)
    headers = {
        f"{_X}Message-ID": f"{entry.ledger_id}:{entry.entry_id}",
        f"{_X}PROPERTY": json.dumps({pair.key: pair.value for pair in metadata.properties}, separators=(",", ":")),
        **_broker_entry(entry),
        **_fields(metadata),
        f"{_X}Is-Encrypted": str(bool(metadata.encryption_keys)).lower(),
        **_transaction(topic, entry),
    }
    if metadata.HasField("num_messages_in_batch"):
        headers[f"{_X}num-batch-message"] = str(metadata.num_messages_in_batch)
        headers[f"{_X}batch-size"] = str(len(entry.data) - entry.block - (end - start))
    return Reply(200, _opened(metadata, entry.data[end:]), headers)


def _transaction(topic: Topic, entry: Entry) -> dict[str, str]:
    buffer = topic.transaction_buffer
    hidden = buffer is not None and entry.offset >= buffer.read_end
    headers = {f"{_X}txn-uncommitted": _text(hidden)}
    if entry.metadata is not None and entry.metadata.HasField("txnid_most_bits"):
        headers[f"{_X}txn-aborted"] = _text(buffer is not None and buffer.is_aborted(entry))
    return headers


def _opened(metadata: pb.MessageMetadata, data: bytes) -> bytes:
    from pcli.codec.payload.compression import decompress  # late import: only this function needs the codecs

    opened = data if metadata.encryption_keys else decompress(metadata.compression, data, metadata.uncompressed_size)
    return opened if isinstance(opened, bytes) else data


def _fields(metadata: pb.MessageMetadata) -> dict[str, str]:
    there = {descriptor.name: value for descriptor, value in metadata.ListFields()}
    found = {f"{_X}{header}": _text(there[field]) for field, header in _PLAIN.items() if field in there}
    for field, header in _TIMES.items():
        if there.get(field):
            found[f"{_X}{header}"] = instant_text(there[field])
    for field, header in _BASE64.items():
        if field in there:
            found[f"{_X}{header}"] = base64.b64encode(there[field]).decode()
    if metadata.compression:
        found[f"{_X}compression"] = pb.CompressionType.Name(metadata.compression)
    return found


def _text(value: object) -> str:
    """Return a header value. Numbers are Java longs."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(signed(value) if isinstance(value, int) else value)


def _broker_entry(entry: Entry) -> dict[str, str]:
    if not entry.block:
        return {}
    stamp = pb.BrokerEntryMetadata()
    stamp.ParseFromString(entry.data[6 : entry.block])
    found = {}
    if stamp.HasField("broker_timestamp"):
        found[f"{_X}Broker-Entry-METADATA-timestamp"] = instant_text(stamp.broker_timestamp)
    if stamp.HasField("index"):
        found[f"{_X}Broker-Entry-METADATA-index"] = str(stamp.index)
    return found
