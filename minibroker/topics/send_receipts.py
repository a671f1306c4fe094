"""SEND_RECEIPT frames, encoded on the hot path: one for each published message.

Rules of this file
1. The bytes are equal to those from `codec.wire.hot.push_send_receipt`; a test compares them.
2. Constant parts are cached: the producer id, the ledger id, and the length prefixes.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.hot import push_send_receipt, push_varint

__all__ = ["SendReceiptWriter"]

_two_lengths = Struct(">II").pack
_TYPE: Final = BY_NAME["SEND_RECEIPT"].number

_ONE: Final = [bytes([value]) for value in range(128)]
_SHORT: Final = [_two_lengths(size + 8, size + 4) + bytes((8, _TYPE, _TYPE << 3 | 2, size)) for size in range(128)]
"""The start of a frame, for each size of its body."""


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
            self._ledger_id = ledger
            self._ledger = b"\x08" + push_varint(ledger) + b"\x10"
        head, place = self._head, self._ledger
        number, within, last = push_varint(sequence), push_varint(entry), push_varint(highest)
        size = len(place) + len(within)
        start = _SHORT[len(head) + len(number) + size + len(last) + 3]
        return b"".join((start, head, number, b"\x1a", _ONE[size], place, within, b"\x20", last))
