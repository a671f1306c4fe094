"""One session of a producer: open SENDs, and counts that are added to the record from time to time.

A ProducerSession lasts from PRODUCER (or the first SEND, if PRODUCER is not in the capture) until no more receipts are
possible, which is some time after the session has ended.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pcli.codec.observe.observer_state import Producer
from pcli.codec.observe.tracking.producers.sequence_ids import Gap, SequenceIds
from pcli.codec.observe.tracking.records.client_records import ProducerRecord, Session
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pcli.codec.observe.tracking.producers.repeated_contents import Comparison, SentEntry
    from pcli.codec.observe.tracking.records.topic_records import TopicRecord

NOTABLE_NS: Final = 1_000_000_000
"""Minimum wait for a receipt, in ns, that `ProducerRecord.no_receipt` counts."""


class OpenSend(NamedTuple):
    """A SEND without a receipt."""

    sequence_id: int
    lifecycle: Lifecycle
    frame: int
    time_ns: int
    place: int
    """Number of the SEND in the session, from 1."""
    messages: int
    size: int
    """Bytes of metadata and payload with their headers, as counted by the broker's bytesInCounter."""
    chunk: int
    """Chunk number, or -1 if the message is not chunked."""
    again: bool
    """Whether the SEND is a resend."""


@dataclass(slots=True, eq=False, repr=False)
class ConnectionProducers:
    """The sessions of a connection."""

    producers: dict[int, ProducerSession] = field(default_factory=dict)
    """Sessions for which receipts are possible, by producer id."""
    heard_ns: int = -1
    """Time of the broker's last frame of any type, or -1 if none."""
    heard_frame: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ProducerSession:
    """A session of a producer with its open SENDs."""

    key: tuple[str, str]
    """Key of the producer's record: topic and name, or ``stream#id`` while the name is unknown."""
    peer: Producer
    record: ProducerRecord
    session: Session
    connection: ConnectionProducers
    partition: int
    """Partition index of the topic, or -1 if none."""
    serial: int
    """Number of the producer's record, for RecentSends."""
    topic: TopicRecord | None = field(init=False)
    open_sends: deque[OpenSend] = field(default_factory=deque)
    """SENDs without a receipt; the oldest first."""
    sequence_ids: SequenceIds = field(default_factory=SequenceIds)
    resendable: dict[int, Lifecycle] = field(default_factory=dict)
    """SENDs of earlier sessions of the same name that have no successful receipt and may be resent, by sequence
    id."""
    chunks: dict[str, tuple[Lifecycle, int]] = field(default_factory=dict)
    """Incomplete chunked messages, by uuid: the lifecycle and the highest chunk so far."""
    early_receipts: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """Receipts captured before their SEND, by sequence id: ledger, entry, time and frame."""
    highest_before: int = -1
    """The highest sequence id of earlier sessions of the same name, or -1 if none."""
    is_new: bool = False
    """Whether PRODUCER has the epoch 0: the session is no reconnect."""
    sent_entries: deque[SentEntry] = field(default_factory=deque)
    """The last entries; see repeated_contents.py."""
    comparison: Comparison | None = None
    """The comparison with earlier producers of the topic that have lost their connection, if there are any."""
    place: int = 0
    last_receipted: int = 0
    """Number of the latest SEND that has a receipt."""
    last_receipt_frame: int = 0
    """Frame of that receipt."""
    since_ns: int = -1
    """Start of the current wait for a receipt, or -1 if no SEND is open."""
    since_frame: int = 0

    def __post_init__(self) -> None:
        self.topic = self.record.topic_record

    def inherit(self, older: ProducerSession) -> None:
        """Continue the record of an earlier session of the same name."""
        self.record = older.record
        self.inherit_sends(older)

    def inherit_sends(self, older: ProducerSession) -> None:
        """Take over the SENDs of an earlier session that may be resent."""
        self.serial = older.serial
        self.resendable, self.chunks, self.sent_entries = older.resendable, older.chunks, older.sent_entries
        self.highest_before = max(older.highest_before, older.sequence_ids.highest)

    def response_received(self, time_ns: int, frame: int) -> None:
        """Record a response. The wait for the remaining open SENDs starts again."""
        since = self.since_ns
        if since >= 0:
            stretch = self.record.no_receipt
            if time_ns - since >= NOTABLE_NS or stretch.since_ns >= 0:
                stretch.begin(since, self.since_frame)
                stretch.end(time_ns, frame)
        self.since_ns, self.since_frame = (time_ns, frame) if self.open_sends else (-1, 0)

    def finish(self) -> None:
        """Complete the record, because the session has ended."""
        self.give_up_early(0)
        self._describe(self.record, self.sequence_ids.pending)
        self.sequence_ids.pending = []
        if self.comparison is not None:
            self.comparison.settle(self.record)

    def record_now(self) -> ProducerRecord:
        """Return a copy of the record, as it would be if nothing followed soon."""
        record = copy(self.record)
        record.gaps, record.no_receipt = record.gaps.copy(), copy(record.no_receipt)
        record.restart_duplicates = record.restart_duplicates.copy()
        record.restart_duplicates_blind = record.restart_duplicates_blind.copy()
        self._describe(record, self.sequence_ids.lasting)
        if self.comparison is not None:
            self.comparison.count(record)
        return record

    def _describe(self, record: ProducerRecord, gaps: Iterable[Gap]) -> None:
        """Add gaps and the open SENDs to the record or to a copy of it."""
        record.ids_vague = record.ids_vague or self.sequence_ids.ambiguous
        for time_ns, frame, last, first in gaps:
            record.gaps.add(time_ns, frame, sample=f"{last + 1} to {first - 1}")
        if record.session is not self.session:
            return
        record.heard_ns, record.heard_frame = self.connection.heard_ns, self.connection.heard_frame
        record.open_sends = len(self.open_sends)
        oldest = self.open_sends[0] if self.open_sends else None
        record.oldest_open_ns, record.oldest_open_frame = (oldest.time_ns, oldest.frame) if oldest else (-1, 0)
        if self.since_ns >= 0:
            record.no_receipt.begin(self.since_ns, self.since_frame)

    def give_up_early(self, until_ns: int) -> None:
        """Count receipts up to this time (all if 0) as unexpected if their SEND was not captured.

        A client may open its producer again on the same connection. The broker then sends the receipts of the earlier
        SENDs to the new session.
        """
        for sequence_id, (_, _, time_ns, frame) in list(self.early_receipts.items()):
            if not until_ns or time_ns <= until_ns:
                del self.early_receipts[sequence_id]
                earlier = self.resendable.get(sequence_id)
                if earlier is None or earlier.stream != self.session.stream:
                    self.record.unexpected.add(time_ns, frame, sample=str(sequence_id))
