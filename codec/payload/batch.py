"""The messages inside a batch: out of its bytes, and into them.

Rules of this file
1. A batch is ``u32 size, SingleMessageMetadata, payload`` again and again; ``payload_size`` says where a payload
   ends (Commands.serializeSingleMessageInBatchWithPayload). Nothing says where the batch ends but its bytes.
2. Splitting walks the lengths and keeps offsets: a payload is copied when somebody asks for it.
3. The number of messages that the metadata announces is never believed: it bounds the walk and nothing is made
   from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

__all__ = ["MAX_BATCH", "Piece", "join_batch", "split_batch"]

MAX_BATCH: Final = 100_000
"""Messages of one batch that are split, unless the caller says otherwise. Clients stop at 1,000 by default; six bytes
make a message, and a few hundred in memory, so a compressed entry of empty ones would be a bomb of its own."""

Piece = tuple[pb.SingleMessageMetadata, int, int]
"""One message of a batch: its metadata, and where its payload begins and ends in the batch's bytes."""

_u32 = Struct(">I")
_pull = _u32.unpack_from


def split_batch(data: bytes, count: int, missing: int = 0, most: int = MAX_BATCH) -> tuple[list[Piece], Problem | None]:
    """The messages of a batch that are whole, and what is wrong with the rest.

    ``count`` is ``num_messages_in_batch``; ``missing`` the bytes of the batch that the capture has not.
    """
    pieces: list[Piece] = []
    position, end = 0, len(data)
    while len(pieces) < min(count, most) and position < end:
        start, stop, single = _next(data, position, end)
        if single is None:
            break
        pieces.append((single, start, stop))
        position = stop
    wrong = _rest(len(pieces), count, most, position, end, missing)
    return pieces, None if wrong is None else Problem("batch", wrong)


def _rest(split: int, count: int, most: int, position: int, end: int, missing: int) -> str | None:
    """What is to be said of the rest when ``split`` messages have been split; None: there is none."""
    if count < 0:
        return f"{count} messages"
    if split == count:
        return None if position == end else f"{end - position} bytes after the last of {count} messages"
    if missing:
        return f"{split} of {count} messages are complete, {missing} bytes are missing in the capture"
    if position == end:
        return f"{split} of {count} messages, then its bytes end"
    if split == most:
        return f"{count} messages, split are the first {split}"
    return f"message {split} of {count}, at byte {position} of {end}, has a wrong length or cannot be parsed"


def _next(data: bytes, position: int, end: int) -> tuple[int, int, pb.SingleMessageMetadata | None]:
    """Where the payload of the message at ``position`` begins and ends, and its metadata; None if it is not whole."""
    start = position + 4
    if start > end:
        return 0, 0, None
    stop = start + _pull(data, position)[0]
    if stop > end:
        return 0, 0, None
    try:
        single = pb.SingleMessageMetadata.FromString(data[start:stop])
    except DecodeError:
        return 0, 0, None
    size = single.payload_size
    if size < 0 or stop + size > end or not single.HasField("payload_size"):
        return 0, 0, None
    return stop, stop + size, single


def join_batch(messages: Iterable[tuple[pb.SingleMessageMetadata, bytes]]) -> bytes:
    """A batch of these messages, in this order. ``payload_size`` is set here, on a copy; the rest is the caller's.

    The caller writes ``num_messages_in_batch`` into the metadata of the entry, also when it is 1: a batch of one is
    known by the field's being there. LocalError: a payload of 2 GiB or more.
    """
    parts: list[bytes] = []
    for given, payload in messages:
        if len(payload) > 2**31 - 1:
            raise LocalError(f"a message of {len(payload)} bytes does not go into a batch")
        single = pb.SingleMessageMetadata()
        single.CopyFrom(given)
        single.payload_size = len(payload)
        head = single.SerializePartialToString()
        parts += (_u32.pack(len(head)), head, payload)
    return b"".join(parts)
