"""PendingAckHandle: the acknowledgements of one subscription that wait for the end of their transactions.

Rules of this file
1. An individual acknowledgement is recorded until its transaction ends. A commit applies it to the cursor; an abort
   redelivers the entries. Meanwhile the entries, or these messages of their batches, are not delivered.
2. An acknowledgement is a conflict if the entry is already acknowledged, or if it is pending in any transaction. For
   messages of a batch, only the same messages are a conflict. One conflict rejects all ids of an ACK.
3. Only one transaction can have a cumulative acknowledgement, and it only moves forwards. While it is pending, the end
   of any other transaction has no effect on this subscription (verified on 4.2.4). An abort does not redeliver.
4. An acknowledgement outside transactions always succeeds and removes the pending one. Messages of batches that are
   acknowledged in this way on Shared and Key_Shared subscriptions are recorded here, too. A seek does not remove them
   (verified on 4.2.4).
5. A transaction id is not compared with the open transactions: any id is accepted. An individual
   acknowledgement of a transaction up to the low water mark is aborted at the next end, if it is the oldest one.

Source of the rules: PendingAckHandleImpl, PositionAckSetUtil, AbstractBaseDispatcher.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heappop, heappush
from typing import Final, Protocol

from pcli.codec.proto import pb
from pcli.codec.wire.bits import ones
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.transactions.txn_id import TxnId, text_of

Place = tuple[int, int]
"""Ledger id and entry id. The entry need not exist."""

_STALE: Final = 1000
"""Number of removed places in the heap above which it is built again."""

_CONFLICT: Final = "org.apache.pulsar.transaction.common.exception.TransactionConflictException"


class AckTarget(Protocol):
    """The subscription whose acknowledgements wait."""

    @property
    def mark_delete_place(self) -> Place:
        """The mark-delete position."""

    def is_acknowledged(self, place: Place) -> bool:
        """Return whether the whole entry is acknowledged."""

    def ack_set(self, place: Place) -> int | None:
        """Return the stored ack set of an entry, or None."""

    def apply_individual(self, acks: Mapping[Place, int | None]) -> None:
        """Acknowledge entries. The values are ack sets, or None for whole entries."""

    def apply_cumulative(self, place: Place, bits: int | None) -> None:
        """Acknowledge all entries up to a place."""

    def redeliver_aborted(self, places: Collection[Place], *, ended: bool) -> None:
        """Redeliver the entries of an aborted transaction; ``ended`` is False for an abort by the low water mark."""


class PendingAckHandle:
    """The pending acknowledgements of one subscription."""

    def __init__(self, target: AckTarget, topic: str, name: str) -> None:
        self._target = target
        self._topic_and_name = f"[{topic}][{name}]"
        self.places: dict[Place, tuple[int | None, int]] = {}
        """Pending ack sets and batch sizes by entry; the ack set is None if the whole entry is pending."""
        self._sorted_places: list[Place] = []
        """A heap of ``places``. It can also contain places that were removed."""
        self.transactions: dict[TxnId, dict[Place, int | None]] = {}
        """The ack sets of each transaction, by entry, in order of the first acknowledgements."""
        self.cumulative: tuple[TxnId, Place, int | None] | None = None
        """The cumulative acknowledgement: transaction, entry and ack set."""
        self.low_water_marks: dict[int, int] = {}
        """The highest known low water mark of each coordinator."""
        self.on_change: Callable[[], None] = lambda: None
        """A function that is called when acknowledgements of transactions were added or removed."""
        self.initialized_ms = 0
        """Time at which a transaction used the subscription first, in ms since 1970; 0 if none did (state None)."""

    def initialize(self, now: int) -> None:
        """Record that a transaction uses the subscription."""
        self.initialized_ms = self.initialized_ms or now

    # -- acknowledgements in transactions ------------------------------------------------------------------------------

    def acknowledge(self, txn: TxnId, acks: list[tuple[Place, int | None, int]]) -> None:
        """Record individual acknowledgements: places, ack sets, batch sizes. Raises Refused (TransactionConflict)."""
        for place, bits, size in acks:
            self._check_individual(txn, place, bits, size)
        own = self.transactions.setdefault(txn, {})
        for place, bits, size in acks:
            if bits is None:
                own[place] = None
                self._put(place, *self.places.get(place, (None, size)))
            else:
                before, (stored, _) = own.get(place), self.places.get(place, (None, 0))
                own[place] = bits if before is None else before & bits
                self._put(place, bits if stored is None else stored & bits, size)
        self.on_change()

    def _put(self, place: Place, bits: int | None, size: int) -> None:
        if place not in self.places:
            heappush(self._sorted_places, place)
        self.places[place] = bits, size

    def _check_individual(self, txn: TxnId, place: Place, bits: int | None, size: int) -> None:
        what = "message" if bits is None else "batch message"
        target = self._target
        stored = target.ack_set(place)
        if target.is_acknowledged(place) or (bits is not None and stored is not None and _overlap(stored, bits, size)):
            raise self._conflict(txn, f"try to ack message:{_text(place, bits)} already acked before.")
        if place in self.places:
            pending = self.places[place][0]
            if bits is None or (pending is not None and _overlap(pending, bits, size)):
                raise self._conflict(txn, f"try to ack {what}:{_text(place, bits)} in pending ack status.")

    def acknowledge_cumulative(self, txn: TxnId, place: Place, bits: int | None) -> None:
        """Record a cumulative acknowledgement. Raises Refused (TransactionConflict)."""
        mark = self._target.mark_delete_place
        if place <= mark:
            raise self._conflict(
                txn,
                f"try to cumulative ack position: {place[0]}:{place[1]} within range of cursor's "
                f"markDeletePosition: {mark[0]}:{mark[1]}",
            )
        before = self.cumulative
        if before is not None and (before[0] != txn or not _is_after((place, bits), before[1:])):
            raise self._conflict(
                txn,
                f"try to cumulative batch ack position: {place[0]}:{place[1]} within range of current "
                f"currentPosition: {before[1][0]}:{before[1][1]}",
            )
        self.cumulative = txn, place, bits
        self.on_change()

    def _conflict(self, txn: TxnId, text: str) -> Refused:
        return Refused(pb.TransactionConflict, f"{_CONFLICT}: {self._topic_and_name} Transaction:{text_of(txn)} {text}")

    # -- ends of transactions ------------------------------------------------------------------------------------------

    def commit(self, txn: TxnId, low_water_mark: int) -> None:
        """Apply the acknowledgements of a transaction to the cursor."""
        if self.cumulative is not None:
            if self.cumulative[0] == txn:
                self._target.apply_cumulative(*self.cumulative[1:])
                self.cumulative = None
        elif txn in self.transactions:
            self._target.apply_individual(self.transactions.pop(txn))
            self._abort_below(txn[0], low_water_mark)
        self.on_change()

    def abort(self, txn: TxnId, low_water_mark: int) -> None:
        """Drop the acknowledgements of a transaction; redeliver the entries that it acknowledged individually."""
        if self.cumulative is not None:
            if self.cumulative[0] == txn:
                self.cumulative = None
        elif txn in self.transactions:
            self._abort_individual(txn, ended=True)
            self._abort_below(txn[0], low_water_mark)
        self.on_change()

    def _abort_individual(self, txn: TxnId, *, ended: bool) -> None:
        acks = self.transactions.pop(txn)
        for place, bits in acks.items():
            stored, size = self.places.get(place, (None, 0))
            restored = None if stored is None or bits is None else stored | (bits ^ ones(size))
            if restored is None or restored.bit_count() == size:
                self.places.pop(place, None)
            else:
                self.places[place] = restored, size
        self._target.redeliver_aborted(acks, ended=ended)

    def _abort_below(self, coordinator: int, low_water_mark: int) -> None:
        """Store the low water mark, and abort the oldest transactions up to the mark."""
        marks = self.low_water_marks
        marks[coordinator] = max(marks.get(coordinator, low_water_mark), low_water_mark)
        while (oldest := next(iter(self.transactions), None)) and oldest[1] <= marks.get(oldest[0], oldest[1] - 1):
            self._abort_individual(oldest, ended=False)

    # -- acknowledgements outside transactions -------------------------------------------------------------------------

    def record_batch_ack(self, place: Place, bits: int) -> None:
        """Record messages of a batch that were acknowledged outside a transaction on a Shared subscription."""
        stored, size = self.places.get(place, (bits, 0))
        if stored is not None:
            self._put(place, stored & bits, size)

    def forget(self, place: Place) -> None:
        """Remove an acknowledged entry, and the entries before the mark-delete position."""
        places, heap, mark = self.places, self._sorted_places, self._target.mark_delete_place
        places.pop(place, None)
        while heap and heap[0] < mark:
            places.pop(heappop(heap), None)
        if len(heap) > _STALE + 2 * len(places):
            self._sorted_places = sorted(places)

    def is_complete(self, place: Place) -> bool:
        """Return whether no message of an entry is left that is neither acknowledged nor pending."""
        bits, _ = self.places.get(place, (None, 0))
        return not bits

    # -- delivery ------------------------------------------------------------------------------------------------------

    def visible(self, entries: list[Entry], ack_sets: Mapping[int, int]) -> list[Entry]:
        """Return the entries with messages that are not pending. ``ack_sets`` are those of the cursor, by offset."""
        places = self.places
        return [one for one in entries if (one.ledger_id, one.entry_id) not in places or self._bits(one, ack_sets)]

    def visible_ack_sets(self, entries: list[Entry], ack_sets: Mapping[int, int]) -> Mapping[int, int]:
        """Return the ack sets of visible entries, by offset, without the pending messages."""
        pending = [one for one in entries if (one.ledger_id, one.entry_id) in self.places]
        return {**ack_sets, **{one.offset: self._bits(one, ack_sets) for one in pending}} if pending else ack_sets

    def _bits(self, entry: Entry, ack_sets: Mapping[int, int]) -> int:
        """Return the messages of an entry in ``places`` that may be delivered; 0 if the whole entry is pending."""
        bits, _ = self.places[entry.ledger_id, entry.entry_id]
        return 0 if bits is None else ack_sets.get(entry.offset, bits) & bits

    # -- unload --------------------------------------------------------------------------------------------------------

    def reload(self, now: int) -> None:
        """Read the acknowledgements of open transactions again, as after an unload of the topic."""
        places, transactions = self.places, self.transactions
        self.places, self.transactions, self._sorted_places = {}, {}, []
        self.low_water_marks.clear()
        for txn, acks in transactions.items():
            open_acks = {place: bits for place, bits in acks.items() if not self._target.is_acknowledged(place)}
            for place, bits in open_acks.items():
                stored, size = self.places.get(place, (bits, places.get(place, (None, 0))[1]))
                self._put(place, None if stored is None or bits is None else stored & bits, size)
            if open_acks:
                self.transactions[txn] = open_acks
        if self.cumulative is not None and self.cumulative[1] <= self._target.mark_delete_place:
            self.cumulative = None
        if self.initialized_ms:
            self.initialized_ms = now
        self.on_change()

    def restore(
        self,
        transactions: dict[TxnId, dict[Place, tuple[int | None, int]]],
        cumulative: tuple[TxnId, Place, int | None] | None,
        now: int,
    ) -> None:
        """Restore the acknowledgements: ack sets and batch sizes by transaction and entry, and the cumulative one."""
        self.initialized_ms, self.cumulative = now, cumulative
        for txn, acks in transactions.items():
            self.transactions[txn] = {place: bits for place, (bits, _) in acks.items()}
            self.places.update(acks)
        self.reload(now)


def _overlap(stored: int, given: int, size: int) -> bool:
    """Return whether two ack sets acknowledge the same message of a batch (isAckSetOverlap).

    ``size`` is the batch size in the ACK. Like Pulsar, this ignores the words of ``stored`` that are 0 at its end.
    """
    words = -(-stored.bit_length() // 64)
    both = ~stored & ~given & ones(64 * words)
    return bool(both & ones(size) if both.bit_length() > size else both)


def _is_after(new: tuple[Place, int | None], old: tuple[Place, int | None]) -> bool:
    """Return whether a cumulative acknowledgement is after another one (compareToWithAckSet)."""
    if new[0] != old[0]:
        return new[0] > old[0]
    new_bit, old_bit = _first_bit(new[1]), _first_bit(old[1])
    return new_bit < old_bit if new_bit < 0 or old_bit < 0 else new_bit > old_bit


def _first_bit(bits: int | None) -> int:
    """Return the index of the lowest set bit, or -1 if there is none."""
    return (bits & -bits).bit_length() - 1 if bits else -1


def _text(place: Place, bits: int | None) -> str:
    """Return an individual position as in the texts of the real broker (AckSetPositionImpl)."""
    state = "is null" if bits is None else f"with long[] size of {max(1, -(-bits.bit_length() // 64))}"
    return f"{place[0]}:{place[1]} (ackSet {state})"
