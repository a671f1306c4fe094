"""Packets as records of a capture: Ethernet, IPv4, TCP with timestamps, in one pcap or the parts of a rotated one.

TCP checksums cover only the pseudo header, as in a capture on a host with checksum offload.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from load.segments import SYN, Packets

_HEAD = np.dtype([
    ("seconds", "<u4"), ("fraction", "<u4"), ("kept", "<u4"), ("wire", "<u4"),
    ("to", "V6"), ("from", "V6"), ("ethertype", ">u2"),
    ("version", "u1"), ("service", "u1"), ("length", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1"),
    ("protocol", "u1"), ("ip_sum", ">u2"), ("source", ">u4"), ("target", ">u4"),
    ("source_port", ">u2"), ("target_port", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("words", "u1"), ("flags", "u1"),
    ("window", ">u2"), ("tcp_sum", ">u2"), ("urgent", ">u2"),
    ("option", "V4"), ("stamp", ">u4"), ("echo", ">u4"),
])  # fmt: skip
RECORD = _HEAD.itemsize
"""Bytes of a record besides its data."""

_BROKER, _PORT = 10 << 24 | 255 << 16 | 1, 6650
_MACS = np.array([b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02"], "V6")
_MASK = 0xFFFFFFFF


def client_of(connection: Any) -> tuple[Any, Any]:
    """Return IP address and port of a connection's client. A host has eight clients."""
    return (10 << 24) + 1 + connection // 8, 40_000 + connection


def records(packets: Packets, data: bytes, *, micro: bool, number: int) -> tuple[bytes, Any]:
    """Return the bytes of all records, and their ends. ``number`` is the first IP identification."""
    count = len(packets)
    head = np.zeros(count, _HEAD)
    connection, back = packets.direction >> 1, packets.direction & 1
    host, port = client_of(connection)
    size = packets.size
    head["seconds"], fraction = packets.time_ns // 1_000_000_000, packets.time_ns % 1_000_000_000
    head["fraction"] = fraction // 1000 if micro else fraction
    head["kept"] = head["wire"] = size + RECORD - 16
    head["to"], head["from"], head["ethertype"] = _MACS[1 - back], _MACS[back], 0x0800
    head["version"], head["length"], head["id"] = 0x45, size + 52, (np.arange(count) + number) & 0xFFFF
    head["fragment"], head["ttl"], head["protocol"] = 0x4000, 64, 6
    head["source"], head["target"] = np.where(back, _BROKER, host), np.where(back, host, _BROKER)
    head["source_port"], head["target_port"] = np.where(back, _PORT, port), np.where(back, port, _PORT)
    head["seq"], head["ack"] = packets.seq & _MASK, packets.ack & _MASK
    head["words"], head["flags"], head["window"] = 0x80, packets.flags, 0xFFFF
    head["option"] = np.frombuffer(b"\x01\x01\x08\x0a", "V4")
    stamp = packets.time_ns // 1_000_000
    head["stamp"], head["echo"] = stamp & _MASK, np.where(packets.flags == SYN, 0, stamp - 1 & _MASK)
    addresses = (host >> 16) + (host & 0xFFFF) + (_BROKER >> 16) + (_BROKER & 0xFFFF)
    ip = 0x4500 + head["length"].astype(np.int64) + head["id"] + 0x4000 + 0x4006 + addresses
    head["ip_sum"] = ~_folded(ip) & 0xFFFF
    head["tcp_sum"] = _folded(addresses + 6 + size + 32)
    return _joined(head.tobytes(), packets, data), np.cumsum(size + RECORD)


def _folded(total: Any) -> Any:
    total = (total & 0xFFFF) + (total >> 16)
    return (total & 0xFFFF) + (total >> 16)


def _joined(heads: bytes, packets: Packets, data: bytes) -> bytes:
    view = memoryview(data)
    pieces: list[Any] = []
    at = 0
    for start, size in zip(packets.start.tolist(), packets.size.tolist()):
        pieces.append(heads[at : at + RECORD])
        if size:
            pieces.append(view[start : start + size])
        at += RECORD
    return b"".join(pieces)


class Files:
    """The capture: one file, or parts of limited size with names as dumpcap's."""

    def __init__(self, folder: Path, name: str, *, rotate: int, micro: bool) -> None:
        self.folder, self.name, self.rotate, self.micro = folder, name, rotate, micro
        self.paths: list[Path] = []
        self.written = 0
        self._file: BinaryIO | None = None
        self._room = 0
        self._fresh = True

    def write(self, data: bytes, ends: Any) -> None:
        """Write records, given their ends."""
        view = memoryview(data)
        done, row = 0, 0
        while row < len(ends):
            self._ready()
            fitting = int(np.searchsorted(ends, done + self._room, side="right")) if self.rotate else len(ends)
            # A file has at least one record.
            last = max(fitting, row + 1) if self._fresh else max(fitting, row)
            if last > row:
                self._put(view[done : int(ends[last - 1])])
                done, row = int(ends[last - 1]), last
            if row < len(ends):
                self.close()

    def _put(self, data: memoryview) -> None:
        assert self._file is not None
        self._file.write(data)
        self._room -= len(data)
        self.written += len(data)
        self._fresh = False

    def _ready(self) -> None:
        if self._file is not None:
            return
        path = self.folder / (f"{self.name}_{len(self.paths) + 1:05}.pcap" if self.rotate else f"{self.name}.pcap")
        self.paths.append(path)
        self._file = path.open("wb")
        magic = 0xA1B2C3D4 if self.micro else 0xA1B23C4D
        self._file.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 262_144, 1))
        self.written += 24
        self._room, self._fresh = self.rotate - 24, True

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.close()
        self._file = None
