"""Errors say whose fault it is: ours or our caller's, the peer's, or the capture's.

One root, one level. They are caught at the edge (a command, a connection) and nowhere in between.
"""

from __future__ import annotations

__all__ = ["CaptureError", "LocalError", "PcliError", "RemoteError"]


class PcliError(Exception):
    """Root of all errors that leave pcli's library.

    ``text`` is one line for a person; ``offset`` the byte in the input where it went wrong (None: nowhere
    in particular), already said in ``str(error)``.
    """

    def __init__(self, text: str, offset: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset

    def __str__(self) -> str:
        return self.text if self.offset is None else f"{self.text} (at byte {self.offset})"


class LocalError(PcliError):
    """The caller asked for something that makes no sense: a wrong filter, an unknown field, bad hex."""


class RemoteError(PcliError):
    """The peer sent bytes that the protocol does not allow."""


class CaptureError(PcliError):
    """The capture file itself is not readable from here on: cut, damaged, or no capture at all."""
