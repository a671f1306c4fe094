"""The columns of the table `producers`: one row for each producer, across reconnects, at the end of the recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.spark.columnar.observation.record_columns import (
    COUNTS,
    Cell,
    cell,
    counts,
    known,
    non_negative,
    state_duration,
)
from pcli.spark.columnar.table_schema import BOOL, LONG, TEXT, many

__all__ = ["PRODUCER_CELLS", "FinalProducer"]


@dataclass(frozen=True, slots=True)
class FinalProducer:
    """A producer at the end of the recording."""

    record: ProducerRecord
    now_ns: int

    def session(self, name: str) -> Any:
        """Return a field of the last session; None if there is no session or the value is unknown."""
        value = None if self.record.session is None else getattr(self.record.session, name)
        return None if value == -1 or value == "" else value


PRODUCER_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name; null if the PRODUCER was not captured", lambda one: known(one.record.topic)),
    cell("producer", TEXT, "requested name, or the name that the broker assigned", lambda one: known(one.record.name)),
    cell("access_mode", TEXT, "producer_access_mode", lambda one: known(one.record.access_mode)),
    cell("system", BOOL, "true if the producer belongs to the broker's internal traffic",
         lambda one: one.record.system),
    cell("connection", LONG, "tcp.stream of its last session", lambda one: one.session("stream")),
    cell("producer_id", LONG, "its id on that connection", lambda one: one.session("id")),
    cell("session", LONG, "frame of the PRODUCER of its last session; 0 if it was not captured",
         lambda one: one.session("number")),
    cell("began_ns", LONG, "start of its last session", lambda one: one.session("began_ns")),
    cell("ready_ns", LONG, "time of the successful response to that PRODUCER", lambda one: one.session("ready_ns")),
    cell("ended_ns", LONG, "end of its last session; null if that session has not ended",
         lambda one: one.session("ended_ns")),
    cell("end", TEXT, "how that session ended (see docs/tables.md)", lambda one: one.session("end")),
    cell("attached", BOOL, "true if the producer is attached at the end of the capture", lambda one: (
        one.record.session is not None and not one.record.session.end and one.record.session.ready_ns >= 0
    )),
    cell("sessions", LONG, "number of sessions", lambda one: one.record.sessions),
    cell("ends", COUNTS, "ends of its sessions by kind", lambda one: counts(one.record.ends)),
    cell("refused", COUNTS, "refused PRODUCERs by error", lambda one: counts(one.record.refused)),
    cell("first_ns", LONG, "time of its first frame", lambda one: known(one.record.first_ns)),
    cell("last_ns", LONG, "time of its last frame", lambda one: known(one.record.last_ns)),
    cell("msg_in_counter", LONG, "messages sent, including all messages of batches but excluding resends",
         lambda one: one.record.sent),
    cell("entries_sent", LONG, "SEND frames, including resends and chunks", lambda one: one.record.sent_entries),
    cell("receipts", LONG, "number of SEND_RECEIPTs", lambda one: one.record.receipts),
    cell("send_errors", COUNTS, "SEND_ERRORs by error", lambda one: counts(one.record.send_errors)),
    cell("open_sends", LONG, "pending SENDs at the end of the capture", lambda one: one.record.open_sends),
    cell("oldest_open_ns", LONG, "time of the oldest pending SEND",
         lambda one: non_negative(one.record.oldest_open_ns)),
    cell("unreceipted", LONG, "SENDs without a response when their session ended",
         lambda one: one.record.unreceipted.count),
    cell("lost", LONG, "SENDs counted in `unreceipted` that were not resent", lambda one: one.record.lost.count),
    cell("no_receipt_ns", LONG, "total time in which SENDs were pending without a receipt, in waits of 1 s or more",
         lambda one: state_duration(one.record.no_receipt, one.now_ns)),
    cell("waiting_ns", LONG, "time that the producer waited for exclusive access (WaitForExclusive)",
         lambda one: state_duration(one.record.waiting, one.now_ns)),
    cell("receipts_out_of_order", LONG, "receipts that arrived before the receipt of an earlier SEND",
         lambda one: one.record.out_of_order.count),
    cell("receipts_skipped", LONG, "SENDs without a response although later SENDs were answered",
         lambda one: one.record.skipped.count),
    cell("receipts_unexpected", LONG, "receipts for ids that were not pending",
         lambda one: one.record.unexpected.count),
    cell("sequence_gaps", LONG, "SENDs whose sequence id skips values", lambda one: one.record.gaps.count),
    cell("sequence_backwards", LONG, "SENDs whose sequence id is lower than the preceding id",
         lambda one: one.record.backwards.count),
    cell("resent", LONG, "SENDs that repeat an earlier SEND", lambda one: one.record.resent.count),
    cell("resent_with_receipt", LONG, "resent SENDs whose first SEND had a receipt",
         lambda one: one.record.resent_with_receipt.count),
    cell("duplicates_refused", LONG, "SENDs that the broker's deduplication dropped",
         lambda one: one.record.resends_refused.count + one.record.reuses_refused.count),
    cell("duplicates_stored", LONG, "resends that were stored a second time",
         lambda one: one.record.duplicates_stored.count),
    cell("chunks_resent", LONG, "chunks sent more than once", lambda one: one.record.chunks_resent.count),
    cell("clock_skew_least_ms", LONG, "minimum of SEND time minus publish_time",
         lambda one: one.record.clock_skew_ms[0]),
    cell("clock_skew_most_ms", LONG, "maximum of SEND time minus publish_time",
         lambda one: one.record.clock_skew_ms[1]),
    cell("doubts", many(TEXT), "reasons why evidence may be incomplete (see docs/tables.md)",
         lambda one: sorted(one.record.doubts)),
)  # fmt: skip
"""All columns except the cluster."""
