"""The acknowledged and the pending entries of a subscription, computed from its frames.

Rules of this file
1. An ACK of an attached consumer acknowledges whole entries, or messages of batches (ack set). On Shared and Key_Shared
   only individual acknowledgements count; an ack set is lost at an unload (broker-semantics.md, 5 and 6), also if it
   was confirmed. The ack set of a cumulative acknowledgement replaces the one before. On a segment, that of the first
   entry of a ledger is ignored: 5.0.1 refuses it if the cursor is at the start of the ledger.
2. An ACK in a transaction counts when the transaction is committed, that is at the successful response to END_TXN. An
   ACK_RESPONSE with an error rejects all ids of its ACK (verified on 4.2.4).
3. A seek sets the acknowledged entries to those before its position.
4. A start of a killed broker sets them to those that it has restored. Acknowledgements with a successful ACK_RESPONSE
   are confirmed and must be restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.sessions import ConsumerSession, SubscriptionLog

from pcli.codec.proto import pb
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.message_id import signed

if TYPE_CHECKING:
    from simulation.history import History, StoredEntry, WireFrame


def transaction_of(body: object) -> tuple[int, int] | None:
    """Return the transaction id in a command, or None."""
    if not body.HasField("txnid_most_bits"):  # type: ignore[attr-defined]
        return None
    return body.txnid_most_bits, body.txnid_least_bits  # type: ignore[attr-defined]


class TransactionEnds:
    """The timeouts of transactions, the requests to end them, and the successful responses, by index of the frame."""

    def __init__(self, history: History) -> None:
        self.commit_requested: dict[tuple[int, int], int] = {}
        self.committed: dict[tuple[int, int], int] = {}
        self.timeouts: dict[tuple[int, int], int] = {}
        """The time at which the coordinator aborts each transaction."""
        ttls: dict[tuple[int, int], int] = {}
        open_requests: dict[tuple[int, int], tuple[tuple[int, int], bool]] = {}
        for frame in history.frames:
            if frame.name == "NEW_TXN":
                ttls[frame.link, frame.body.request_id] = frame.body.txn_ttl_millis
            elif frame.name == "NEW_TXN_RESPONSE" and not frame.body.HasField("error"):
                txn = transaction_of(frame.body)
                assert txn is not None
                self.timeouts[txn] = frame.time + ttls[frame.link, frame.body.request_id]
            elif frame.name == "END_TXN":
                txn, commit = transaction_of(frame.body), frame.body.txn_action == pb.COMMIT
                assert txn is not None
                open_requests[frame.link, frame.body.request_id] = txn, commit
                if commit:
                    self.commit_requested.setdefault(txn, frame.index)
            elif frame.name == "END_TXN_RESPONSE" and not frame.body.HasField("error"):
                txn, commit = open_requests.pop((frame.link, frame.body.request_id), ((-1, -1), False))
                if commit:
                    self.committed.setdefault(txn, frame.index)

    def hidden_from(self, history: History, topic: str) -> int:
        """Return the offset from which messages of a transaction that was timed out before hide a topic's entries.

        The abort of a transaction without messages leaves no trace: the topic opens the transaction again (verified on
        4.2.4).
        """
        late = {
            frame.contents.transaction
            for frame in history.frames
            if frame.name == "SEND"
            and frame.contents is not None
            and frame.contents.transaction is not None
            and self.is_timed_out(frame.contents.transaction, frame.time)
        }
        entries = history.stored.get(topic, ())
        return min((one.offset for one in entries if one.contents.transaction in late), default=1 << 62)

    def may_be_committed(self, txn: tuple[int, int] | None, index: int) -> bool:
        """Return whether a commit was requested before a frame."""
        return txn is not None and self.commit_requested.get(txn, 1 << 62) < index

    def is_timed_out(self, txn: tuple[int, int], time: int) -> bool:
        """Return whether the coordinator has aborted a transaction because of its timeout."""
        return not self.is_committed(txn) and self.timeouts.get(txn, 1 << 62) <= time

    def is_committed(self, txn: tuple[int, int] | None, index: int = 1 << 62) -> bool:
        """Return whether the commit of a transaction was confirmed before a frame."""
        return txn is not None and self.committed.get(txn, 1 << 62) < index


class SubscriptionReplay:
    """The state of one subscription. `see` must receive its frames in order."""

    def __init__(self, history: History, log: SubscriptionLog, ends: TransactionEnds) -> None:
        self.log = log
        self.entries = history.stored.get(log.topic, [])
        self.ends = ends
        self.start = max(0, log.start)
        self.acked: set[int] = set()
        """Offsets of acknowledged entries at or after ``start``."""
        self.bits: dict[int, int] = {}
        self.pending: dict[int, ConsumerSession] = {}
        """The consumer that has each entry (Shared and Key_Shared)."""
        self.delivered: set[int] = set()
        """Offsets that were ever delivered."""
        self.dropped: set[int] = set()
        """Offsets last delivered to a consumer that had acknowledged them cumulatively before. The broker lost this
        acknowledgement when it was killed; the client drops the messages (verified with the Java client 4.2.4 and
        grouped acknowledgements)."""
        self.in_transactions: set[int] = set()
        """Offsets that were ever acknowledged in a transaction."""
        self.attached: set[ConsumerSession] = set()
        self.seeking = False
        """Whether a SEEK has no response yet."""
        self.confirmed: dict[int, int] = {}
        """The unacknowledged messages, by offset, of entries with a confirmed acknowledgement; 0 if there are none."""
        self._requests: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """Acknowledgements without a response, as in ``confirmed``, by connection and request id."""
        self._late: set[tuple[int, int]] = set()
        """The ACKs, by connection and request id, in transactions that were timed out."""
        self._cumulative: dict[str, int] = {}
        """The last cumulative acknowledgement of each consumer, by name."""
        self._by_position = history.by_position
        self._transactions: dict[tuple[int, int], dict[tuple[int, int], list[tuple[int, int | None]]]] = {}
        """The acknowledgements of open transactions, by transaction, and by connection and request id."""

    def walk(self) -> Iterator[WireFrame]:
        """Yield each frame of the subscription before its effect is applied."""
        for frame in self.log.frames:
            self._apply_commits(frame.index)
            yield frame
            self.see(frame)
        self._apply_commits(1 << 62)

    def is_acked(self, offset: int) -> bool:
        """Return whether a whole entry is acknowledged."""
        return offset < self.start or offset in self.acked

    def abandoned(self) -> set[int]:
        """Return the offsets that are acknowledged in transactions that were timed out.

        The broker accepts these acknowledgements, and nothing ends them (verified on 4.2.4).
        """
        return {
            offset
            for acks in self._transactions.values()
            for request, places in acks.items()
            if request in self._late
            for offset, _ in places
        }

    def is_readable(self, entry: StoredEntry, index: int = 1 << 62) -> bool:
        """Return whether an entry must be delivered: it is no marker, and its transaction, if any, is committed."""
        contents = entry.contents
        return not contents.marker and (
            contents.transaction is None or self.ends.is_committed(contents.transaction, index)
        )

    def see(self, frame: WireFrame) -> None:
        """Apply a frame."""
        session = frame.session
        name = frame.name
        if name == "SUCCESS" and session is not None:
            self.attached.add(session)
        elif name == "MESSAGE" and frame.entry is not None and session is not None:
            self._deliver(frame.entry.offset, session)
        elif name == "ACK":
            self._acknowledge(frame)
        elif name == "REDELIVER_UNACKNOWLEDGED_MESSAGES":
            for offset in self.returned(frame):
                del self.pending[offset]
        elif name in ("unload", "restart"):
            self.bits.clear()
            self.confirmed = {offset: left for offset, left in self.confirmed.items() if not left}
        elif name == "ACK_RESPONSE":
            request = frame.link, frame.body.request_id
            places = self._requests.pop(request, [])
            if not frame.body.HasField("error"):
                self.confirmed.update(places)
            else:
                for acks in self._transactions.values():
                    acks.pop(request, None)
        elif name == "SEEK":
            self.seeking = True
        elif name == "sought":
            self._cumulative.clear()
            self._seek(frame.body + 1)
        elif name == "restored" and frame.body is not None:
            self._seek(frame.body.start)
            self.acked |= frame.body.acked
            self.bits |= frame.body.bits
        for ended in self.log.closings.get(frame.index, ()):
            self.attached.discard(ended)
            self.pending = {offset: one for offset, one in self.pending.items() if one is not ended}

    def returned(self, frame: WireFrame) -> list[int]:
        """Return the offsets that a REDELIVER takes back from its consumer."""
        mine = [offset for offset, one in self.pending.items() if one is frame.session]
        if not frame.body.message_ids:
            return mine
        wanted = {self._offset(place) for place in frame.body.message_ids}
        return [offset for offset in mine if offset in wanted]

    def _deliver(self, offset: int, session: ConsumerSession) -> None:
        self.delivered.add(offset)
        if session.individual:
            self.pending[offset] = session
        if offset <= self._cumulative.get(session.name, -1):
            self.dropped.add(offset)
        else:
            self.dropped.discard(offset)

    def _seek(self, start: int) -> None:
        self.start, self.seeking = start, False
        for known in (self.acked, self.bits, self.pending, self.confirmed, self._requests):
            known.clear()

    def _offset(self, place: pb.MessageIdData) -> int:
        """Return the offset of an entry, or -1. The entry id -1 means the entry before the first one of a ledger."""
        ledger_id, entry_id = signed(place.ledgerId), signed(place.entryId)
        entry = self._by_position.get((ledger_id, max(entry_id, 0)))
        return -1 if entry is None or entry.topic != self.log.topic else entry.offset + min(entry_id, 0)

    def _acknowledge(self, frame: WireFrame) -> None:
        body, txn = frame.body, transaction_of(frame.body)
        cumulative = body.ack_type == pb.CommandAck.Cumulative
        if cumulative and frame.session is not None and frame.session.individual:
            return
        offsets = []
        for place in body.message_id:
            offset = self._offset(place)
            bits = set_of(place.ack_set) if place.ack_set else None
            if cumulative and bits and self._may_be_refused(place):
                continue
            offsets.append(offset)
            if offset < 0:
                continue
            if txn is not None:
                self.in_transactions.add(offset)
                request = frame.link, body.request_id
                self._transactions.setdefault(txn, {}).setdefault(request, []).append((offset, bits))
                if self.ends.is_timed_out(txn, frame.time):
                    self._late.add(request)
            elif cumulative:
                self.acked.update(range(self.start, offset if bits else offset + 1))
                if frame.session is not None and not bits:
                    self._cumulative[frame.session.name] = offset
                if bits:
                    self._acknowledge_up_to(offset, bits)
            else:
                self.ack(offset, bits)
        if txn is None and body.HasField("request_id"):
            places = [(offset, self.bits.get(offset, 0)) for offset in offsets if offset >= self.start]
            self._requests[frame.link, body.request_id] = places

    def _may_be_refused(self, place: pb.MessageIdData) -> bool:
        return place.entryId == 0 and self.log.topic.startswith("segment:")

    def _acknowledge_up_to(self, offset: int, bits: int) -> None:
        """Replace the unacknowledged messages of a batch, if the first of them is a later one.

        Messages that were acknowledged individually are unacknowledged again (verified on 4.2.4), also if the
        acknowledgement was confirmed.
        """
        if _first_bit(bits) > _first_bit(self.bits.get(offset, 0)):
            self.bits[offset] = bits
            if offset in self.confirmed:
                self.confirmed[offset] |= bits

    def ack(self, offset: int, bits: int | None) -> None:
        """Acknowledge an entry, or all its messages except those in ``bits``."""
        if bits:
            left = self.bits.get(offset, bits) & bits
            if left:
                self.bits[offset] = left
                return
        self.bits.pop(offset, None)
        self.pending.pop(offset, None)
        if offset >= self.start:
            self.acked.add(offset)

    def _apply_commits(self, index: int) -> None:
        for txn in [txn for txn in self._transactions if self.ends.is_committed(txn, index)]:
            for acks in self._transactions.pop(txn).values():
                for offset, bits in acks:
                    self.ack(offset, bits)


def _first_bit(bits: int) -> int:
    """Return the position of the lowest set bit, counted from 1; 0 if there is none."""
    return (bits & -bits).bit_length()
