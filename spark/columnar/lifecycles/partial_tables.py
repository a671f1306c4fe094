"""Partial aggregates of splits: tables of plain columns, suitable for Parquet and for a shuffle.

Rules of this file
1. -1 in numbers and null in bytes and text mean that there is no value.
2. In the tables of `SplitAggregator`, ``stream`` and ``number`` (of frames) are numbers of the split. `renumber_table`
   converts them to numbers of the recording and leaves the other columns unchanged.
3. A row of ``consumed`` is a delivery with the first ACK and the first redelivery request after it in the same split.
   An ACK or request without a preceding delivery in the split has a separate row. No event is lost, and a usual message
   has one row for each consumer.
4. ``place`` is the shuffle key, which is equal in all rows of one message: ``published``, ``resolved`` and ``consumed``
   are shuffled by ``place`` modulo the number of buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pcli.spark.columnar.observation.frame_header_rows import HEADS
from pcli.spark.columnar.table_schema import BYTES, LONG, TEXT, column

_STREAM: Final = column("stream", LONG, "the connection")

PUBLISHED: Final = pa.schema([
    _STREAM,
    column("producer_id", LONG, "producer_id"),
    column("ledger", LONG, "ledger of the receipt"),
    column("entry", LONG, "entry of the receipt"),
    column("place", LONG, "shuffle key, equal in all rows of one message"),
    column("sequence", LONG, "sequence_id, 64 bits"),
    column("highest", LONG, "highest_sequence_id of the SEND"),
    column("sent_number", LONG, "frame of the SEND"),
    column("sent_ns", LONG, "time of that frame"),
    column("receipt_number", LONG, "frame of the SEND_RECEIPT"),
    column("receipt_ns", LONG, "time of that frame"),
    column("messages", LONG, "num_messages"),
    column("batch", LONG, "num_messages_in_batch of the metadata"),
    column("size", LONG, "bytes of the payload"),
    column("publish_ms", LONG, "publish_time"),
    column("deliver_at_ms", LONG, "deliver_at_time"),
    column("marker", LONG, "marker_type"),
    column("key", BYTES, "the key, equal to Frames.key"),
    column("key_kind", LONG, "the value of Frames.key_kind"),
])  # fmt: skip
"""SENDs with their receipts, if the split contains exactly one of each with that sequence id, in this order. ``halves``
contains the other SENDs and receipts whose columns are complete; the columns of the missing frame are -1."""

CONSUMED: Final = pa.schema([
    _STREAM,
    column("consumer_id", LONG, "consumer_id"),
    column("ledger", LONG, "ledger"),
    column("entry", LONG, "entry"),
    column("place", LONG, "shuffle key, equal in all rows of one message"),
    column("delivered_number", LONG, "frame of the MESSAGE"),
    column("delivered_ns", LONG, "time of that frame"),
    column("redelivery", LONG, "redelivery_count"),
    column("acked_number", LONG, "frame of the first individual ACK after the MESSAGE"),
    column("acked_ns", LONG, "time of that frame"),
    column("ack", BYTES, "transaction (two numbers, -1 if none) and ack set of that ACK "
           "(split_deliveries.pack_ack); null if the ACK has neither"),
    column("nacked_number", LONG, "frame of the first REDELIVER_UNACKNOWLEDGED_MESSAGES after the MESSAGE with its id"),
    column("nacked_ns", LONG, "time of that frame"),
    column("partition", LONG, "partition of the message id"),
    column("batch", LONG, "num_messages_in_batch of the metadata"),
    column("size", LONG, "bytes of the payload"),
    column("publish_ms", LONG, "publish_time"),
    column("deliver_at_ms", LONG, "deliver_at_time"),
    column("sequence", LONG, "sequence_id of the metadata"),
    column("highest", LONG, "highest_sequence_id of the metadata"),
    column("name", LONG, "producer_name of the metadata: an id of LABELS; 0 if none"),
    column("key", BYTES, "the key, equal to Frames.key"),
    column("key_kind", LONG, "the value of Frames.key_kind"),
    column("head", BYTES, "the MESSAGE up to its payload if the columns lack some of its data"),
])  # fmt: skip
"""Deliveries, with their first acknowledgement and redelivery request."""

CUMULATIVE: Final = pa.schema([
    _STREAM,
    column("consumer_id", LONG, "consumer_id"),
    column("ledger", LONG, "ledger"),
    column("entry", LONG, "entry; negative for all entries before the ledger"),
    column("number", LONG, "frame of the ACK"),
    column("time_ns", LONG, "time of that frame"),
    column("ack", BYTES, "transaction and ack set, in the format of CONSUMED"),
])  # fmt: skip
"""Cumulative ACKs; each has one id."""

ROLES: Final = {"control": 0, "opener": 1, "unusual": 2, "acks": 3}
"""Reasons why a frame is in FORWARDED: a command that is not frequent; the first frequent frame with an id since the
last command about that id; a SEND, SEND_RECEIPT or SEND_ERROR, or an ACK or ACK_RESPONSE with a request id, that the
columns do not contain completely."""

FORWARDED: Final = pa.schema([
    column("role", LONG, "bits: 1 shifted by the numbers of ROLES"),
    *HEADS,
])  # fmt: skip
"""The few forwarded frames as rows of frame_header_rows.HEADS. All names and unusual values come from these frames."""

ANSWERED: Final = pa.schema([
    _STREAM,
    column("consumer_id", LONG, "consumer_id of the ACK"),
    column("request_id", LONG, "request_id"),
    column("asked_number", LONG, "frame of the ACK"),
    column("asked_ns", LONG, "time of that frame"),
    column("answered_number", LONG, "frame of the ACK_RESPONSE"),
    column("answered_ns", LONG, "time of that frame"),
])  # fmt: skip
"""ACKs with a request id whose response has no error, each with that response. ``ack_halves`` contains the ACKs and
responses without a counterpart in the split; the columns of the missing frame are -1."""

SESSIONS: Final = pa.schema([
    _STREAM,
    column("producer_id", LONG, "producer_id"),
    column("first_number", LONG, "frame of the producer's first SEND in the window"),
    column("least_sequence", LONG, "lowest sequence id of its SENDs in the window"),
    column("most_sequence", LONG, "highest sequence id"),
    column("least_publish_ms", LONG, "lowest publish_time"),
    column("most_publish_ms", LONG, "highest publish_time"),
])  # fmt: skip
"""A summary of the SENDs of each producer in each window, used to find resends in other sessions and splits."""

UNPAIRED_KINDS: Final = {"SEND": 0, "SEND_RECEIPT": 1, "ACK": 2, "ACK_RESPONSE": 3}
"""Values of UNPAIRED.kind."""

UNPAIRED: Final = pa.schema([
    _STREAM,
    column("owner_id", LONG, "producer_id; -1 for ACKs and their responses"),
    column("kind", LONG, "a value of UNPAIRED_KINDS"),
    column("least_id", LONG, "lowest sequence id or request id"),
    column("most_id", LONG, "highest id; for SENDs, including highest_sequence_id"),
])  # fmt: skip
"""A summary of ``halves`` and ``ack_halves`` by connection and producer."""

LEDGERS: Final = pa.schema([
    _STREAM,
    column("owner_id", LONG, "producer_id or consumer_id"),
    column("produces", LONG, "1 for a producer, 0 for a consumer"),
    column("ledger", LONG, "ledger"),
    column("number", LONG, "first frame that contains the ledger"),
])  # fmt: skip
"""The producers and consumers of each ledger. A ledger belongs to one topic."""

EVENTS: Final = pa.schema([
    _STREAM,
    column("number", LONG, "last frame before the event, in the split or recording; 0 if none"),
    column("since", LONG, "for a gap, the last frame before the gap in its direction; -1 if the split has none"),
    column("packet", LONG, "packet at which the event was reported"),
    column("kind", TEXT, "end; a kind of note; frame: and a kind of problem; last, weak (split_aggregation.py)"),
    column("time_ns", LONG, "time of the end or frame; for a note, of the last frame before it"),
    column("from_client", LONG, "1 if the client is the sender, 0 if the broker is, -1 for both"),
    column("offset", LONG, "offset of the note or frame"),
    column("length", LONG, "length of the note or frame"),
    column("flags", LONG, "flags of an end: 1 reset, 2 refused, 4 silent; flags of a mark (split_aggregation.py)"),
    column("text", TEXT, "text of the note"),
])  # fmt: skip
"""Ends of connections, and gaps in the capture."""

LABELS: Final = pa.schema([
    column("id", LONG, "id in CONSUMED.name"),
    column("text", TEXT, "the producer's name"),
])  # fmt: skip
"""Names of producers in metadata."""

PARTIALS: Final[dict[str, pa.Schema]] = {
    "published": PUBLISHED,
    "halves": PUBLISHED,
    "consumed": CONSUMED,
    "cumulative": CUMULATIVE,
    "forwarded": FORWARDED,
    "answered": ANSWERED,
    "ack_halves": ANSWERED,
    "sessions": SESSIONS,
    "unpaired": UNPAIRED,
    "ledgers": LEDGERS,
    "events": EVENTS,
    "labels": LABELS,
}
"""The schema of each table of `Partials`. ``published``, ``halves``, ``consumed``, ``cumulative``, ``answered`` and
``ack_halves`` grow with the traffic; the other tables are small and can be collected in one process."""


@dataclass(slots=True)
class Partials:
    """The tables of PARTIALS, of one split or of several."""

    published: pa.Table
    halves: pa.Table
    consumed: pa.Table
    cumulative: pa.Table
    forwarded: pa.Table
    answered: pa.Table
    ack_halves: pa.Table
    sessions: pa.Table
    unpaired: pa.Table
    ledgers: pa.Table
    events: pa.Table
    labels: pa.Table
