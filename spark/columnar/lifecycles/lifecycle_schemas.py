"""The tables that lives give: `messages` and `exchanges`, column by column.

Rules of this file
1. A row of ``messages`` is an entry, as brokers store it; the messages of a batch share it. The chunks of one message
   are one row, that of its last chunk's id. Entries without an id (lost, refused, duplicates, in flight) are rows too.
2. A delivery in ``deliveries`` is that of a row to one consumer on one connection, however often it came.
3. A connection is ``tcp.stream``, a frame ``pulsar.number``: what pcli prints for the same capture.
4. SEND and its receipt are in ``messages``; ``exchanges`` has every other request.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, column, many, never_null, record

__all__ = [
    "EVIDENCE", "EXCHANGES", "EXCHANGES_HOUR", "EXCHANGES_ORDER", "MESSAGES", "MESSAGES_HOUR", "MESSAGES_ORDER",
]  # fmt: skip

EVIDENCE: Final[dict[str, str]] = {
    "complete": "nothing that was seen or missed could change what the row says",
    "gap_affected": "packets of a connection that may have told more of it are missing in the capture",
    "weak_sync": "a connection that told of it was entered in the middle, by search",
    "capture_start": "it, or a connection that told of it, began before the capture",
    "capture_end": "the capture ended while something of it was open",
}
"""What a row's ``state`` is worth; of several the first in this order, but ``complete`` only when none is true."""


_PRODUCER: Final = record(
    column("connection", LONG, "the connection of the last SEND"),
    column("producer_id", LONG, "its producer_id there"),
    column("name", TEXT, "the producer's name"),
    column("sequence_id", LONG, "sequence_id of the SEND, of one not seen that of the metadata"),
    column("highest_sequence_id", LONG, "highest_sequence_id of a batch that names it"),
    column("sent_ns", LONG, "when the first SEND was captured"),
    column("receipt_ns", LONG, "when its SEND_RECEIPT or SEND_ERROR was captured; it may be before the SEND"),
    column("messages", LONG, "messages in the entry"),
    column("batch", BOOL, "whether the entry is a batch"),
    column("size", LONG, "bytes of the payload as it is on the wire, of all chunks"),
    column("publish_ns", LONG, "publish_time of the metadata: the producer's clock"),
    column("deliver_at_ns", LONG, "deliver_at_time of the metadata: not to be delivered before"),
    column("key", TEXT, "ordering key, else partition key, of the entry; binary ones as base64"),
    column("resends", INT, "further SENDs of the same message"),
    column("other_ids", many(record(column("ledger", LONG, "ledger"), column("entry", LONG, "entry"))),
           "further ids that a resend was given: it is stored more than once"),
    column("error", TEXT, "of the SEND_ERROR"),
)  # fmt: skip

_DELIVERY: Final = record(
    column("connection", LONG, "the consumer's connection"),
    column("consumer_id", LONG, "its consumer_id there"),
    column("subscription", TEXT, "the subscription; null: its SUBSCRIBE is not in the capture"),
    column("consumer", TEXT, "the consumer's name"),
    column("subscription_type", TEXT, "Exclusive, Shared, Failover, Key_Shared"),
    column("delivered_ns", LONG, "when the first MESSAGE to this consumer was captured"),
    column("count", INT, "how many MESSAGE frames brought it to this consumer"),
    column("redelivery_count", INT, "the highest redelivery_count of those"),
    column("messages", LONG, "messages that the first of those brought: what its ack set does not exclude"),
    column("acked_ns", LONG, "when the ACK that acknowledged all of it here was captured"),
    column("ack_type", TEXT, "of that ACK: individual, cumulative, batch (its last part), transaction"),
    column("nacked_ns", LONG, "when the consumer first asked for it again, naming it"),
    column("unacked", LONG, "messages that the whole subscription has not acknowledged at last"),
    column(
        "again", TEXT, "why the last of several came, a word: docs/tables.md lists them; null: its frames do not tell"
    ),
)

_CHUNK: Final = record(
    column("uuid", TEXT, "names the message that was cut into chunks"),
    column("count", INT, "of how many"),
    column("entries", many(record(
        column("id", INT, "the chunk's number, from 0"),
        column("ledger", LONG, "ledger; null: not known"),
        column("entry", LONG, "entry; null: not known"),
    )), "the chunks that were seen, at most 64"),
)  # fmt: skip

MESSAGES: Final = pa.schema([
    never_null("cluster", TEXT, "label of the cluster"),
    column("topic", TEXT, "full name, partition included; null: no frame told"),
    column("partition", INT, "number of the partition; null: none, or not known"),
    column("ledger", LONG, "ledger of the message id; null: it never got one, as far as was seen"),
    column("entry", LONG, "entry of the message id"),
    never_null("first_ns", LONG, "the earliest that is known of it: its SEND, receipt or delivery"),
    column("producer", _PRODUCER, "how it was published"),
    column("deliveries", many(_DELIVERY), "to whom it was delivered, in order of frames"),
    column("chunk", _CHUNK, "of a chunked message"),
    column("txn", record(column("most", LONG, "txnid_most_bits"), column("least", LONG, "txnid_least_bits")),
           "the transaction that published it"),
    never_null("marker", BOOL, "whether it is no message but a broker's marker"),
    never_null("state", TEXT, "what became of it, a word: docs/tables.md lists them"),
    never_null("evidence", TEXT, "what the state is worth, a word: docs/tables.md lists them"),
])  # fmt: skip
"""One row for each entry. A row without an id is told from others by the producer's fields and `first_ns`."""

MESSAGES_ORDER: Final = ("cluster", "first_ns", "ledger", "entry")
MESSAGES_HOUR: Final = "first_ns"

EXCHANGES: Final = pa.schema([
    never_null("cluster", TEXT, "label of the cluster"),
    never_null("connection", LONG, "the connection"),
    column("client", TEXT, "address:port"),
    column("server", TEXT, "address:port"),
    never_null("request", TEXT, "the command that asked; SEND is in `messages`"),
    column("answer", TEXT, "the command that answered; null: none was seen"),
    never_null("from_client", BOOL, "whether the client asked"),
    column("request_id", LONG, "request, session or watch id; null: paired by order"),
    column("owner_id", LONG, "consumer_id or producer_id that it is about"),
    column("topic", TEXT, "the topic that it is about; of several the first"),
    column("subscription", TEXT, "the subscription that it is about"),
    never_null("asked_ns", LONG, "when the request was captured"),
    column("answered_ns", LONG, "when the answer was captured"),
    column("latency_ns", LONG, "answered less asked"),
    column("error", TEXT, "the error that the answer names"),
    never_null("asked_frame", LONG, "pulsar.number of the request"),
    column("answered_frame", LONG, "pulsar.number of the answer"),
    never_null("system", BOOL, "whether it is the broker's own traffic"),
])  # fmt: skip
"""One row for each request, answered or not. SEND and SEND_RECEIPT are in MESSAGES and nowhere here."""

EXCHANGES_ORDER: Final = ("cluster", "asked_ns", "asked_frame")
EXCHANGES_HOUR: Final = "asked_ns"
