"""Drawn captures of what real ones lack: only UDP, unknown link types, other protocols, one packet, empty files."""

from __future__ import annotations

import io
import struct
from typing import Any

from hypothesis import strategies as st

from pcli.codec.capture import Packet, PcapngWriter
from tests.codec.capture.foreign_traffic import CONNECTIONS, CONTENTS, Foreign

_MACS = b"\2\0\0\0\0\1\2\0\0\0\0\2"
_PING = b"\0\0\0\x09\0\0\0\5\x08\x12\x92\1\0"
_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)


def _ipv4(protocol: int, data: bytes) -> bytes:
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(data), 1, 0x4000, 64, protocol, 0)
    return _MACS + b"\x08\0" + header + b"\x0a\0\0\x01\x0a\0\0\x02" + data


def _ipv6(protocol: int, data: bytes) -> bytes:
    header = struct.pack(">IHBB", 6 << 28, len(data), protocol, 64)
    return _MACS + b"\x86\xdd" + header + bytes(15) + b"\1" + bytes(15) + b"\2" + data


def _udp(port: int, data: bytes) -> bytes:
    return struct.pack(">HHHH", 40_000, port, 8 + len(data), 0) + data


_DATAGRAMS = st.builds(
    lambda network, port, data: (1, network(17, _udp(port, data))),
    st.sampled_from([_ipv4, _ipv6]),
    st.sampled_from([53, 2152, 4789, 4790, 6650]),
    CONTENTS,
)
"""DNS, the ports of tunnels, and Pulsar's port."""
_NO_TCP = st.builds(
    lambda network, protocol, data: (1, network(protocol, data)),
    st.sampled_from([_ipv4, _ipv6]),
    st.sampled_from([1, 4, 41, 47, 58, 132, 255]),
    st.binary(max_size=40),
)
"""ICMP, tunnels with random content, SCTP."""
_OTHER_LINKS = st.tuples(st.sampled_from([0, 1, 9, 101, 113, 127, 147, 258, 276, 40_000]), st.binary(max_size=60))
_CUT = st.builds(lambda whole, size: (1, whole[:size]), st.just(_ipv4(6, bytes(20) + _PING)), st.integers(0, 66))

_FOREIGN = st.builds(lambda talks: [(1, one.data) for one in Foreign(talks).packets], CONNECTIONS)
_PACKETS = st.one_of(
    st.lists(_DATAGRAMS, max_size=40),
    st.lists(st.one_of(_DATAGRAMS, _NO_TCP, _OTHER_LINKS, _CUT), max_size=40),
    st.lists(st.one_of(_DATAGRAMS, _NO_TCP, _OTHER_LINKS, _CUT), min_size=1, max_size=1),
    st.builds(lambda foreign, others: foreign[:20] + others, _FOREIGN, st.lists(_OTHER_LINKS, max_size=5)),
)
"""The link type and the bytes of each packet."""


def _pcapng(packets: list[tuple[int, bytes]]) -> bytes:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for number, (link, data) in enumerate(packets, 1):
        writer.packet(Packet(number, number * 1_000_000, link, data, len(data)))
    return file.getvalue()


def _pcap(packets: list[tuple[int, bytes]]) -> bytes:
    """Return a file with the link type of the first packet."""
    link = packets[0][0] if packets else 1
    records = [struct.pack("<IIII", 1, number, len(data), len(data)) + data for number, (_, data) in enumerate(packets)]
    return _FILE_HEADER[:20] + struct.pack("<I", link) + b"".join(records)


_FILES: Any = st.one_of(
    st.builds(_pcapng, _PACKETS), st.builds(_pcap, _PACKETS), st.sampled_from([_FILE_HEADER, _pcapng([])])
)
CAPTURES = st.lists(_FILES, min_size=1, max_size=3)
"""The files of a capture."""
