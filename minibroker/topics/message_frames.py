"""MESSAGE frames, encoded on the hot path: one for each delivered entry.

Rules of this file
1. The bytes are equal to those from protobuf; a test compares them. A real broker always writes the partition: -1, in
   ten bytes, if the topic is not a partition.
2. Constant parts are cached: consumer id, ledger id, partition, and the length prefixes for each size of entry id.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.hot import push_message, push_varint

__all__ = ["MessageFrameWriter"]

_two_lengths = Struct(">II").pack
_TYPE: Final = BY_NAME["MESSAGE"].number
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
        return b"".join((_two_lengths(size + 4 + len(data), size), head, number, self._tail, data))

    def _begin(self, ledger: int) -> None:
        """Compute the cached parts for a different ledger."""
        self._ledger = ledger
        place = b"\x08" + push_varint(ledger) + b"\x10"
        consumer = b"\x08" + push_varint(self._consumer_id) + b"\x12"
        self._heads = [(0, b"")]
        for length in _SIZES:
            inner = len(place) + length + len(self._tail)
            body = len(consumer) + 1 + inner
            head = b"".join((bytes((8, _TYPE, _TYPE << 3 | 2)), push_varint(body), consumer, push_varint(inner), place))
            self._heads.append((len(head) + length + len(self._tail), head))
