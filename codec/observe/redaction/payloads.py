"""Payloads as filler: as many bytes as there were, in as many messages, as well compressed, as little readable.

Rules of this file
1. A batch stays a batch: its messages are as many and as large, with their keys and properties redacted.
2. A compressed payload is opened, redacted, and compressed again. Filler that repeats itself would compress to
   nothing, so as much of it is noise as brings the size near the old one. One that does not open stays one.
3. A ciphertext is noise. So is a chunk of a compressed message, which cannot be opened without the others; of those
   the metadata loses the compression, or the message would look damaged.
4. Noise is made from sizes and places alone: the same payload, sent and delivered, has the same filler.
"""

from __future__ import annotations

from hashlib import shake_128
from typing import Final

from pcli.codec.observe.redaction.messages import redact_message
from pcli.codec.observe.redaction.name_pseudonyms import Names
from pcli.codec.payload.batch import MAX_BATCH, join_batch, split_batch
from pcli.codec.payload.chunks import is_chunk
from pcli.codec.payload.compression import compress, compression_kind, decompress
from pcli.codec.payload.encryption import is_encrypted
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

__all__ = ["redact_payload"]

_STEPS: Final = 5
"""Tries to meet the size of a compressed payload."""

_NEAR: Final = 0.03
"""How far from that size, as a part of it, is near enough."""


def redact_payload(metadata: pb.MessageMetadata, payload: bytes, names: Names) -> bytes:
    """The filler for a payload; ``metadata``, still as it came, is told the compression and size that it has now."""
    if is_encrypted(metadata):
        return _noise(len(payload))
    if is_chunk(metadata):
        metadata.ClearField("compression")
        metadata.ClearField("uncompressed_size")
        return _filler(len(payload), 0)
    kind = compression_kind(metadata)
    if kind == pb.NONE:
        return _plain(metadata, payload, names, 0)
    opened = decompress(kind, payload, metadata.uncompressed_size)
    if isinstance(opened, Problem):
        return b"\xff" * len(payload)
    plain, packed = _packed(kind, metadata, opened, names, len(payload))
    metadata.uncompressed_size = len(plain)
    return packed


def _packed(kind: int, metadata: pb.MessageMetadata, opened: bytes, names: Names, size: int) -> tuple[bytes, bytes]:
    """Filler for an opened payload, plain and compressed to about ``size`` bytes."""
    part = 0.0
    best = (b"", b"")
    for step in range(_STEPS):
        plain = _plain(metadata, opened, names, part)
        packed = compress(kind, plain)
        if not step or abs(len(packed) - size) < abs(len(best[1]) - size):
            best = plain, packed
        # Noise does not compress: so many bytes more of it are as many bytes more.
        part += (size - len(packed)) / max(1, len(opened))
        if abs(len(packed) - size) <= size * _NEAR or part <= 0:
            break
    return best


def _plain(metadata: pb.MessageMetadata, data: bytes, names: Names, noise: float) -> bytes:
    """Filler for a payload that is not compressed (any more): a message, or a batch as far as it can be split."""
    if not metadata.HasField("num_messages_in_batch"):
        return _filler(len(data), noise)
    pieces, _ = split_batch(data, metadata.num_messages_in_batch, most=max(MAX_BATCH, len(data)))
    messages = []
    for number, (single, start, end) in enumerate(pieces):
        redact_message(single, names)
        messages.append((single, _filler(end - start, noise, number)))
    rest = len(data) - (pieces[-1][2] if pieces else 0)
    return join_batch(messages) + b"x" * rest


def _filler(size: int, noise: float, number: int = 0) -> bytes:
    """Bytes of which that part is noise, another one for each number."""
    part = min(size, int(size * noise))
    return _noise(part, number) + b"x" * (size - part)


def _noise(size: int, number: int = 0) -> bytes:
    return shake_128(b"%d %d" % (size, number)).digest(size)
