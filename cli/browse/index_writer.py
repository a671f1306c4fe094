"""The writer of a frame index: it appends one row for each observed frame.

Rules of this file
1. Rows are written in blocks. `flush` makes all rows visible to readers.
2. The bytes of a frame are copied only if `PacketPositions` does not find them in a capture file.
3. Memory does not grow with the number of frames, only with the number of connections, producers and consumers.
"""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import google_crc32c

from pcli.cli.browse.frame_index import (
    CLIENT,
    COLUMNS,
    CUMULATIVE,
    EXTRA,
    LARGE_TYPE,
    NO_ID,
    SEVERAL_IDS,
    SYNC_SHIFT,
    SYNCS,
    SYSTEM,
    Peer,
    Tables,
)
from pcli.cli.browse.packet_positions import PacketPositions, Part
from pcli.codec.observe.observer_state import Consumer, Producer
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.frame import SEND
from pcli.codec.wire.message_id import position

if TYPE_CHECKING:
    from pcli.codec.capture import CapturedFrame
    from pcli.codec.observe import Facts

_BLOCK: Final = 4096
"""Rows per write."""

_TYPE_CODES: Final = {"u8": "Q", "i8": "q", "u4": "I", "i4": "i", "u1": "B"}
_SYNC_BITS: Final = {name: place << SYNC_SHIFT for place, name in enumerate(SYNCS)}
_MESSAGE: Final = BY_NAME["MESSAGE"].number
_RECEIPT: Final = BY_NAME["SEND_RECEIPT"].number
_ACK: Final = BY_NAME["ACK"].number
_SIGN: Final = 1 << 63
_u32 = Struct("<I")


class _Column:
    """A column file that is appended to."""

    def __init__(self, path: Path, kind: str) -> None:
        self._file = path.open("wb", buffering=0)
        self.values = array(_TYPE_CODES[kind])
        self.size = self.crc = 0

    def flush(self) -> None:
        data = self.values.tobytes()
        self._file.write(data)
        self.size += len(data)
        self.crc = google_crc32c.extend(self.crc, data)
        del self.values[:]

    def close(self) -> None:
        self._file.close()


class IndexWriter:
    """A writer of an index to an existing empty folder."""

    def __init__(self, folder: Path, tables: Tables) -> None:
        self.folder = folder
        self.tables = tables
        self.count = 0
        """Number of rows on disk."""
        self._columns = {name: _Column(folder / name, kind) for name, kind in COLUMNS.items()}
        self._adders = [column.values.append for column in self._columns.values()]
        self._bytes = cast(BinaryIO, (folder / "bytes").open("wb", buffering=0))
        self._bytes_size = self._bytes_crc = 0
        self._peers: dict[Peer, int] = {}
        self._waiting = 0
        self.positions = PacketPositions(self._source_number)

    def _source_number(self, path: str) -> int:
        self.tables.sources.append(path)
        return len(self.tables.sources) - 1

    def add(self, facts: Facts) -> None:
        """Append the row of a frame."""
        frame = cast("CapturedFrame", facts.frame)
        stream = frame.stream
        if stream.number not in self.tables.streams:
            self.tables.streams[stream.number] = stream
        ledger, entry, cumulative = _message_id(facts)
        source, offset, size, extra = self._place(frame)
        flags = (
            (CLIENT if frame.from_client else 0)
            | (SYSTEM if facts.system else 0)
            | (CUMULATIVE if cumulative else 0)
            | (EXTRA if extra else 0)
            | _SYNC_BITS[frame.sync]
        )
        peer = 0 if facts.peer is None else self._peer(facts.peer)
        time_ns = min(max(frame.time_ns, -_SIGN), _SIGN - 1)
        number = frame.type if frame.type < LARGE_TYPE else LARGE_TYPE
        values = (frame.packet, time_ns, stream.number, peer, number, flags, facts.request_number)
        for add, value in zip(self._adders, (*values, ledger, entry, source, offset, size)):
            add(value)
        self._waiting += 1
        if self._waiting >= _BLOCK:
            self.flush()

    def _peer(self, peer: Producer | Consumer) -> int:
        """Return the number of a peer with its present names. The last number is kept in its record."""
        known = peer.record
        if known is not None and known[0] == peer.name and known[1] == peer.system:
            return int(known[2])
        consumer = isinstance(peer, Consumer)
        subscription, kind = (peer.subscription, peer.type) if isinstance(peer, Consumer) else ("", "")
        key = Peer(consumer, peer.id, peer.topic, subscription, peer.name, kind, peer.system)
        number = self._peers.get(key)
        if number is None:
            self.tables.peers.append(key)
            number = self._peers[key] = len(self.tables.peers) - 1
        peer.record = (peer.name, peer.system, number)
        return number

    def _place(self, frame: CapturedFrame) -> tuple[int, int, int, bool]:
        """Return source, offset and size of the frame's bytes, and whether the copied bytes have a header."""
        parts = self.positions.find(frame)
        plain = not frame.capture_problems and len(frame.packets) == 1
        if plain and len(parts) == 1:
            return *parts[0], False
        start = self._bytes_size
        if plain:
            self._copy(frame.data)
            return 0, start, len(frame.data), False
        self._copy(_push_extra(frame, parts))
        return 0, start, self._bytes_size - start, True

    def _copy(self, data: bytes) -> None:
        self._bytes.write(data)
        self._bytes_size += len(data)
        self._bytes_crc = google_crc32c.extend(self._bytes_crc, data)

    def flush(self) -> None:
        """Write all rows to disk."""
        for column in self._columns.values():
            column.flush()
        self.count += self._waiting
        self._waiting = 0

    def checksums(self) -> dict[str, list[int]]:
        """Return the size and the CRC-32C of each file."""
        found = {name: [column.size, column.crc] for name, column in self._columns.items()}
        return found | {"bytes": [self._bytes_size, self._bytes_crc]}

    def close(self) -> None:
        """Write all rows and close the files."""
        self.flush()
        for column in self._columns.values():
            column.close()
        self._bytes.close()
        self.positions.close()


def _message_id(facts: Facts) -> tuple[int, int, bool]:
    """Return ledger and entry of a frame's message id, and whether it is a cumulative acknowledgement."""
    number, command = facts.frame.type, facts.frame.command
    if number == _MESSAGE and not command.message.ack_set:
        return *position(command.message.message_id), False
    if number == _RECEIPT:
        return *position(command.send_receipt.message_id), False
    if number == _ACK and len(command.ack.message_id) == 1 and not command.ack.HasField("txnid_most_bits"):
        [one] = command.ack.message_id
        if not one.ack_set:
            return *position(one), command.ack.ack_type == command.ack.Cumulative
    row = COMMANDS.get(number)
    if row is None or "message_id" not in row.ids or (number == SEND and not command.send.HasField("message_id")):
        return NO_ID, 0, False
    return SEVERAL_IDS, 0, False


def _push_extra(frame: CapturedFrame, parts: list[Part]) -> bytes:
    """Return the header of a frame, followed by its bytes unless the header contains their positions."""
    header: dict[str, Any] = {"packets": frame.packets}
    if frame.capture_problems:
        header["problems"] = frame.capture_problems
    if parts:
        header["parts"] = parts
    text = json.dumps(header, separators=(",", ":")).encode()
    return _u32.pack(len(text)) + text + (b"" if parts else frame.data)


def pull_extra(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the bytes after it. Raises ValueError if the header is damaged."""
    if len(data) < 4:
        raise ValueError("the header is incomplete")
    end = 4 + _u32.unpack_from(data)[0]
    return json.loads(data[4:end]), data[end:]
