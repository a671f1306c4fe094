"""Splitting and building of batches.

Rules of this file
1. A batch is a repetition of ``u32 size, SingleMessageMetadata, payload``; ``payload_size`` is the length of a payload
   (Commands.serializeSingleMessageInBatchWithPayload). The batch ends where its bytes end.
2. Splitting reads the lengths and records offsets. A payload is copied only on access.
3. The number of messages in the metadata is untrusted: it limits the loop, and no memory is allocated for that number.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

MAX_BATCH: Final = 100_000
"""Default limit on the messages split from one batch. Clients put at most 1,000 in a batch by default. If there were no
limit, a compressed entry of empty messages would exhaust memory: each takes six bytes in the batch and a few hundred in
memory."""

BatchMessage = tuple[pb.SingleMessageMetadata, int, int]
"""One message in a batch: its metadata, and the start and end of its payload in the batch."""

_u32 = Struct(">I")
_pull = _u32.unpack_from


def split_batch(
    data: bytes, count: int, missing: int = 0, most: int = MAX_BATCH
) -> tuple[list[BatchMessage], Problem | None]:
    """Return the complete messages in a batch, and the problem with the remaining bytes, or None.

    ``count`` is ``num_messages_in_batch``; ``missing`` is the number of the batch's bytes that the capture lacks.
    """
    pieces: list[BatchMessage] = []
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
    """Return the problem with the rest of a batch after ``split`` messages, or None if there is no rest."""
    if count < 0:
        return f"{count} messages"
    if split == count:
        return None if position == end else f"{end - position} bytes after the last of {count} messages"
    if missing:
        return f"{split} of {count} messages are complete; {missing} bytes are missing from the capture"
    if position == end:
        return f"{split} of {count} messages are complete; then the bytes end"
    if split == most:
        return f"only the first {split} of {count} messages are split"
    return f"message {split} of {count}, at byte {position} of {end}, has a wrong length or cannot be parsed"


def _next(data: bytes, position: int, end: int) -> tuple[int, int, pb.SingleMessageMetadata | None]:
    """Return the start and end of the next message's payload, and the message's metadata, or None if it is invalid."""
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
    """Return a batch of these messages in this order. ``payload_size`` is set on a copy of each metadata.

    The caller sets ``num_messages_in_batch`` in the metadata of the entry, even if it is 1: the presence of the field
    marks a batch. Raise LocalError for a payload of 2 GiB or more.
    """
    parts: list[bytes] = []
    for given, payload in messages:
        if len(payload) > 2**31 - 1:
            raise LocalError(f"a message of {len(payload)} bytes is too large for a batch")
        single = pb.SingleMessageMetadata()
        single.CopyFrom(given)
        single.payload_size = len(payload)
        head = single.SerializePartialToString()
        parts += (_u32.pack(len(head)), head, payload)
    return b"".join(parts)
