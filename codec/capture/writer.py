"""Writer of packets: a pcapng file with one section (draft-ietf-opsawg-pcapng).

Rules of this file
1. The file is little-endian, and times are in nanoseconds. An interface block for each link type and name precedes its
   first packet.
2. The output is complete after each call, so an interrupted file is valid.
3. Only the list of interfaces is kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import BinaryIO, Final

from pcli.codec.capture.packets import LEFT_OUT, Packet, Secrets

_APPLICATION: Final = "pcli"

_block = Struct("<II").pack
_word = Struct("<I").pack
_section = Struct("<IHHq").pack
_interface = Struct("<HHI").pack
_option = Struct("<HH").pack
_packet = Struct("<IIIII").pack


class PcapngWriter:
    """A writer of packets to a binary file object. The caller closes the file object."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._interfaces: dict[tuple[int, str], int] = {}
        # Version 1.0, with an unspecified section length; option 4 is the name of the writing program.
        self._write(0x0A0D0D0A, _section(0x1A2B3C4D, 1, 0, -1) + _push_options([(4, _APPLICATION.encode())]))

    def packet(self, packet: Packet, comments: Iterable[str] = ()) -> None:
        """Write a packet of any link type unchanged. The file contains no packet numbers: readers count packets.

        A comment longer than 65,535 bytes is cut.
        """
        number = self._interface(packet.link, packet.interface)
        stamp = packet.time_ns & 0xFFFFFFFFFFFFFFFF
        size = len(packet.data)
        head = _packet(number, stamp >> 32, stamp & 0xFFFFFFFF, size, max(packet.wire_length, size))
        texts = [LEFT_OUT] if packet.left_out else []
        texts += (text.encode("utf-8", "replace")[:0xFFFF] for text in comments)
        options = _push_options([(1, text) for text in texts]) if texts else b""
        self._write(6, head + _padded(packet.data) + options)

    def secrets(self, secrets: Secrets) -> None:
        """Write a block of decryption secrets, which must precede the packets that need it."""
        self._write(10, _block(secrets.kind, len(secrets.data)) + _padded(secrets.data))

    def _interface(self, link: int, name: str) -> int:
        key = (link, name)
        number = self._interfaces.get(key)
        if number is None:
            number = self._interfaces[key] = len(self._interfaces)
            # The packet size is unlimited. Option 2 is the name. Option 9 is the resolution: ten to the minus ninth.
            options = [(2, name.encode()[:0xFFFF])] if name else []
            self._write(1, _interface(link, 0, 0) + _push_options([*options, (9, b"\x09")]))
        return number

    def _write(self, kind: int, body: bytes) -> None:
        length = len(body) + 12
        self._file.write(_block(kind, length) + body + _word(length))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) & 3)


def _push_options(options: list[tuple[int, bytes]]) -> bytes:
    return b"".join(_option(code, len(value)) + _padded(value) for code, value in options) + _option(0, 0)
