"""Replacement of payloads by filler with about the same size, number of messages and compression ratio.

Rules of this file
1. A batch is replaced by a batch with the same number and sizes of messages. Keys and properties are redacted.
2. A compressed payload is decompressed, redacted, and compressed again. Part of the filler is noise, because repetitive
   filler alone would compress to almost nothing. A corrupt payload remains corrupt.
3. A ciphertext is replaced by noise. A chunk of a compressed message cannot be decompressed alone and is replaced by
   filler. The compression is removed from its metadata, because the message would otherwise appear corrupt.
4. Noise depends only on sizes and positions: a payload has the same filler when it is sent and when it is delivered.
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

_STEPS: Final = 5
"""Maximum number of attempts to match the size of a compressed payload."""

_NEAR: Final = 0.03
"""Accepted difference from the original compressed size, as a fraction."""


def redact_payload(metadata: pb.MessageMetadata, payload: bytes, names: Names) -> bytes:
    """Return the filler for a payload, and set compression and size in the metadata, which is not redacted yet."""
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
    """Return filler for a decompressed payload, plain and compressed to about ``size`` bytes."""
    part = 0.0
    best = (b"", b"")
    for step in range(_STEPS):
        plain = _plain(metadata, opened, names, part)
        packed = compress(kind, plain)
        if not step or abs(len(packed) - size) < abs(len(best[1]) - size):
            best = plain, packed
        # Each byte of noise, which is incompressible, adds about one compressed byte.
        part += (size - len(packed)) / max(1, len(opened))
        if abs(len(packed) - size) <= size * _NEAR or part <= 0:
            break
    return best


def _plain(metadata: pb.MessageMetadata, data: bytes, names: Names, noise: float) -> bytes:
    """Return filler for an uncompressed payload: a message, or a batch as far as it can be split."""
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
    """Return filler with noise in the proportion ``noise``. The noise differs for each ``number``."""
    part = min(size, int(size * noise))
    return _noise(part, number) + b"x" * (size - part)


def _noise(size: int, number: int = 0) -> bytes:
    return shake_128(b"%d %d" % (size, number)).digest(size)
