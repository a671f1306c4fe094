"""Link layers from handwritten bytes; ``test_tunnels`` uses scapy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture.link import IPV4, IPV6, LINKS


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
        (0, b"\x02\0\0"),
        (0, b"\x07\0\0\0"),
        (1, bytes(13)),
        (1, bytes(12) + b"\x08\x06" + bytes(20)),
        (1, bytes(12) + b"\x81\x00\x00\x01" * 40),
        (101, b""),
        (101, b"\x75"),
        (113, bytes(15)),
        (276, bytes(19)),
    ],
)
def test_packets_without_ip(link, data):
    assert LINKS[link](data, 0, len(data)) is None


@given(st.sampled_from(sorted(LINKS)), st.binary(max_size=80))
def test_any_bytes(link, data):
    place = LINKS[link](data, 0, len(data))
    assert place is None or place[0] in (IPV4, IPV6)
