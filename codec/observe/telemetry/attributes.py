"""The attributes of spans, events and log records: their names, and the frame and field from which each value comes.

Rules of this file
1. Names that start with ``messaging.`` and are not below ``messaging.pulsar`` are those of the semantic conventions.
   ``messaging.pulsar`` is the namespace of the system; ``pcli`` is for what only the capture defines.
2. No attribute contains a key, a payload, or a property of a message.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Source(NamedTuple):
    """The source of an attribute or event."""

    name: str
    place: str
    """The spans, events or log records that have it."""
    frame: str
    field: str
    """The field in the filter language, or a description if no field contains the value."""


_BOTH: Final = "send, process, receive"
_CONSUMER: Final = "process, receive"

ATTRIBUTES: Final = (
    Source("messaging.system", _BOTH, "", "always `pulsar`"),
    Source("messaging.operation.type", _BOTH, "", "`send`, `process` or `receive`"),
    Source("messaging.operation.name", _BOTH, "", "as `messaging.operation.type`"),
    Source("messaging.destination.name", _BOTH, "PRODUCER, SUBSCRIBE", "`pulsar.topic` without the partition"),
    Source("messaging.destination.partition.id", _BOTH, "PRODUCER, SUBSCRIBE", "the partition in `pulsar.topic`"),
    Source("messaging.destination.subscription.name", _CONSUMER, "SUBSCRIBE", "`pulsar.subscribe.subscription`"),
    Source("messaging.client.id", _BOTH, "PRODUCER_SUCCESS, SUBSCRIBE", "the name of the producer or consumer"),
    Source("messaging.message.id", _BOTH, "SEND_RECEIPT, MESSAGE", "`ledger:entry:partition`, of one message"),
    Source("messaging.message.body.size", _BOTH, "SEND, MESSAGE", "bytes of the payload on the wire, of one message"),
    Source("messaging.batch.message_count", _BOTH, "SEND, MESSAGE", "`pulsar.metadata.num_messages_in_batch`"),
    Source("server.address", _BOTH, "any", "the address of the broker"),
    Source("server.port", _BOTH, "any", "the port of the broker"),
    Source("client.address", _BOTH, "any", "the address of the producer or consumer"),
    Source("client.port", _BOTH, "any", "the port of the producer or consumer"),
    Source("error.type", _BOTH, "SEND_ERROR, REDELIVER, MESSAGE", "`pulsar.send_error.error`, or the cause"),
    Source("messaging.pulsar.cluster", _BOTH, "", "the option `--cluster`"),
    Source("messaging.pulsar.entry.id", _BOTH, "SEND_RECEIPT, MESSAGE", "`ledger:entry`"),
    Source("messaging.pulsar.entry.size", _BOTH, "SEND, MESSAGE", "bytes of the payload of a batch on the wire"),
    Source("messaging.pulsar.other_entry.ids", "send", "SEND_RECEIPT", "ids of the entries that resends stored"),
    Source("messaging.pulsar.segment", _BOTH, "PRODUCER, SUBSCRIBE", "range and id in the name of the segment"),
    Source("messaging.pulsar.sequence_id", _BOTH, "SEND, MESSAGE", "`pulsar.metadata.sequence_id`"),
    Source("messaging.pulsar.publish_time", _BOTH, "SEND, MESSAGE", "`pulsar.metadata.publish_time`, ms since 1970"),
    Source("messaging.pulsar.deliver_at_time", _BOTH, "SEND, MESSAGE", "`pulsar.metadata.deliver_at_time`"),
    Source("messaging.pulsar.batch.indexes", _BOTH, "SEND, MESSAGE", "positions in the batch of the span's messages"),
    Source("messaging.pulsar.chunk.count", _BOTH, "SEND, MESSAGE", "`pulsar.metadata.num_chunks_from_msg`"),
    Source("messaging.pulsar.transaction.id", _BOTH, "SEND, MESSAGE", "`pulsar.metadata.txnid_most_bits`, `…least…`"),
    Source("messaging.pulsar.subscription.type", _CONSUMER, "SUBSCRIBE", "`pulsar.subscribe.subType`"),
    Source("messaging.pulsar.redelivery.count", _CONSUMER, "MESSAGE", "`pulsar.message.redelivery_count`"),
    Source("messaging.pulsar.state", _BOTH, "all of the message", "the state, as in `pcli trace`"),
    Source("pcli.frame", "spans, events", "the frame itself", "`pulsar.number` of the first frame"),
    Source("pcli.frame.end", _BOTH, "SEND_RECEIPT, ACK, REDELIVER", "`pulsar.number` of the frame that ends the span"),
    Source("pcli.frame.chunks", "send", "SEND", "`pulsar.number` of the chunks, at most 64"),
    Source("pcli.stream", _BOTH, "any", "`tcp.stream`"),
    Source("pcli.doubts", _BOTH, "", "why the capture may lack frames of the message"),
    Source("pcli.clock_skew_ms", _BOTH, "all of the message", "by how much a time precedes the time before it"),
    Source("messaging.pulsar.ack.type", "acknowledged", "ACK", "individual, cumulative, batch or transaction"),
    Source("messaging.pulsar.ack.remaining", "acknowledged", "ACK", "messages of the entry that it leaves"),
    Source("messaging.pulsar.ack.effective", "acknowledged", "ACK", "whether it acknowledged anything"),
    Source("messaging.pulsar.ack.validation_error", "acknowledged", "ACK", "`pulsar.ack.validation_error`"),
    Source("messaging.pulsar.redelivery.cause", "redelivery events", "REDELIVER, SUBSCRIBE", "the cause"),
    Source("messaging.pulsar.dead_letter.topic", "dead_letter", "SEND", "the topic of the dead letter"),
    Source("messaging.pulsar.sealed_segment", "segment events", "SEND, SCALABLE_TOPIC_UPDATE", "name of the segment"),
    Source("messaging.pulsar.segment.children", "segment_sealed", "SCALABLE_TOPIC_UPDATE", "ids of the new segments"),
    Source("pcli.finding.rule", "finding, log records", "", "the rule"),
    Source("pcli.finding.severity", "finding, log records", "", "error, warning or note"),
    Source("pcli.finding.certainty", "finding, log records", "", "certain, likely or possible"),
    Source("pcli.finding.culprit", "log records", "", "application, client, broker, network or capture"),
    Source("pcli.finding.text", "finding", "", "what was found"),
    Source("pcli.finding.frames", "finding, log records", "", "`pulsar.number` of the frames that are evidence"),
    Source("pcli.finding.subject", "log records", "", "the topic, subscription, consumer, producer or connection"),
)  # fmt: skip

EVENTS: Final = (
    Source("resent", "send", "SEND", "the producer sends the message again"),
    Source("sent_to_sealed_segment", "send", "SEND", "an earlier attempt on a segment that is sealed"),
    Source("segment_sealed", "send, process, receive", "SCALABLE_TOPIC_UPDATE", "a split or merge seals the segment"),
    Source("refused", "send", "SEND_ERROR", "the broker refuses the message"),
    Source("schema_refused", "send", "SEND_ERROR", "the broker refuses the schema of the message"),
    Source("duplicate", "send", "SEND_RECEIPT", "deduplication drops the message"),
    Source("lost", "send", "", "the connection ended before the receipt"),
    Source("redelivery", "process, receive", "MESSAGE", "the delivery is a redelivery"),
    Source("negative_acknowledgement", "process", "REDELIVER", "the consumer requests the message again"),
    Source("redelivery_request", "process", "REDELIVER", "as before, after a timeout or for an unknown reason"),
    Source("taken_back", "process", "CLOSE_CONSUMER, SUBSCRIBE", "the broker takes the message back"),
    Source("acknowledged", "process", "ACK", "an acknowledgement of the entry or a part of it"),
    Source("acknowledgement_response", "process", "ACK_RESPONSE", "the response, with its error"),
    Source("dead_letter", "process, receive", "SEND", "a client sends the message to a dead letter topic"),
    Source("finding", "send, process, receive", "", "a frame of the span is evidence of a finding"),
)  # fmt: skip
