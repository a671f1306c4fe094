"""The kind of a stream, determined from its first bytes."""

from __future__ import annotations

import struct

import pytest

from pcli.codec.capture.stream_kind_by_bytes import pull_proxy, sniff

V2 = b"\r\n\r\n\0\r\nQUIT\n"
TLS_HELLO = b"\x16\x03\x01\x00\x05hello"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (TLS_HELLO, "tls"),
        (b"\x17\x03\x03\x00\x04data\x17\x03\x03", "tls"),
        (b"\x16\x03\x01\xff\xff" + bytes(20), "other"),
        (b"\x17\x03\x03\x00\x04data\x99\x03\x03\x00", "other"),
        (b"GET /admin/v2/clusters HTTP/1.1\r\n", "http"),
        (b"HTTP/1.1 400 Bad Request\r\n", "http"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http"),
        (b"CONNECT broker:6650 HTTP/1.1\r\n", "http"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "proxy"),
        (V2 + b"\x21\x11\x00\x0c" + bytes(12), "proxy"),
        (b"SSH-2.0-OpenSSH_9.2p1", "other"),
        (bytes(40), "other"),
        (b"\xff" * 12, "other"),
        (b"G", ""),
        (b"\x00\x00\x00", ""),
        (b"\x16\x03", ""),
        (b"xy", "other"),
    ],
)
def test_kinds_by_first_bytes(data, kind):
    assert sniff(data, final=False) == kind


def test_a_frame_needs_its_first_twelve_bytes(w):
    for size in range(1, 12):
        assert sniff(w.connect[:size], final=False) == ""
    assert sniff(w.connect[:12], final=False) == "pulsar"
    assert sniff(w.ping, final=False) == "pulsar"


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", "192.168.0.1:56324 to 192.168.0.11:443"),
        (b"PROXY TCP6 ::1 ::2 1 2\r\n", "::1:1 to ::2:2"),
        (b"PROXY UNKNOWN\r\n", "UNKNOWN"),
        (V2 + b"\x21\x11\x00\x0c\x0a\0\0\x01\x0a\0\0\x02\x12\x34\x1a\x0a", "10.0.0.1:4660 to 10.0.0.2:6666"),
        (V2 + b"\x21\x21" + struct.pack(">H", 36) + bytes(15) + b"\1" + bytes(15) + b"\2\0\5\0\6", "::1:5 to ::2:6"),
        (V2 + b"\x20\x00\x00\x00", "no addresses"),
        (V2 + b"\x21\x31\x00\x02ab", "no addresses"),
    ],
)
def test_proxy_headers(header, text):
    assert pull_proxy(header + b"more") == (len(header), text)
    for size in range(16, len(header)):
        assert pull_proxy(header[:size]) is None


def test_incomplete_proxy_headers():
    assert pull_proxy(b"PROXY " + b"x" * 200) == (0, "")
    assert pull_proxy(V2 + b"\x21\x11\xff\xff") == (0, "")
