"""The table `frames`: one row for every frame, with its contents and position.

Rules of this file
1. Columns have the names of pcli's fields (``pulsar.number``, ``pulsar.request_id``) and of the protocol's fields,
   without a prefix.
2. A field that the frame does not contain is null. An id of -1, which brokers send for an absent id, is also null.
3. The table contains the metadata fields that a lifecycle needs and the size of the payload, but no properties and no
   payload.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.wire.commands import BY_NAME, name_of
from pcli.spark.columnar.fields.column_coverage import OWNERS
from pcli.spark.columnar.fields.from_captured_frames import SYNC
from pcli.spark.columnar.frame_columns import CRC_BAD, CRC_NONE, Bools, Frames, Longs
from pcli.spark.columnar.string_arrays import keys_of, texts_of
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, column, many, nanoseconds, never_null, record

_MESSAGE_ID: Final = record(
    column("ledger", LONG, "ledger"),
    column("entry", LONG, "entry"),
    column("partition", INT, "partition, if present"),
    column("batch_index", INT, "index in the batch"),
    column(
        "ack_set",
        many(LONG),
        "64-bit words of a bit set, lowest first: a set bit marks a message that is not acknowledged",
    ),
)

FRAMES: Final = pa.schema([
    never_null("cluster", TEXT, "label of the cluster"),
    never_null("number", LONG, "pulsar.number: frame number from 1 in the order of the recording"),
    never_null("packet", LONG, "frame.number: the packet in which the frame ends"),
    never_null("first_packet", LONG, "the packet in which the frame begins"),
    never_null("time_ns", LONG, "time of the packet in which the frame ends"),
    never_null("connection", LONG, "tcp.stream of the TCP connection"),
    never_null("from_client", BOOL, "true if the client sent the frame"),
    never_null("offset", LONG, "offset of the frame in its direction of the connection, from 0"),
    never_null("type", TEXT, "name of the command, such as SEND_RECEIPT; NO_TYPE if the command could not be decoded"),
    never_null("size", LONG, "bytes of the whole frame according to its length"),
    never_null("captured_size", LONG, "captured bytes"),
    column(
        "sync",
        TEXT,
        "how the position of the frame was determined: start, anchored (across a gap), resync (by search)",
    ),
    column("problems", many(TEXT), "problems of the capture: gap, cut, overlap"),
    column("producer_id", LONG, "a producer's id on its connection"),
    column("consumer_id", LONG, "a consumer's id on its connection"),
    column("request_id", LONG, "id of the request, repeated in the response"),
    column("sequence_id", LONG, "value in SEND, SEND_RECEIPT, SEND_ERROR"),
    column("highest_sequence_id", LONG, "value in the SEND of a batch and in its receipt, if present"),
    column("num_messages", LONG, "num_messages of a SEND"),
    column("permits", LONG, "messagePermits of a FLOW"),
    column("ledger", LONG, "ledger of the message id in SEND_RECEIPT and MESSAGE, and of the first id in an ACK"),
    column("entry", LONG, "entry of that message id"),
    column("partition", LONG, "partition of that message id, if present"),
    column("redelivery_count", LONG, "value in MESSAGE"),
    column("consumer_epoch", LONG, "value in MESSAGE"),
    column("ack_set", many(LONG), "ack set in MESSAGE: a set bit marks a message of the batch that is to be delivered"),
    column("ack_type", TEXT, "individual or cumulative"),
    column("acked", many(_MESSAGE_ID), "every message id of an ACK"),
    column(
        "txn_most_bits",
        LONG,
        "most significant bits of the transaction in SEND, ACK or ACK_RESPONSE, or in the metadata",
    ),
    column("txn_least_bits", LONG, "least significant bits of that transaction"),
    column("producer_name", TEXT, "value in the metadata"),
    column("metadata_sequence_id", LONG, "sequence_id of the metadata"),
    column("publish_ns", LONG, "publish_time of the metadata (the producer's clock)"),
    column("deliver_at_ns", LONG, "deliver_at_time of the metadata (the earliest delivery)"),
    column("key", TEXT, "ordering key of the entry, or else its partition key; base64 if it is binary"),
    column("batch", BOOL, "true if the entry is a batch"),
    column("messages", LONG, "messages in the entry"),
    column("uuid", TEXT, "uuid of the chunked message"),
    column("chunk_id", LONG, "the chunk's number, from 0"),
    column("num_chunks", LONG, "number of chunks"),
    column("marker_type", LONG, "type of the marker; null for a message"),
    column("payload_size", LONG, "bytes of the payload on the wire, including bytes that were not captured"),
    column("checksum", TEXT, "good or bad; null if the frame has no checksum or was not captured completely"),
])  # fmt: skip
"""One row for each frame."""


_SYNC: Final = [word for word, _ in sorted(SYNC.items(), key=lambda pair: pair[1])]


def frame_rows(frames: Frames, numbers: Longs, *, cluster: str = "") -> pa.RecordBatch:
    """Return rows of FRAMES in the order of ``frames``; ``numbers`` contains each frame's `CapturedFrame.number`."""
    columns = _places(frames, numbers, cluster) | _commands(frames) | _metadata(frames)
    return pa.record_batch([columns[name] for name in FRAMES.names], schema=FRAMES)


def _places(frames: Frames, numbers: Longs, cluster: str) -> dict[str, pa.Array]:
    places, size = frames.places, len(frames)
    types, which = np.unique(frames.type, return_inverse=True)
    return {
        "cluster": pa.repeat(pa.scalar(cluster, TEXT), size),
        "number": pa.array(numbers),
        "packet": pa.array(places.packet),
        "first_packet": pa.array(places.first_packet),
        "time_ns": pa.array(places.time_ns),
        "connection": pa.array(places.stream),
        "from_client": pa.array(places.from_client),
        "offset": pa.array(places.offset),
        "type": pa.array([name_of(one) for one in types.tolist()], TEXT).take(pa.array(which)),
        "size": pa.array(frames.size),
        "captured_size": pa.array(places.kept),
        "sync": pa.array(_SYNC, TEXT).take(pa.array(places.sync)),
        "problems": _problems(frames),
        "payload_size": _known(frames.payload_size),
        "checksum": _words(["good", "bad"], np.where(frames.crc == CRC_BAD, 1, 0), frames.crc != CRC_NONE),
    }


def _commands(frames: Frames) -> dict[str, pa.Array]:
    producers, consumers = (np.isin(frames.type, OWNERS[name]) for name in ("producer_id", "consumer_id"))
    own = frames.txn_most != -1
    return {
        "producer_id": _known(frames.owner, producers),
        "consumer_id": _known(frames.owner, consumers),
        "request_id": _known(frames.request),
        "sequence_id": _known(frames.sequence),
        "highest_sequence_id": _known(frames.highest),
        "num_messages": _known(frames.messages, frames.type == BY_NAME["SEND"].number),
        "permits": _known(frames.messages, frames.type == BY_NAME["FLOW"].number),
        "ledger": _known(frames.ledger),
        "entry": _known(frames.entry),
        "partition": _known(frames.partition),
        "redelivery_count": _known(frames.redelivery),
        "consumer_epoch": _known(frames.epoch),
        "ack_set": _sets(frames.words, frames.set_start, frames.set_end),
        "ack_type": _words(["individual", "cumulative"], frames.ack_type, frames.ack_type >= 0),
        "acked": _acked(frames),
        "txn_most_bits": _known(np.where(own, frames.txn_most, frames.metadata_most)),
        "txn_least_bits": _known(np.where(own, frames.txn_least, frames.metadata_least)),
    }


def _metadata(frames: Frames) -> dict[str, pa.Array]:
    there = frames.metadata_start >= 0
    return {
        "producer_name": texts_of(frames.places.data, frames.name_start, frames.name_end),
        "metadata_sequence_id": _known(frames.metadata_sequence),
        "publish_ns": nanoseconds(frames.publish_ms),
        "deliver_at_ns": nanoseconds(frames.deliver_at_ms),
        "key": keys_of(frames),
        "batch": pa.array(frames.batch != -1, BOOL, mask=~there),
        "messages": _known(np.where(there, np.maximum(frames.batch, 1), -1)),
        "uuid": texts_of(frames.places.data, frames.uuid_start, frames.uuid_end),
        "chunk_id": _known(frames.chunk),
        "num_chunks": _known(frames.chunks),
        "marker_type": _known(frames.marker),
    }


def _known(values: Longs, which: Bools | None = None) -> pa.Array:
    """Return numbers, with null for -1 and where ``which`` is false."""
    unknown = values == -1
    return pa.array(values, mask=unknown if which is None else unknown | ~which)


def _words(words: list[str], which: Longs, there: Bools) -> pa.Array:
    return pa.array(words, TEXT).take(pa.array(which, mask=~there))


def _lists(counts: Longs, values: pa.Array, kind: pa.DataType, there: Bools) -> pa.Array:
    """Split the values into consecutive lists of the given lengths; null where ``there`` is false."""
    edges = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=edges[1:])
    return pa.ListArray.from_arrays(pa.array(edges), values, mask=pa.array(~there)).cast(kind)


def _sets(words: Longs, start: Longs, end: Longs) -> pa.Array:
    """Return the ack sets words[start:end]."""
    counts = end - start
    begin = np.cumsum(counts) - counts
    places = np.repeat(start - begin, counts) + np.arange(int(counts.sum()))
    return _lists(counts, pa.array(words[places]), many(LONG), counts > 0)


def _acked(frames: Frames) -> pa.Array:
    ids = frames.acks
    fields: list[Any] = [
        _known(ids.ledger),
        _known(ids.entry),
        _known(ids.partition).cast(INT),
        _known(ids.batch_index).cast(INT),
        _sets(ids.words, ids.set_start, ids.set_end),
    ]
    counts = np.bincount(ids.row, minlength=len(frames))
    values = pa.StructArray.from_arrays(fields, fields=list(_MESSAGE_ID))
    return _lists(counts, values, many(_MESSAGE_ID), counts > 0)


def _problems(frames: Frames) -> pa.Array:
    """Return the capture problems of the few frames that have any."""
    counts = np.zeros(len(frames), np.int64)
    kinds: list[str] = []
    for row, problems in sorted(frames.places.trouble.items()):
        counts[row] = len(problems)
        kinds += [one.kind for one in problems]
    return _lists(counts, pa.array(kinds, TEXT), many(TEXT), counts > 0)
