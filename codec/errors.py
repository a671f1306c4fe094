"""Errors by origin: the caller or pcli itself, the peer, or the capture.

There is one root class with one level of subclasses. Only the outermost caller, a command or a connection, catches
them.
"""

from __future__ import annotations


class PcliError(Exception):
    """Root of all errors that leave pcli's library.

    ``text`` is a one-line message. ``offset`` is the byte position of the failure in the input, or None if there is
    none. ``str(error)`` includes the offset.
    """

    def __init__(self, text: str, offset: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset

    def __str__(self) -> str:
        return self.text if self.offset is None else f"{self.text} (at byte {self.offset})"


class LocalError(PcliError):
    """An invalid request by the caller: a wrong filter, an unknown field or invalid hex."""


class RemoteError(PcliError):
    """A violation of the protocol by the peer."""


class CaptureError(PcliError):
    """A capture file that cannot be read beyond a position: truncated, damaged, or not a capture."""
