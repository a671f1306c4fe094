"""IP headers and fragments from handwritten bytes; ``test_tunnels`` uses scapy."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture.ip import Fragments, Inner, pull_ip
from pcli.codec.capture.link import IPV4, IPV6


def ipv4(length, protocol=6, flags=0, header=0x45):
    return struct.pack(">BBHHHBBH4s4s", header, 0, length, 9, flags, 64, protocol, 0, b"\1\2\3\4", b"\5\6\7\x08")


def test_bytes_beyond_the_snap_length_are_counted():
    data = ipv4(120) + bytes(50)
    inner = pull_ip(data, IPV4, 0, len(data), 120)
    assert inner is not None
    assert (inner.start, inner.end, inner.missing) == (20, 70, 50)
    assert inner.addresses == b"\1\2\3\4\5\6\7\x08"


def test_padding_is_trimmed():
    data = ipv4(24) + b"data" + bytes(22)
    inner = pull_ip(data, IPV4, 0, len(data), len(data))
    assert inner is not None
    assert (inner.start, inner.end, inner.missing) == (20, 24, 0)


def test_invalid_headers():
    for data in (b"", ipv4(40)[:19], ipv4(19), ipv4(40, header=0x44), ipv4(40, header=0x4F), ipv4(40, header=0x55)):
        assert pull_ip(data, IPV4, 0, len(data), len(data)) is None
    assert pull_ip(b"\x60" + bytes(38), IPV6, 0, 39, 39) is None


def test_extension_headers_without_end():
    data = struct.pack(">IHBB16s16s", 0x60000000, 800, 0, 64, bytes(16), bytes(16)) + bytes(8) * 100
    inner = pull_ip(data, IPV6, 0, len(data), len(data))
    assert inner is None or inner.protocol != 6


@given(st.binary(max_size=120), st.sampled_from([IPV4, IPV6]), st.integers(0, 200))
def test_any_bytes(data, kind, more):
    inner = pull_ip(data, kind, 0, len(data), len(data) + more)
    if inner is not None:
        assert 0 <= inner.start <= inner.end <= len(data)
        assert inner.missing >= 0


@given(st.permutations(range(8)), st.binary(min_size=57, max_size=64))
def test_fragments_in_any_order(order, data):
    table, found = Fragments(), []
    for number in order:
        inner = Inner(bytes(8), 6, data, number * 8, min(number * 8 + 8, len(data)), 0)
        inner.fragment = (1, number * 8, number < 7)
        found.append(table.add(inner, number))
    assert [whole is None for whole in found] == [True] * 7 + [False]
    assert found[-1] is not None
    assert found[-1].data == data
    assert found[-1].packets == tuple(order)
