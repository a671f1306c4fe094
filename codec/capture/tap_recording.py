"""A capture of all that both ends of live connections say, as a sniffer between them would have made it.

Rules of this file
1. Nothing is cut: payloads and credentials are in the file as they were on the wire.
2. What was said is in the file at once; a broker or proxy that dies leaves a valid one.
3. Segments are as large as on the loopback of Linux: nothing there cuts them, and few packets are quickly written.
4. A disk that is full stops nobody: the capture ends there, and ``failure`` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final

from pcli.codec.capture.recorder import Conversation, TcpRecorder
from pcli.codec.capture.writer import PcapngWriter

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Address

__all__ = ["Recording"]

_MTU: Final = 65535
"""Bytes: the most that IPv4 can say; loopback's own is one more."""


class Recording:
    """The tap that writes a pcapng file."""

    def __init__(self, file: BinaryIO) -> None:
        """``file`` is the caller's to close. OSError when not even its head can be written."""
        self.failure: OSError | None = None
        """Why nothing is written any more."""
        self._file = file
        self._recorder = TcpRecorder(PcapngWriter(file), _MTU)
        self._talks: dict[int, Conversation] = {}
        file.flush()

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """A handshake."""

        def write() -> None:
            self._talks[number] = self._recorder.open(client, server, time_ns)

        self._write(write)

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Segments with data."""
        talk = self._talks.get(number)
        if talk is not None:
            self._write(lambda: self._recorder.data(talk, data, time_ns, from_client=from_client))

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """FIN or RST."""
        talk = self._talks.pop(number, None)
        if talk is not None:
            self._write(lambda: self._recorder.close(talk, time_ns, from_client=from_client, reset=reset))

    def _write(self, action: Callable[[], None]) -> None:
        if self.failure is None:
            try:
                action()
                self._file.flush()
            except OSError as fault:
                self.failure = fault
