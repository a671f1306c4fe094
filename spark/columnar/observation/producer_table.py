"""The columns of the table `producers`: a row a producer, across its reconnects, as the Tracker knows it at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.spark.columnar.observation.record_columns import COUNTS, Cell, above, cell, counts, known, lasted
from pcli.spark.columnar.table_schema import BOOL, LONG, TEXT, many

__all__ = ["PRODUCER_CELLS", "OneProducer"]


@dataclass(frozen=True, slots=True)
class OneProducer:
    """A producer at the end of the recording."""

    record: ProducerRecord
    now_ns: int

    def session(self, name: str) -> Any:
        """A field of its last session; None: it had none, or not known."""
        value = None if self.record.session is None else getattr(self.record.session, name)
        return None if value == -1 or value == "" else value


PRODUCER_CELLS: Final[tuple[Cell, ...]] = (
    cell("topic", TEXT, "full name; null: its PRODUCER is not in the capture", lambda one: known(one.record.topic)),
    cell("producer", TEXT, "name as asked for, or as the broker gave it", lambda one: known(one.record.name)),
    cell("access_mode", TEXT, "producer_access_mode", lambda one: known(one.record.access_mode)),
    cell("system", BOOL, "whether it is the broker's own", lambda one: one.record.system),
    cell("connection", LONG, "tcp.stream of its last session", lambda one: one.session("stream")),
    cell("producer_id", LONG, "its id on that connection", lambda one: one.session("id")),
    cell("session", LONG, "frame of the PRODUCER of its last session; 0: not seen", lambda one: one.session("number")),
    cell("began_ns", LONG, "when its last session began", lambda one: one.session("began_ns")),
    cell("ready_ns", LONG, "when that PRODUCER was answered with success", lambda one: one.session("ready_ns")),
    cell("ended_ns", LONG, "when its last session ended; null: it lasts", lambda one: one.session("ended_ns")),
    cell("end", TEXT, "how it ended, a word: docs/tables.md lists them", lambda one: one.session("end")),
    cell("attached", BOOL, "whether it is attached at the end of the capture", lambda one: (
        one.record.session is not None and not one.record.session.end and one.record.session.ready_ns >= 0
    )),
    cell("sessions", LONG, "how many sessions it had", lambda one: one.record.sessions),
    cell("ends", COUNTS, "how its sessions ended", lambda one: counts(one.record.ends)),
    cell("refused", COUNTS, "PRODUCERs that were refused, by error", lambda one: counts(one.record.refused)),
    cell("first_ns", LONG, "when it was first seen", lambda one: known(one.record.first_ns)),
    cell("last_ns", LONG, "when it was last seen", lambda one: known(one.record.last_ns)),
    cell("msg_in_counter", LONG, "messages sent, batches in full, resends not", lambda one: one.record.sent),
    cell("entries_sent", LONG, "SEND frames, resends and chunks too", lambda one: one.record.sent_entries),
    cell("receipts", LONG, "SEND_RECEIPTs", lambda one: one.record.receipts),
    cell("send_errors", COUNTS, "SEND_ERRORs, by error", lambda one: counts(one.record.send_errors)),
    cell("open_sends", LONG, "SENDs that wait for an answer at the end", lambda one: one.record.open_sends),
    cell("oldest_open_ns", LONG, "when the oldest of them was sent", lambda one: above(one.record.oldest_open_ns)),
    cell("unreceipted", LONG, "SENDs without an answer when their session ended",
         lambda one: one.record.unreceipted.count),
    cell("lost", LONG, "of these, those that nobody sent again", lambda one: one.record.lost.count),
    cell("no_receipt_ns", LONG, "how long SENDs waited and no receipt came, waits of a second and more",
         lambda one: lasted(one.record.no_receipt, one.now_ns)),
    cell("waiting_ns", LONG, "how long it waited for its turn (WaitForExclusive)",
         lambda one: lasted(one.record.waiting, one.now_ns)),
    cell("receipts_out_of_order", LONG, "receipts that an earlier SEND's followed",
         lambda one: one.record.out_of_order.count),
    cell("receipts_skipped", LONG, "SENDs without an answer though later ones had theirs",
         lambda one: one.record.skipped.count),
    cell("receipts_unexpected", LONG, "receipts for ids that are not open", lambda one: one.record.unexpected.count),
    cell("sequence_gaps", LONG, "SENDs whose sequence id leaves some out", lambda one: one.record.gaps.count),
    cell("sequence_backwards", LONG, "SENDs whose sequence id goes back", lambda one: one.record.backwards.count),
    cell("resent", LONG, "SENDs of what was sent before", lambda one: one.record.resent.count),
    cell("resent_with_receipt", LONG, "of these, those whose first SEND had its receipt",
         lambda one: one.record.resent_with_receipt.count),
    cell("duplicates_refused", LONG, "SENDs that broker deduplication dropped",
         lambda one: one.record.duplicates_refused.count),
    cell("duplicates_stored", LONG, "resends that were stored a second time",
         lambda one: one.record.duplicates_stored.count),
    cell("chunks_resent", LONG, "chunks sent more than once", lambda one: one.record.chunks_resent.count),
    cell("clock_skew_least_ms", LONG, "least time of SEND less publish_time",
         lambda one: one.record.clock_skew_ms[0]),
    cell("clock_skew_most_ms", LONG, "greatest time of SEND less publish_time",
         lambda one: one.record.clock_skew_ms[1]),
    cell("doubts", many(TEXT), "why evidence may be incomplete, in words: docs/tables.md lists them",
         lambda one: sorted(one.record.doubts)),
)  # fmt: skip
"""All columns but the cluster."""
