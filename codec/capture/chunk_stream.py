"""A stream of chunks of bytes, for the readers of compression formats."""

from __future__ import annotations

from collections.abc import Iterator


class StreamEndedError(Exception):
    """Raised at the end of the data. The modules that use the stream catch it."""


class ChunkStream:
    """A stream of chunks with a known position."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces
        self.rest = b""
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return exactly ``count`` bytes."""
        parts, size = [self.rest], len(self.rest)
        while size < count:
            piece = next(self.pieces, b"")
            if not piece:
                self.rest = b"".join(parts)
                raise StreamEndedError
            parts.append(piece)
            size += len(piece)
        whole = b"".join(parts) if len(parts) > 1 else self.rest
        self.rest = whole[count:]
        self.position += count
        return whole[:count]

    def ended(self) -> bool:
        """Whether all data was read."""
        if not self.rest:
            self.rest = next(self.pieces, b"")
        return not self.rest
