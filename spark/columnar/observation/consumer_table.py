"""The columns of the table `consumers`: a row a consumer, across its reconnects, as the Tracker knows it at the end.

Names are those of Pulsar's statistics where it has one: availablePermits is available_permits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, PermitLedger, Session
from pcli.codec.observe.tracking.statistics.permit_statistics import why_unknown
from pcli.spark.columnar.observation.record_columns import (
    COUNTS,
    REASONS,
    Cell,
    above,
    cell,
    counts,
    known,
    lasted,
    reasons,
)
from pcli.spark.columnar.table_schema import BOOL, INT, LONG, TEXT, many

__all__ = ["CONSUMER_CELLS", "OneConsumer"]


@dataclass(frozen=True, slots=True)
class OneConsumer:
    """A consumer at the end of the recording."""

    record: ConsumerRecord
    figures: dict[str, Any]
    """As figures.consumer_figures gives them; empty: it is not attached."""
    now_ns: int

    @property
    def permits(self) -> PermitLedger:
        """Of its last session."""
        return self.record.permits

    def session(self, name: str) -> Any:
        """A field of its last session; None: it never had one, or not known (0 and -1 are)."""
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


def _own(one: OneConsumer, name: str, value: int) -> Any:
    """A counter of the last session: of one that is over as it was then."""
    return one.figures[name] if one.figures else value


def _parked(one: OneConsumer) -> int:
    return one.permits.unspent if one.record.blocked.since_ns >= 0 else 0


def _sure(get: Callable[[OneConsumer], Any]) -> Callable[[OneConsumer], Any]:
    """What is null when a frame of the consumer may be missing (permit_figures)."""
    return lambda one: None if why_unknown(one.record) else get(one)


def _unknown(one: OneConsumer) -> list[dict[str, str]]:
    found, why = reasons(one.figures.get("unknown", {}), _FIGURES), why_unknown(one.record)
    return found + [{"figure": name, "reason": why} for name in _RELATIVE if why]


_RELATIVE: Final = ("queue", "balance", "parked", "lowest", "exhausted", "exhausted_ns")


CONSUMER_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name; null: its SUBSCRIBE is not in the capture", lambda one: known(one.record.topic)),
    cell("subscription", TEXT, "null: not known", lambda one: known(one.record.subscription_name)),
    cell("consumer", TEXT, "name as SUBSCRIBE gave it; null: none, or not known",
         lambda one: known(one.record.name) if one.record.subscription_name else None),
    cell("type", TEXT, "Exclusive, Shared, Failover, Key_Shared; null: not known", lambda one: known(one.record.type)),
    cell("system", BOOL, "whether it is the broker's own", lambda one: one.record.system),
    cell("connection", LONG, "tcp.stream of its last session", lambda one: one.session("stream")),
    cell("consumer_id", LONG, "its id on that connection", lambda one: one.session("id")),
    cell("session", LONG, "frame of the SUBSCRIBE of its last session; 0: not seen", lambda one: one.session("number")),
    cell("began_ns", LONG, "when its last session began", lambda one: one.session("began_ns")),
    cell("ready_ns", LONG, "when that SUBSCRIBE was answered with success", lambda one: one.session("ready_ns")),
    cell("ended_ns", LONG, "when its last session ended; null: it lasts", lambda one: one.session("ended_ns")),
    cell("end", TEXT, "how it ended, a word: docs/tables.md lists them", lambda one: one.session("end")),
    cell("attached", BOOL, "whether it is attached at the end of the capture", lambda one: bool(one.figures)),
    cell("sessions", LONG, "how many sessions it had", lambda one: one.record.sessions),
    cell("ends", COUNTS, "how its sessions ended", lambda one: counts(one.record.ends)),
    cell("refused", COUNTS, "SUBSCRIBEs that were refused, by error", lambda one: counts(one.record.refused)),
    cell("first_ns", LONG, "when it was first seen", lambda one: known(one.record.first_ns)),
    cell("last_ns", LONG, "when its last ended session ended", lambda one: known(one.record.last_ns)),
    cell("priority", INT, "priority_level", lambda one: one.record.priority),
    cell("durable", BOOL, "whether its subscription is", lambda one: one.record.durable),
    cell("initial_position", TEXT, "Latest or Earliest", lambda one: known(one.record.initial_position)),
    cell("read_compacted", BOOL, "whether it reads a compacted topic", lambda one: one.record.read_compacted),
    cell("active", BOOL, "by the last ACTIVE_CONSUMER_CHANGE; null: never told", lambda one: one.record.active),
    cell("available_permits", LONG, "at the end of the capture; null: not attached, or unknown says why",
         lambda one: one.figures.get("availablePermits")),
    cell("unacked_messages", LONG, "messages that it holds at the end of the capture; null: not attached, or unknown",
         lambda one: one.figures.get("unackedMessages")),
    cell("msg_out_counter", LONG, "messages sent to it in its last session, batches in full",
         lambda one: _own(one, "msgOutCounter", one.record.received)),
    cell("bytes_out_counter", LONG, "bytes of these, as Pulsar counts them",
         lambda one: _own(one, "bytesOutCounter", one.record.bytes_out)),
    cell("blocked_consumer_on_unacked_msgs", BOOL, "whether it seems to be; null: not attached, or unknown",
         lambda one: one.figures.get("blockedConsumerOnUnackedMsgs")),
    cell("unknown", REASONS, "why figures are null",
         _unknown),
    cell("entries_out", LONG, "MESSAGE frames of its last session", lambda one: one.record.received_entries),
    cell("acked", LONG, "messages acknowledged in its frames, over all sessions", lambda one: one.record.acked),
    cell("acked_entries", LONG, "entries of these", lambda one: one.record.ack_ages.count),
    cell("ack_age_max_ns", LONG, "longest time from MESSAGE to ACK", lambda one: (
        one.record.ack_age_max_ns if one.record.ack_ages.count else None
    )),
    cell("ack_age_mean_ns", LONG, "mean time from MESSAGE to ACK", lambda one: (
        one.record.ack_age_total_ns // one.record.ack_ages.count if one.record.ack_ages.count else None
    )),
    cell("last_message_ns", LONG, "its last MESSAGE", lambda one: above(one.record.last_message_ns)),
    cell("last_ack_ns", LONG, "its last ACK", lambda one: above(one.record.last_ack_ns)),
    cell("acks_unanswered", LONG, "ACKs with a request id that had no answer",
         lambda one: one.record.acks_unanswered.count),
    cell("acks_failed", COUNTS, "ACKs that were refused, by error", lambda one: counts(one.record.acks_failed)),
    cell("acked_but_back", LONG, "messages that came again although an ACK had covered them",
         lambda one: one.record.acked_but_back.count),
    cell("validation_errors", COUNTS, "ACKs that say why a message could not be used",
         lambda one: counts(one.record.validation)),
    cell("asked_again", LONG, "ids in REDELIVERs", lambda one: one.record.asked_again.count),
    cell("asked_all", LONG, "REDELIVERs without ids", lambda one: one.record.asked_all.count),
    cell("never_acked", LONG, "messages held at the end of its last session, or of the capture",
         lambda one: one.record.never_acked.count),
    cell("never_acked_oldest_ns", LONG, "when the oldest of them was delivered",
         lambda one: known(one.record.never_acked_oldest_ns)),
    cell("whole_batches_again", LONG, "batches that came again in full",
         lambda one: one.record.whole_batches_again.count),
    cell("double_subscribes", LONG, "SUBSCRIBEs with the id of a living consumer",
         lambda one: one.record.double_subscribe.count),
    cell("permits_known", BOOL, "whether its balance of permits is right, and not only how it changed",
         lambda one: one.permits.known),
    cell("queue", LONG, "its first FLOW: the receiver queue", _sure(lambda one: one.permits.queue)),
    cell("flows", LONG, "FLOWs of its last session", lambda one: one.permits.flows),
    cell("flowed", LONG, "permits of these", lambda one: one.permits.flowed),
    cell("delivered", LONG, "messages that took permits", lambda one: one.permits.delivered),
    cell("balance", LONG, "flowed less delivered", _sure(lambda one: one.permits.balance)),
    cell("parked", LONG, "permits that the broker seems to hold back", _sure(_parked)),
    cell("lowest", LONG, "lowest balance below 0; 0: it was never below", _sure(lambda one: one.permits.lowest)),
    cell("exhausted", LONG, "how often it had no permits", _sure(lambda one: one.permits.exhausted.count)),
    cell("exhausted_ns", LONG, "for how long in all", _sure(lambda one: lasted(one.permits.exhausted, one.now_ns))),
    cell("overshoot", LONG, "batches sent with fewer permits left", lambda one: one.permits.overshoot.count),
    cell("doubled", LONG, "FLOWs that gave more than the queue has room for", lambda one: one.permits.doubled.count),
    cell("short", LONG, "FLOWs that gave less than half of what was owed", lambda one: one.permits.short.count),
    cell("corrupt", LONG, "messages with a wrong checksum", lambda one: one.permits.corrupt.count),
    cell("blocked", LONG, "how often it seemed blocked on unacked messages", lambda one: one.record.blocked.count),
    cell("blocked_ns", LONG, "for how long in all", lambda one: lasted(one.record.blocked, one.now_ns)),
    cell("silent", LONG, "how often it got nothing although it could", lambda one: one.record.silent.count),
    cell("silent_ns", LONG, "for how long in all", lambda one: lasted(one.record.silent, one.now_ns)),
    cell("doubts", many(TEXT), "why evidence may be incomplete, in words: docs/tables.md lists them",
         lambda one: sorted(one.record.doubts)),
)  # fmt: skip
"""All columns but the cluster."""
