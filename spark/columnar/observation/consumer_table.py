"""The columns of the table `consumers`: one row for each consumer, across its reconnects, at the end of the recording.

Columns with a counterpart in Pulsar's statistics have the same name: availablePermits is available_permits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, PermitLedger, Session
from pcli.codec.observe.tracking.statistics.permit_statistics import exhaustion, why_unknown
from pcli.spark.columnar.observation.record_columns import (
    COUNTS,
    REASONS,
    Cell,
    cell,
    counts,
    known,
    non_negative,
    reasons,
    state_duration,
)
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, many

__all__ = ["CONSUMER_CELLS", "FinalConsumer"]


@dataclass(frozen=True, slots=True)
class FinalConsumer:
    """A consumer at the end of the recording."""

    record: ConsumerRecord
    figures: dict[str, Any]
    """The result of topic_statistics.consumer_figures; empty if the consumer is not attached."""
    now_ns: int

    @property
    def permits(self) -> PermitLedger:
        """Permits of the last session."""
        return self.record.permits

    def session(self, name: str) -> Any:
        """Return a field of the last session; None if there is no session or the value is unknown (-1, empty)."""
        session: Session | None = self.record.session
        value = None if session is None else getattr(session, name)
        return None if value == -1 or value == "" else value


_FIGURES: Final = {
    "availablePermits": "available_permits",
    "unackedMessages": "unacked_messages",
    "msgOutCounter": "msg_out_counter",
    "bytesOutCounter": "bytes_out_counter",
    "blockedConsumerOnUnackedMsgs": "blocked_consumer_on_unacked_msgs",
}


def _own(one: FinalConsumer, name: str, value: int) -> Any:
    """Return the value of an attached consumer; otherwise ``value``, the counter at the end of the last session."""
    return one.figures[name] if one.figures else value


def _parked(one: FinalConsumer) -> int:
    return one.permits.unspent if one.record.blocked.since_ns >= 0 else 0


def _if_certain(get: Callable[[FinalConsumer], Any]) -> Callable[[FinalConsumer], Any]:
    """Return a function that returns None if a frame of the consumer may be missing (permit_figures)."""
    return lambda one: None if why_unknown(one.record) else get(one)


def _unknown(one: FinalConsumer) -> list[dict[str, str]]:
    found, why = reasons(one.figures.get("unknown", {}), _FIGURES), why_unknown(one.record)
    return found + [{"figure": name, "reason": why} for name in _RELATIVE if why]


_RELATIVE: Final = ("queue", "balance", "parked", "lowest", "exhausted", "exhausted_ns")


CONSUMER_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name; null if the SUBSCRIBE was not captured", lambda one: known(one.record.topic)),
    cell("subscription", TEXT, "name; null if it is unknown", lambda one: known(one.record.subscription_name)),
    cell("consumer", TEXT, "name in SUBSCRIBE; null if there is none or it is unknown",
         lambda one: known(one.record.name) if one.record.subscription_name else None),
    cell("type", TEXT, "Exclusive, Shared, Failover, Key_Shared; null if the type is unknown",
         lambda one: known(one.record.type)),
    cell("system", BOOL, "true if the consumer belongs to the broker's internal traffic",
         lambda one: one.record.system),
    cell("connection", LONG, "tcp.stream of its last session", lambda one: one.session("stream")),
    cell("consumer_id", LONG, "its id on that connection", lambda one: one.session("id")),
    cell("session", LONG, "frame of the SUBSCRIBE of its last session; 0 if it was not captured",
         lambda one: one.session("number")),
    cell("began_ns", LONG, "start of its last session", lambda one: one.session("began_ns")),
    cell("ready_ns", LONG, "time of the successful response to that SUBSCRIBE", lambda one: one.session("ready_ns")),
    cell("ended_ns", LONG, "end of its last session; null if that session has not ended",
         lambda one: one.session("ended_ns")),
    cell("end", TEXT, "how that session ended (see docs/tables.md)", lambda one: one.session("end")),
    cell("attached", BOOL, "true if the consumer is attached at the end of the capture", lambda one: bool(one.figures)),
    cell("sessions", LONG, "number of sessions", lambda one: one.record.sessions),
    cell("ends", COUNTS, "ends of its sessions by kind", lambda one: counts(one.record.ends)),
    cell("refused", COUNTS, "refused SUBSCRIBEs by error", lambda one: counts(one.record.refused)),
    cell("first_ns", LONG, "time of its first frame", lambda one: known(one.record.first_ns)),
    cell("last_ns", LONG, "end of its last completed session", lambda one: known(one.record.last_ns)),
    cell("priority", INT, "priority_level", lambda one: one.record.priority),
    cell("durable", BOOL, "true if its subscription is durable", lambda one: one.record.durable),
    cell("initial_position", TEXT, "Latest or Earliest", lambda one: known(one.record.initial_position)),
    cell("read_compacted", BOOL, "true if the consumer reads the compacted topic",
         lambda one: one.record.read_compacted),
    cell("active", BOOL, "value of the last ACTIVE_CONSUMER_CHANGE; null if there was none",
         lambda one: one.record.active),
    cell("available_permits", LONG,
         "value at the end of the capture; null if the consumer is not attached or the value is unknown",
         lambda one: one.figures.get("availablePermits")),
    cell("unacked_messages",
         LONG, "messages held at the end of the capture; null if the consumer is not attached or the number is unknown",
         lambda one: one.figures.get("unackedMessages")),
    cell("msg_out_counter", LONG, "messages delivered in its last session, including all messages of batches",
         lambda one: _own(one, "msgOutCounter", one.record.received)),
    cell("bytes_out_counter", LONG, "bytes of those messages, as counted by Pulsar",
         lambda one: _own(one, "bytesOutCounter", one.record.bytes_out)),
    cell("blocked_consumer_on_unacked_msgs", BOOL,
         "inferred value; null if the consumer is not attached or the value is unknown",
         lambda one: one.figures.get("blockedConsumerOnUnackedMsgs")),
    cell("unknown", REASONS, "reasons for null values",
         _unknown),
    cell("entries_out", LONG, "number of MESSAGE frames in its last session", lambda one: one.record.received_entries),
    cell("acked", LONG, "messages that the consumer acknowledged in all sessions", lambda one: one.record.acked),
    cell("acked_entries", LONG, "entries that contained those messages", lambda one: one.record.ack_ages.count),
    cell("ack_age_max_ns", LONG, "longest time from MESSAGE to ACK", lambda one: (
        one.record.ack_age_max_ns if one.record.ack_ages.count else None
    )),
    cell("ack_age_mean_ns", LONG, "mean time from MESSAGE to ACK", lambda one: (
        one.record.ack_age_total_ns // one.record.ack_ages.count if one.record.ack_ages.count else None
    )),
    cell("last_message_ns", LONG, "time of its last MESSAGE", lambda one: non_negative(one.record.last_message_ns)),
    cell("last_ack_ns", LONG, "time of its last ACK", lambda one: non_negative(one.record.last_ack_ns)),
    cell("acks_unanswered", LONG, "ACKs with a request id but without a response",
         lambda one: one.record.acks_unanswered.count),
    cell("acks_failed", COUNTS, "refused ACKs by error", lambda one: counts(one.record.acks_failed)),
    cell("acked_but_back", LONG, "messages redelivered although an ACK covered them",
         lambda one: sum(back.count for back in one.record.acked_but_back.values())),
    cell("validation_errors", COUNTS, "ACKs with a validation error, by error",
         lambda one: counts(one.record.validation)),
    cell("asked_again", LONG, "ids in redelivery requests", lambda one: one.record.asked_again.count),
    cell("asked_all", LONG, "redelivery requests without ids", lambda one: one.record.asked_all.count),
    cell("never_acked", LONG,
         "messages that the consumer held at the end of its last session or at the end of the capture",
         lambda one: one.record.never_acked.count),
    cell("never_acked_oldest_ns", LONG, "delivery time of the oldest of these messages",
         lambda one: known(one.record.never_acked_oldest_ns)),
    cell("whole_batches_again", LONG, "batches that were redelivered as a whole",
         lambda one: one.record.whole_batches_again.count),
    cell("double_subscribes", LONG, "SUBSCRIBEs with the id of a consumer that was still open",
         lambda one: one.record.double_subscribe.count),
    cell("permits_known", BOOL, "true if the permit balance is absolute; false if only its changes are known",
         lambda one: one.permits.known),
    cell("queue", LONG, "permits of its first FLOW (normally the receiver queue size)",
         _if_certain(lambda one: one.permits.queue)),
    cell("flows", LONG, "number of FLOWs in its last session", lambda one: one.permits.flows),
    cell("flowed", LONG, "permits granted by those FLOWs", lambda one: one.permits.flowed),
    cell("delivered", LONG, "messages that used permits", lambda one: one.permits.delivered),
    cell("balance", LONG, "flowed minus delivered", _if_certain(lambda one: one.permits.balance)),
    cell("parked", LONG, "permits that the broker is inferred to hold back", _if_certain(_parked)),
    cell("lowest", LONG, "lowest negative balance; 0 if the balance was never negative",
         _if_certain(lambda one: one.permits.lowest)),
    cell("exhausted", LONG, "number of times that the consumer had no permits after its first FLOW",
         _if_certain(lambda one: exhaustion(one.permits, one.now_ns)[0])),
    cell("exhausted_ns", LONG, "total duration of these periods",
         _if_certain(lambda one: exhaustion(one.permits, one.now_ns)[1])),
    cell("overshoot", LONG, "batches that were larger than the remaining permits",
         lambda one: one.permits.overshoot.count),
    cell("doubled", LONG, "FLOWs that granted more permits than the queue holds",
         lambda one: one.permits.doubled.count),
    cell("short", LONG, "FLOWs that returned fewer than half of the owed permits", lambda one: one.permits.short.count),
    cell("corrupt", LONG, "messages with a wrong checksum", lambda one: one.permits.corrupt.count),
    cell("blocked", LONG, "number of times that the consumer was inferred to be blocked on unacknowledged messages",
         lambda one: one.record.blocked.count),
    cell("blocked_ns", LONG, "total duration of these periods",
         lambda one: state_duration(one.record.blocked, one.now_ns)),
    cell("silent", LONG, "number of times that the consumer received nothing although delivery was possible",
         lambda one: one.record.silent.count),
    cell("silent_ns", LONG, "total duration of these periods",
         lambda one: state_duration(one.record.silent, one.now_ns)),
    cell("doubts", many(TEXT), "reasons why evidence may be incomplete (see docs/tables.md)",
         lambda one: sorted(one.record.doubts)),
)  # fmt: skip
"""All columns except the cluster."""
