"""A tap that records live connections in a capture, like a sniffer between the two ends.

Rules of this file
1. Nothing is redacted: the file contains payloads and credentials as they were on the wire.
2. Bytes are written immediately, so the file is valid even if the broker or proxy is killed.
3. Segments are as large as on Linux's loopback interface. Fewer packets take less time to write.
4. A full disk does not stop the broker or proxy: the capture ends, and ``failure`` contains the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final

from pcli.codec.capture.recorder import Conversation, TcpRecorder
from pcli.codec.capture.writer import PcapngWriter

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Address

_MTU: Final = 65535
"""MTU in bytes: the largest IPv4 packet. The MTU of the loopback interface is one byte larger."""


class Recording:
    """The tap that writes a pcapng file."""

    def __init__(self, file: BinaryIO) -> None:
        """Write the file header. The caller closes ``file``. Raise OSError if the header cannot be written."""
        self.failure: OSError | None = None
        """Why recording stopped; None while it is active."""
        self._file = file
        self._recorder = TcpRecorder(PcapngWriter(file), _MTU)
        self._talks: dict[int, Conversation] = {}
        file.flush()

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """Record a handshake."""

        def write() -> None:
            self._talks[number] = self._recorder.open(client, server, time_ns)

        self._write(write)

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Record data segments."""
        conversation = self._talks.get(number)
        if conversation is not None:
            self._write(lambda: self._recorder.data(conversation, data, time_ns, from_client=from_client))

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """Record a FIN or RST."""
        conversation = self._talks.pop(number, None)
        if conversation is not None:
            self._write(lambda: self._recorder.close(conversation, time_ns, from_client=from_client, reset=reset))

    def _write(self, action: Callable[[], None]) -> None:
        if self.failure is None:
            try:
                action()
                self._file.flush()
            except OSError as fault:
                self.failure = fault
