"""Link layers from handwritten bytes; ``test_tunnels`` uses scapy."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture.link import CUT, IPV4, IPV6, LINKS, UNKNOWN

PKTAP = struct.pack("<III", 108, 1, 1) + bytes(96)
ETHERNET = bytes(12) + b"\x08\0"
NFLOG = b"\x02\0\0\x64" + b"\x08\0\1\0\x08\0\2\0" + b"\5\0\x0a\0\0\0\0\0"


@pytest.mark.parametrize(
    ("link", "header", "kind"),
    [
        (0, b"\x02\0\0\0", IPV4),
        (0, b"\0\0\0\x02", IPV4),
        (0, b"\x18\0\0\0", IPV6),
        (0, b"\0\0\0\x1c", IPV6),
        (108, b"\0\0\0\x1e", IPV6),
        (1, bytes(12) + b"\x08\x00", IPV4),
        (1, bytes(12) + b"\x81\x00\x00\x07\x86\xdd", IPV6),
        (1, bytes(12) + b"\x91\x00\x00\x07\x88\xa8\0\0\x81\0\0\1\x08\0", IPV4),
        (113, bytes(14) + b"\x08\x00", IPV4),
        (276, b"\x86\xdd" + bytes(18), IPV6),
        (1, bytes(12) + b"\x89\x26\0\1\0\2\x08\0", IPV4),
        (1, bytes(12) + b"\x89\x3f\0\1\0\2\0\3\x86\xdd", IPV6),
        (9, b"\xff\x03\0\x21", IPV4),
        (9, b"\0\x57", IPV6),
        (9, b"\x21", IPV4),
        (50, b"\x0f\0\x08\0", IPV4),
        (51, b"\x11\0\0\1\0\x40\0\x21", IPV4),
        (104, b"\x8f\0\x86\xdd", IPV6),
        (117, b"\x3d\x02" + bytes(62), IPV4),
        (147, PKTAP + ETHERNET, IPV4),
        (149, PKTAP + ETHERNET, IPV4),
        (166, b"\1\x03\0\x21", IPV4),
        (204, b"\1\xff\x03\0\x57", IPV6),
        (219, b"\0\0\1\x40", IPV4),
        (239, NFLOG + b"\x40\0\x09\0", IPV4),
        (239, b"\x02\0\0\x64" + b"\0\x08\0\1\x08\0\2\0" + b"\0\x40\0\x09", IPV4),
        (258, PKTAP + ETHERNET, IPV4),
        (258, struct.pack("<III", 156, 1, 12) + bytes(144), IPV4),
        (228, b"", IPV4),
        (229, b"", IPV6),
    ],
)
def test_ip_header_positions(link, header, kind):
    data = b"before" + header + b"\x45" + bytes(30)
    assert LINKS[link](data, 6, len(data)) == (kind, 6 + len(header))


@pytest.mark.parametrize(
    ("link", "data"),
    [
        (0, b"\x07\0\0\0"),
        (1, bytes(12) + b"\x08\x06" + bytes(20)),
        (1, bytes(12) + b"\x81\x00\x00\x01" * 40),
        (9, b"\xff\x03\xc0\x21"),
        (101, b"\x75"),
        (258, struct.pack("<III", 108, 0, 1) + bytes(96)),
    ],
)
def test_packets_without_ip(link, data):
    assert LINKS[link](data, 0, len(data)) is None


@pytest.mark.parametrize("link", sorted(set(LINKS) - {147, 149, 228, 229}))
def test_packets_that_end_inside_the_link_header(link):
    whole = {258: PKTAP + ETHERNET, 239: NFLOG + b"\x40\0\x09\0", 1: ETHERNET, 113: bytes(16), 276: bytes(20)}
    header = whole.get(link, b"\x02")
    for size in range(len(header) if len(header) > 1 else 1):
        assert LINKS[link](header[:size], 0, size) == (CUT, 0)


@pytest.mark.parametrize("header", [struct.pack("<III", size, 1, 1) + bytes(96) for size in (0, 107, 109, 0xFFFFFFFF)])
def test_pktap_headers_of_a_wrong_size(header):
    assert LINKS[258](header, 0, len(header)) == (CUT, 0)


def test_unknown_link_types_inside_others():
    other = struct.pack("<III", 108, 1, 127) + bytes(96)
    assert LINKS[258](other, 0, len(other)) == (UNKNOWN, 127)
    assert LINKS[147](other, 0, len(other)) == (UNKNOWN, 147)


@given(st.sampled_from(sorted(LINKS)), st.binary(max_size=80))
def test_any_bytes(link, data):
    place = LINKS[link](data, 0, len(data))
    assert place is None or place[0] in (IPV4, IPV6, CUT, UNKNOWN)
