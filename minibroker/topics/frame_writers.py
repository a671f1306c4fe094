"""SEND_RECEIPT frames, encoded on the hot path: one for each published message.

Rules of this file
1. The bytes are equal to those from `codec.wire.hot.push_send_receipt`; a test compares them.
2. Constant parts are cached: the producer id, the ledger id, and the length prefixes.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.hot import push_message, push_send_receipt, push_varint

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry

_two_lengths = Struct(">II").pack
_SEND_RECEIPT: Final = BY_NAME["SEND_RECEIPT"].number

_ONE: Final = [bytes([value]) for value in range(128)]
_CONTINUED: Final = [bytes([value | 128]) for value in range(128)]
_SHORT: Final = [
    _two_lengths(size + 8, size + 4) + bytes((8, _SEND_RECEIPT, _SEND_RECEIPT << 3 | 2, size)) for size in range(128)
]
"""The start of a frame, for each size of its body."""


def _encoded(high: int) -> tuple[list[bytes], bytes]:
    """Return how varints of ``high << 7 | low`` are encoded: their first byte for each ``low``, and the other bytes."""
    return (_CONTINUED, push_varint(high)) if high else (_ONE, b"")


class SendReceiptWriter:
    """Encoder of the receipts of one producer."""

    __slots__ = ("_head", "_ledger", "_ledger_id", "_producer_id")

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        self._head = b"\x08" + push_varint(producer_id) + b"\x10"
        self._ledger_id = -1
        self._ledger = b""

    def write(self, sequence: int, highest: int, ledger: int, entry: int) -> bytes:
        """Return one frame; ``highest`` is encoded as 0 if it is below ``sequence``."""
        if highest < sequence:
            highest = 0
        if entry < 0 or ledger < 0:
            return push_send_receipt(self._producer_id, sequence, ledger, entry, highest)
        if ledger != self._ledger_id:
            self._begin(ledger)
        head, place = self._head, self._ledger
        number, within, last = push_varint(sequence), push_varint(entry), push_varint(highest)
        size = len(place) + len(within)
        start = _SHORT[len(head) + len(number) + size + len(last) + 3]
        return b"".join((start, head, number, b"\x1a", _ONE[size], place, within, b"\x20", last))

    def write_run(self, sequences: list[int], entries: list[Entry]) -> bytes:
        """Return the frames for entries of one ledger, without highest sequence ids.

        In numbers that follow each other, the first byte differs. The other bytes are encoded once in 128 frames.
        """
        if entries[0].ledger_id != self._ledger_id:
            self._begin(entries[0].ledger_id)
        head, place = self._head, self._ledger
        pieces: list[bytes] = []
        sequence_high = entry_high = -1
        for sequence, entry in zip(sequences, entries, strict=True):
            number = entry.entry_id
            if sequence >> 7 != sequence_high or number >> 7 != entry_high:
                sequence_high, entry_high = sequence >> 7, number >> 7
                sequence_firsts, sequence_rest = _encoded(sequence_high)
                entry_firsts, entry_rest = _encoded(entry_high)
                size = len(place) + 1 + len(entry_rest)
                start = _SHORT[len(head) + 1 + len(sequence_rest) + size + 4] + head
                middle = b"".join((sequence_rest, b"\x1a", _ONE[size], place))
                end = entry_rest + b"\x20\x00"
            pieces += (start, sequence_firsts[sequence & 127], middle, entry_firsts[number & 127], end)
        return b"".join(pieces)

    def _begin(self, ledger: int) -> None:
        """Compute the cached part for a different ledger."""
        self._ledger_id = ledger
        self._ledger = b"\x08" + push_varint(ledger) + b"\x10"


_lengths = Struct(">II").pack
_MESSAGE: Final = BY_NAME["MESSAGE"].number
_SIZES: Final = range(1, 11)
"""Possible sizes of a varint in bytes."""


class MessageFrameWriter:
    """Encoder of the MESSAGE frames to one consumer."""

    __slots__ = ("_consumer_id", "_heads", "_ledger", "_partition", "_tail")

    def __init__(self, consumer_id: int, partition: int) -> None:
        self._consumer_id = consumer_id
        self._partition = partition % (1 << 64)
        self._tail = b"\x18" + push_varint(self._partition)
        self._ledger = -1
        self._heads: list[tuple[int, bytes]] = []
        """For each size of the entry id: the size of the command, and the bytes of the command before the entry id."""

    def write(self, ledger: int, entry: int, count: int, data: bytes) -> bytes:
        """Return one frame that contains an entry; ``count`` is the redelivery count."""
        if count:
            return push_message(self._consumer_id, ledger, entry, self._partition, count, data)
        if ledger != self._ledger:
            self._begin(ledger)
        number = push_varint(entry)
        size, head = self._heads[len(number)]
        return b"".join((_lengths(size + 4 + len(data), size), head, number, self._tail, data))

    def write_run(self, entries: list[Entry]) -> list[bytes]:
        """Return the pieces of the frames that contain these entries, without redelivery counts."""
        pieces: list[bytes] = []
        high = length = -1
        for entry in entries:
            number, data = entry.entry_id, entry.data
            if number >> 7 != high or len(data) != length or entry.ledger_id != self._ledger:
                if entry.ledger_id != self._ledger:
                    self._begin(entry.ledger_id)
                high, length = number >> 7, len(data)
                firsts, rest = _encoded(high)
                size, head = self._heads[1 + len(rest)]
                start, end = _lengths(size + 4 + length, size) + head, rest + self._tail
            pieces += (start, firsts[number & 127], end, data)
        return pieces

    def _begin(self, ledger: int) -> None:
        """Compute the cached parts for a different ledger."""
        self._ledger = ledger
        place = b"\x08" + push_varint(ledger) + b"\x10"
        consumer = b"\x08" + push_varint(self._consumer_id) + b"\x12"
        self._heads = [(0, b"")]
        for length in _SIZES:
            inner = len(place) + length + len(self._tail)
            body = len(consumer) + 1 + inner
            head = b"".join(
                (bytes((8, _MESSAGE, _MESSAGE << 3 | 2)), push_varint(body), consumer, push_varint(inner), place)
            )
            self._heads.append((len(head) + length + len(self._tail), head))
