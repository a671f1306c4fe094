"""The columns of the tables `consumers`, `producers` and `connections`: one row for each object at its end.

A consumer or a producer has one row across its reconnects. Columns with a counterpart in Pulsar's statistics have the
same name: availablePermits is available_permits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.codec.observe.tracking.statistics.permit_statistics import exhaustion, why_unknown
from pcli.spark.columnar.observation.record_columns import (
    COUNTS,
    DOUBTS,
    REASONS,
    UNKNOWN,
    Cell,
    cell,
    count_of,
    counts_of,
    duration_of,
    figure,
    known,
    known_of,
    non_negative_of,
    of,
)
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT


@dataclass(frozen=True, slots=True)
class FinalConsumer:
    """A consumer at the end of the recording."""

    record: ConsumerRecord
    figures: dict[str, Any]
    """The result of broker_statistics.consumer_figures; empty if the consumer is not attached."""
    now_ns: int


@dataclass(frozen=True, slots=True)
class FinalProducer:
    """A producer at the end of the recording."""

    record: ProducerRecord
    now_ns: int


@dataclass(frozen=True, slots=True)
class FinalConnection:
    """A connection at the end of the recording."""

    record: ConnectionRecord
    client_bytes: int
    """Bytes of the client's frames, including length prefixes."""
    broker_bytes: int


def _session(name: str) -> Callable[[Any], Any]:
    """Return a function that reads a field of the last session, if there is one and the value is known."""

    def get(one: FinalConsumer | FinalProducer) -> Any:
        value = None if one.record.session is None else getattr(one.record.session, name)
        return None if value == -1 or value == "" else value

    return get


def _session_cells(opening: str) -> tuple[Cell, ...]:
    """Return the columns of the last session; ``opening`` is the command that opens it."""
    return (
        cell("session", LONG, f"frame of the {opening} of its last session; 0 if it was not captured",
             _session("number")),
        cell("began_ns", LONG, "start of its last session", _session("began_ns")),
        cell("ready_ns", LONG, f"time of the successful response to that {opening}", _session("ready_ns")),
        cell("ended_ns", LONG, "end of its last session; null if that session has not ended", _session("ended_ns")),
        cell("end", TEXT, "how that session ended (see docs/tables.md)", _session("end")),
    )  # fmt: skip


def _sessions_cells(opening: str) -> tuple[Cell, ...]:
    """Return the columns of all sessions."""
    return (
        cell("sessions", LONG, "number of sessions", of("sessions")),
        cell("ends", COUNTS, "ends of its sessions by kind", counts_of("ends")),
        cell("refused", COUNTS, f"refused {opening}s by error", counts_of("refused")),
        cell("first_ns", LONG, "time of its first frame", known_of("first_ns")),
    )


def _own(one: FinalConsumer, name: str, value: int) -> Any:
    """Return the value of an attached consumer; otherwise ``value``, the counter at the end of the last session."""
    return one.figures[name] if one.figures else value


def _parked(one: FinalConsumer) -> int:
    return one.record.permits.unspent if one.record.blocked.since_ns >= 0 else 0


def _if_certain(get: Callable[[FinalConsumer], Any]) -> Callable[[FinalConsumer], Any]:
    """Return a function that returns None if a frame of the consumer may be missing (permit_figures)."""
    return lambda one: None if why_unknown(one.record) else get(one)


def _unknown(one: FinalConsumer) -> list[dict[str, str]]:
    found: list[dict[str, str]] = UNKNOWN.get(one)
    why = why_unknown(one.record)
    return found + [{"figure": name, "reason": why} for name in _RELATIVE if why]


_RELATIVE: Final = ("queue", "balance", "parked", "lowest", "exhausted", "exhausted_ns")


CONSUMER_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name; null if the SUBSCRIBE was not captured", known_of("topic")),
    cell("subscription", TEXT, "name; null if it is unknown", known_of("subscription_name")),
    cell("consumer", TEXT, "name in SUBSCRIBE; null if there is none or it is unknown",
         lambda one: known(one.record.name) if one.record.subscription_name else None),
    cell("type", TEXT, "Exclusive, Shared, Failover, Key_Shared; null if the type is unknown", known_of("type")),
    cell("system", BOOL, "true if the consumer belongs to the broker's internal traffic", of("system")),
    cell("connection", LONG, "tcp.stream of its last session", _session("stream")),
    cell("consumer_id", LONG, "its id on that connection", _session("id")),
    *_session_cells("SUBSCRIBE"),
    cell("attached", BOOL, "true if the consumer is attached at the end of the capture", lambda one: bool(one.figures)),
    *_sessions_cells("SUBSCRIBE"),
    cell("last_ns", LONG, "end of its last completed session", known_of("last_ns")),
    cell("priority", INT, "priority_level", of("priority")),
    cell("durable", BOOL, "true if its subscription is durable", of("durable")),
    cell("initial_position", TEXT, "Latest or Earliest", known_of("initial_position")),
    cell("read_compacted", BOOL, "true if the consumer reads the compacted topic", of("read_compacted")),
    cell("active", BOOL, "value of the last ACTIVE_CONSUMER_CHANGE; null if there was none", of("active")),
    figure("availablePermits", LONG,
           "value at the end of the capture; null if the consumer is not attached or the value is unknown"),
    figure("unackedMessages", LONG,
           "messages held at the end of the capture; null if the consumer is not attached or the number is unknown"),
    cell("msg_out_counter", LONG, "messages delivered in its last session, including all messages of batches",
         lambda one: _own(one, "msgOutCounter", one.record.received)),
    cell("bytes_out_counter", LONG, "bytes of those messages, as counted by Pulsar",
         lambda one: _own(one, "bytesOutCounter", one.record.bytes_out)),
    figure("blockedConsumerOnUnackedMsgs", BOOL,
           "inferred value; null if the consumer is not attached or the value is unknown"),
    cell("unknown", REASONS, "reasons for null values", _unknown),
    cell("entries_out", LONG, "number of MESSAGE frames in its last session", of("received_entries")),
    cell("acked", LONG, "messages that the consumer acknowledged in all sessions", of("acked")),
    cell("acked_entries", LONG, "entries that contained those messages", count_of("ack_ages")),
    cell("ack_age_max_ns", LONG, "longest time from MESSAGE to ACK",
         lambda one: (one.record.ack_age_max_ns if one.record.ack_ages.count else None)),
    cell("ack_age_mean_ns", LONG, "mean time from MESSAGE to ACK",
         lambda one: (one.record.ack_age_total_ns // one.record.ack_ages.count if one.record.ack_ages.count else None)),
    cell("last_message_ns", LONG, "time of its last MESSAGE", non_negative_of("last_message_ns")),
    cell("last_ack_ns", LONG, "time of its last ACK", non_negative_of("last_ack_ns")),
    cell("acks_unanswered", LONG, "ACKs with a request id but without a response", count_of("acks_unanswered")),
    cell("acks_failed", COUNTS, "refused ACKs by error", counts_of("acks_failed")),
    cell("acked_but_back", LONG, "messages redelivered although an ACK covered them",
         lambda one: sum(back.count for back in one.record.acked_but_back.values())),
    cell("validation_errors", COUNTS, "ACKs with a validation error, by error", counts_of("validation")),
    cell("asked_again", LONG, "ids in redelivery requests", count_of("asked_again")),
    cell("asked_all", LONG, "redelivery requests without ids", count_of("asked_all")),
    cell("never_acked", LONG,
         "messages that the consumer held at the end of its last session or at the end of the capture",
         count_of("never_acked")),
    cell("never_acked_oldest_ns", LONG, "delivery time of the oldest of these messages",
         known_of("never_acked_oldest_ns")),
    cell("whole_batches_again", LONG, "batches that were redelivered as a whole", count_of("whole_batches_again")),
    cell("double_subscribes", LONG, "SUBSCRIBEs with the id of a consumer that was still open",
         count_of("double_subscribe")),
    cell("permits_known", BOOL, "true if the permit balance is absolute; false if only its changes are known",
         of("permits.known")),
    cell("queue", LONG, "permits of its first FLOW (normally the receiver queue size)",
         _if_certain(of("permits.queue"))),
    cell("flows", LONG, "number of FLOWs in its last session", of("permits.flows")),
    cell("flowed", LONG, "permits granted by those FLOWs", of("permits.flowed")),
    cell("delivered", LONG, "messages that used permits", of("permits.delivered")),
    cell("balance", LONG, "flowed minus delivered", _if_certain(of("permits.balance"))),
    cell("parked", LONG, "permits that the broker is inferred to hold back", _if_certain(_parked)),
    cell("lowest", LONG, "lowest negative balance; 0 if the balance was never negative",
         _if_certain(of("permits.lowest"))),
    cell("exhausted", LONG, "number of times that the consumer had no permits after its first FLOW",
         _if_certain(lambda one: exhaustion(one.record.permits, one.now_ns)[0])),
    cell("exhausted_ns", LONG, "total duration of these periods",
         _if_certain(lambda one: exhaustion(one.record.permits, one.now_ns)[1])),
    cell("overshoot", LONG, "batches that were larger than the remaining permits", count_of("permits.overshoot")),
    cell("doubled", LONG, "FLOWs that granted more permits than the queue holds", count_of("permits.doubled")),
    cell("short", LONG, "FLOWs that returned fewer than half of the owed permits", count_of("permits.short")),
    cell("corrupt", LONG, "messages with a wrong checksum", count_of("permits.corrupt")),
    cell("blocked", LONG, "number of times that the consumer was inferred to be blocked on unacknowledged messages",
         count_of("blocked")),
    cell("blocked_ns", LONG, "total duration of these periods", duration_of("blocked")),
    cell("silent", LONG, "number of times that the consumer received nothing although delivery was possible",
         count_of("silent")),
    cell("silent_ns", LONG, "total duration of these periods", duration_of("silent")),
    DOUBTS,
)  # fmt: skip
"""All columns except the cluster."""


PRODUCER_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name; null if the PRODUCER was not captured", known_of("topic")),
    cell("producer", TEXT, "requested name, or the name that the broker assigned", known_of("name")),
    cell("access_mode", TEXT, "producer_access_mode", known_of("access_mode")),
    cell("system", BOOL, "true if the producer belongs to the broker's internal traffic", of("system")),
    cell("connection", LONG, "tcp.stream of its last session", _session("stream")),
    cell("producer_id", LONG, "its id on that connection", _session("id")),
    *_session_cells("PRODUCER"),
    cell("attached", BOOL, "true if the producer is attached at the end of the capture", lambda one: (
        one.record.session is not None and not one.record.session.end and one.record.session.ready_ns >= 0
    )),
    *_sessions_cells("PRODUCER"),
    cell("last_ns", LONG, "time of its last frame", known_of("last_ns")),
    cell("msg_in_counter", LONG, "messages sent, including all messages of batches but excluding resends", of("sent")),
    cell("entries_sent", LONG, "SEND frames, including resends and chunks", of("sent_entries")),
    cell("receipts", LONG, "number of SEND_RECEIPTs", of("receipts")),
    cell("send_errors", COUNTS, "SEND_ERRORs by error", counts_of("send_errors")),
    cell("open_sends", LONG, "pending SENDs at the end of the capture", of("open_sends")),
    cell("oldest_open_ns", LONG, "time of the oldest pending SEND", non_negative_of("oldest_open_ns")),
    cell("unreceipted", LONG, "SENDs without a response when their session ended", count_of("unreceipted")),
    cell("lost", LONG, "SENDs counted in `unreceipted` that were not resent", count_of("lost")),
    cell("no_receipt_ns", LONG, "total time in which SENDs were pending without a receipt, in waits of 1 s or more",
         duration_of("no_receipt")),
    cell("waiting_ns", LONG, "time that the producer waited for exclusive access (WaitForExclusive)",
         duration_of("waiting")),
    cell("receipts_out_of_order", LONG, "receipts that arrived before the receipt of an earlier SEND",
         count_of("out_of_order")),
    cell("receipts_skipped", LONG, "SENDs without a response although later SENDs were answered", count_of("skipped")),
    cell("receipts_unexpected", LONG, "receipts for ids that were not pending", count_of("unexpected")),
    cell("sequence_gaps", LONG, "SENDs whose sequence id skips values", count_of("gaps")),
    cell("sequence_backwards", LONG, "SENDs whose sequence id is lower than the preceding id", count_of("backwards")),
    cell("resent", LONG, "SENDs that repeat an earlier SEND", count_of("resent")),
    cell("resent_with_receipt", LONG, "resent SENDs whose first SEND had a receipt", count_of("resent_with_receipt")),
    cell("duplicates_refused", LONG, "SENDs that the broker's deduplication dropped",
         lambda one: one.record.resends_refused.count + one.record.reuses_refused.count),
    cell("duplicates_stored", LONG, "resends that were stored a second time", count_of("duplicates_stored")),
    cell("chunks_resent", LONG, "chunks sent more than once", count_of("chunks_resent")),
    cell("clock_skew_least_ms", LONG, "minimum of SEND time minus publish_time",
         lambda one: one.record.clock_skew_ms[0]),
    cell("clock_skew_most_ms", LONG, "maximum of SEND time minus publish_time",
         lambda one: one.record.clock_skew_ms[1]),
    DOUBTS,
)  # fmt: skip
"""All columns except the cluster."""


CONNECTION_CELLS: Final[tuple[Cell, ...]] = (
    cell("connection", LONG, "tcp.stream", of("stream")),
    cell("client", TEXT, "address", lambda one: one.record.client[0]),
    cell("client_port", INT, "port", lambda one: one.record.client[1]),
    cell("server", TEXT, "address", lambda one: one.record.server[0]),
    cell("server_port", INT, "port", lambda one: one.record.server[1]),
    cell("kind", TEXT, "pulsar, tls, http, proxy, other, unknown", of("kind")),
    cell("midstream", BOOL, "true if the connection began before the capture", of("midstream")),
    cell("system", BOOL, "true if the connection belongs to the broker's internal client", of("system")),
    cell("first_ns", LONG, "time of its first frame", known_of("first_ns")),
    cell("last_ns", LONG, "time of its last frame", known_of("last_ns")),
    cell("first_frame", LONG, "number of its first frame", known_of("first_frame")),
    cell("last_frame", LONG, "number of its last frame", known_of("last_frame")),
    cell("client_frames", LONG, "frames of the client", of("client_frames")),
    cell("broker_frames", LONG, "frames of the broker", of("broker_frames")),
    cell("client_bytes", LONG, "bytes of the client's frames", lambda one: one.client_bytes),
    cell("broker_bytes", LONG, "bytes of the broker's frames", lambda one: one.broker_bytes),
    cell("client_version", TEXT, "value in CONNECT", known_of("client_version")),
    cell("protocol_version", INT, "value in CONNECT", non_negative_of("protocol_version")),
    cell("server_version", TEXT, "value in CONNECTED", known_of("server_version")),
    cell("server_protocol_version", INT, "value in CONNECTED", non_negative_of("server_protocol_version")),
    cell("max_message_size", LONG, "value in CONNECTED", known_of("max_message_size")),
    cell("proxy_to_broker_url", TEXT, "value in CONNECT", known_of("proxy_to_broker_url")),
    cell("leg_of", LONG, "tcp.stream of the client's connection if the row is a proxy's connection to the broker",
         non_negative_of("leg_of")),
    cell("connected_ns", LONG, "time of CONNECTED", non_negative_of("connected_ns")),
    cell("ended_ns", LONG, "time of its end; null if the connection has not ended", non_negative_of("ended_ns")),
    cell("end", TEXT, "how the connection ended (see docs/tables.md)", known_of("end")),
    cell("challenges", LONG, "AUTH_CHALLENGEs on the established connection", count_of("challenges")),
    cell("wrong_crc_client", LONG, "SENDs with a wrong checksum", lambda one: _wrong(one.record, from_client=True)),
    cell("wrong_crc_broker", LONG, "MESSAGEs with a wrong checksum", lambda one: _wrong(one.record, from_client=False)),
    cell("oversize", LONG, "frames larger than max_message_size allows", count_of("oversize")),
    cell("deprecated", COUNTS, "deprecated commands and fields", counts_of("deprecated")),
    cell("answers_out_of_order", LONG,
         "responses for a producer or consumer that arrived before the response to its PRODUCER or SUBSCRIBE",
         count_of("out_of_order")),
    cell("first_bytes", TEXT, "kind of the data that is not Pulsar", known_of("first_bytes")),
    DOUBTS,
)  # fmt: skip
"""All columns except the cluster."""


def _wrong(record: ConnectionRecord, *, from_client: bool) -> int:
    tally = record.wrong_crc.get(from_client)
    return 0 if tally is None else tally.count
