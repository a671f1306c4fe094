"""One session of a producer as it goes on: what is open, and what is counted only now and then. A slotted class.

A Sender lasts from PRODUCER (or the first SEND, when that is not in the capture) until its open SENDs are settled: a
while after its session has ended, since receipts may be on their way.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from pcli.codec.observe.observer_state import Producer
from pcli.codec.observe.tracking.producers.sequence_ids import SequenceIds
from pcli.codec.observe.tracking.records.client_records import ProducerRecord, Session
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.topic_records import TopicRecord

__all__ = ["NOTABLE_NS", "ConnectionProducers", "OpenSend", "ProducerSession"]

NOTABLE_NS: Final = 1_000_000_000
"""Waits for receipts that are shorter are not counted in `ProducerRecord.no_receipt`."""


class OpenSend(NamedTuple):
    """A SEND without an answer."""

    sequence_id: int
    lifecycle: Lifecycle
    frame: int
    time_ns: int
    place: int
    """SENDs of the session are counted from 1."""
    messages: int
    size: int
    """Bytes of metadata and payload with their headers, as the broker counts bytesInCounter."""
    chunk: int
    """Which chunk it brought; -1: none."""
    again: bool
    """Whether it is a resend."""


class ConnectionProducers:
    """A connection that has sessions."""

    __slots__ = ("heard_frame", "heard_ns", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, ProducerSession] = {}
        """Those that are not settled, by producer id."""
        self.heard_ns = -1
        """The broker's last frame, whatever it was; -1: none."""
        self.heard_frame = 0


class ProducerSession:
    """A producer's session and what is open in it."""

    __slots__ = (
        "chunks",
        "connection",
        "early_receipts",
        "highest_before",
        "key",
        "last_receipt_frame",
        "last_receipted",
        "open_sends",
        "partition",
        "peer",
        "place",
        "record",
        "resendable",
        "sequence_ids",
        "serial",
        "session",
        "since_frame",
        "since_ns",
        "topic",
    )

    def __init__(
        self,
        key: tuple[str, str],
        peer: Producer,
        record: ProducerRecord,
        session: Session,
        connection: ConnectionProducers,
        partition: int,
        serial: int,
    ) -> None:
        self.peer = peer
        self.connection = connection
        self.key = key
        """Topic and name, or ``stream#id`` as long as there is no name: under which its record is kept."""
        self.record = record
        self.session = session
        self.topic: TopicRecord | None = record.topic_record
        self.partition = partition
        """Index in its topic's name; -1: none."""
        self.open_sends: deque[OpenSend] = deque()
        """SENDs without an answer; the oldest first."""
        self.sequence_ids = SequenceIds()
        self.resendable: dict[int, Lifecycle] = {}
        """What an earlier session of the name left without a good receipt, by sequence id: may be sent again."""
        self.chunks: dict[str, tuple[Lifecycle, int]] = {}
        """Chunked messages of which not all is sent, by uuid: the life, the highest chunk so far."""
        self.early_receipts: dict[int, tuple[int, int, int, int]] = {}
        """Receipts whose SEND was not seen (yet), by sequence id: ledger, entry, time and frame."""
        self.serial = serial
        """The number of its record, for Sent."""
        self.highest_before = -1
        """The highest id that earlier sessions of the name have sent; -1: none."""
        self.place = 0
        self.last_receipted = 0
        """The latest SEND that has its receipt, by its place."""
        self.last_receipt_frame = 0
        """That receipt."""
        self.since_ns = -1
        """Since when SENDs wait and no receipt comes; -1: none waits."""
        self.since_frame = 0

    def inherit(self, older: ProducerSession) -> None:
        """Go on with the record of an earlier session of the same name."""
        self.record = older.record
        self.inherit_sends(older)

    def inherit_sends(self, older: ProducerSession) -> None:
        """Know what an earlier session has sent: it may come again."""
        self.serial = older.serial
        self.resendable, self.chunks = older.resendable, older.chunks
        self.highest_before = max(older.highest_before, older.sequence_ids.highest)

    def response_received(self, time_ns: int, frame: int) -> None:
        """An answer came: what is still open waits from now on."""
        since = self.since_ns
        if since >= 0:
            stretch = self.record.no_receipt
            if time_ns - since >= NOTABLE_NS or stretch.since_ns >= 0:
                stretch.begin(since, self.since_frame)
                stretch.end(time_ns, frame)
        self.since_ns, self.since_frame = (time_ns, frame) if self.open_sends else (-1, 0)

    def flush(self, *, over: bool = False) -> None:
        """Bring the record up to date; ``over``: the session has ended."""
        record = self.record
        if over:
            self.give_up_early(0)
        record.ids_vague = record.ids_vague or self.sequence_ids.vague
        for time_ns, frame, last, first in self.sequence_ids.gaps(over=over):
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
        """Receipts up to this time (0: all) whose SEND has not come are unexpected."""
        for sequence_id, (_, _, time_ns, frame) in list(self.early_receipts.items()):
            if not until_ns or time_ns <= until_ns:
                del self.early_receipts[sequence_id]
                self.record.unexpected.add(time_ns, frame, sample=str(sequence_id))
