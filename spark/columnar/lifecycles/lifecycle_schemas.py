"""The schemas of the tables `messages` and `exchanges`.

Rules of this file
1. A row of ``messages`` is an entry, as brokers store it; the messages of a batch share the row. The chunks of one
   message are one row with the id of the last chunk. Entries without an id (lost, refused, duplicates, in flight) also
   have rows.
2. An item of ``deliveries`` represents all deliveries of a row to one consumer on one connection.
3. Connections are identified by ``tcp.stream`` and frames are identified by ``pulsar.number``. pcli prints the same
   numbers for the same capture.
4. SEND and its receipt are in ``messages``; every other request is in ``exchanges``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, column, many, never_null, record

EVIDENCE: Final[dict[str, str]] = {
    "complete": "the captured data is complete for this row",
    "gap_affected": "packets are missing from the capture on a connection that may concern the message",
    "weak_sync": "a connection that concerns the message was decoded from the middle, after a search",
    "capture_start": "the lifecycle of the message, or a connection that concerns it, began before the capture",
    "capture_end": "the capture ended before the lifecycle of the message was complete",
    "late": "the frames were read when the message was older than `--horizon`; its earlier frames are in another row",
}
"""Reliability of the ``state`` of a row: the first reason in this order that applies; ``complete`` if none applies."""


_PRODUCER: Final = record(
    column("connection", LONG, "the connection of the last SEND"),
    column("producer_id", LONG, "producer_id on that connection"),
    column("name", TEXT, "the producer's name"),
    column("sequence_id", LONG, "sequence_id of the SEND, or of the metadata if the SEND was not captured"),
    column("highest_sequence_id", LONG, "highest_sequence_id of a batch; null if absent"),
    column("sent_ns", LONG, "time of the first SEND"),
    column("receipt_ns", LONG, "time of the SEND_RECEIPT or SEND_ERROR; may be before `sent_ns`"),
    column("messages", LONG, "messages in the entry"),
    column("batch", BOOL, "true if the entry is a batch"),
    column("size", LONG, "bytes of the payload on the wire; for a chunked message, of all chunks"),
    column("publish_ns", LONG, "publish_time of the metadata (the producer's clock)"),
    column("deliver_at_ns", LONG, "deliver_at_time of the metadata (the earliest delivery)"),
    column("key", TEXT, "ordering key of the entry, or else its partition key; base64 if it is binary"),
    column("resends", INT, "further SENDs of the same message"),
    column("other_ids", many(record(column("ledger", LONG, "ledger"), column("entry", LONG, "entry"))),
           "ids of resends that were stored again"),
    column("error", TEXT, "error of the SEND_ERROR"),
)  # fmt: skip

_DELIVERY: Final = record(
    column("connection", LONG, "the consumer's connection"),
    column("consumer_id", LONG, "consumer_id on that connection"),
    column("subscription", TEXT, "the subscription; null if the SUBSCRIBE was not captured"),
    column("consumer", TEXT, "the consumer's name"),
    column("subscription_type", TEXT, "Exclusive, Shared, Failover, Key_Shared"),
    column("delivered_ns", LONG, "time of the first MESSAGE to this consumer"),
    column("count", INT, "number of MESSAGE frames that delivered the entry to this consumer"),
    column("redelivery_count", INT, "highest redelivery_count of these frames"),
    column("messages", LONG, "messages in the first of these frames, without those that the frame's ack set excludes"),
    column("acked_ns", LONG, "time of the ACK that completed the acknowledgement by this consumer"),
    column("ack_type", TEXT, "type of that ACK: individual, cumulative, batch (its last part), transaction"),
    column("nacked_ns", LONG, "time of the consumer's first redelivery request that contains the entry's id"),
    column("unacked", LONG, "messages that the subscription has not acknowledged at the end of the capture"),
    column("again", TEXT, "cause of the last redelivery (see docs/tables.md); null if the frames show no cause"),
)

_CHUNK: Final = record(
    column("uuid", TEXT, "uuid of the chunked message"),
    column("count", INT, "number of chunks"),
    column("entries", many(record(
        column("id", INT, "the chunk's number, from 0"),
        column("ledger", LONG, "ledger; null if it is unknown"),
        column("entry", LONG, "entry; null if it is unknown"),
    )), "the captured chunks, at most 64"),
)  # fmt: skip

MESSAGES: Final = pa.schema([
    never_null("cluster", TEXT, "label of the cluster"),
    column("topic", TEXT, "full name with the partition; null if no frame contains the name"),
    column("partition", INT, "number of the partition; null if there is none or it is unknown"),
    column("ledger", LONG, "ledger of the message id; null if the capture contains none"),
    column("entry", LONG, "entry of the message id"),
    never_null("first_ns", LONG, "time of the entry's first SEND, receipt or delivery"),
    column("producer", _PRODUCER, "publication"),
    column("deliveries", many(_DELIVERY), "deliveries in frame order, one item per consumer"),
    column("chunk", _CHUNK, "chunks of a chunked message"),
    column("txn", record(column("most", LONG, "txnid_most_bits"), column("least", LONG, "txnid_least_bits")),
           "the transaction in which the entry was published"),
    never_null("marker", BOOL, "true if the entry is a marker of the broker, not a message"),
    never_null("state", TEXT, "final state (see docs/tables.md)"),
    never_null("evidence", TEXT, "reliability of the state (see docs/tables.md)"),
])  # fmt: skip
"""One row for each entry. The producer's fields and `first_ns` distinguish rows without an id."""

TIME_ORDER: Final = ("cluster", "first_ns", "ledger", "entry")
"""The order in which the rows of a bucket are merged. The stored table has a different order."""


EXCHANGES: Final = pa.schema([
    never_null("cluster", TEXT, "label of the cluster"),
    never_null("connection", LONG, "the connection"),
    column("client", TEXT, "address:port"),
    column("server", TEXT, "address:port"),
    never_null("request", TEXT, "command of the request; SENDs are in `messages`"),
    column("answer", TEXT, "command of the response; null if none was captured"),
    never_null("from_client", BOOL, "true if the client sent the request"),
    column("request_id", LONG, "request, session or watch id; null if the two commands were paired by order"),
    column("owner_id", LONG, "consumer_id or producer_id concerned"),
    column("topic", TEXT, "topic concerned; the first topic if there are several"),
    column("subscription", TEXT, "subscription concerned"),
    never_null("asked_ns", LONG, "time of the request"),
    column("answered_ns", LONG, "time of the response"),
    column("latency_ns", LONG, "answered_ns minus asked_ns"),
    column("error", TEXT, "error in the response"),
    never_null("asked_frame", LONG, "pulsar.number of the request"),
    column("answered_frame", LONG, "pulsar.number of the response"),
    never_null("system", BOOL, "true for internal traffic of the broker"),
])  # fmt: skip
"""One row for each request, answered or not. SEND and SEND_RECEIPT are only in MESSAGES."""
