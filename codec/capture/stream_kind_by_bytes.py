"""The kind of a stream by its first bytes. This module does not consider ports.

Rules of this file
1. A verdict is a word; an empty string means that more bytes are needed. If ``final`` is set, no more bytes follow,
   and the verdict is based on the available bytes.
2. A table lists possible beginnings; the first match determines the kind.
3. A header of HAProxy's PROXY protocol (v1 is a line of text, and v2 is binary) precedes the stream's protocol. Its
   length and content are returned, and the caller classifies the bytes after it.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from struct import Struct
from typing import Final

from pcli.codec.capture.command_start_patterns import TAGS

_MAX_FRAME: Final = 1 << 28

_TLS: Final = re.compile(rb"[\x14-\x17]\x03[\x00-\x04]")
"""A TLS record: content type and version. In the middle of a connection, a record usually contains application data."""
_MAX_RECORD: Final = 5 + 16384 + 2048
_HTTP: Final = re.compile(rb"(?:GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH|CONNECT|TRACE) [ -~]|HTTP/[12]|PRI \* HTTP/2")
_HTTP_STARTS: Final = (
    b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"TRACE ", b"HTTP/", b"PRI ",
)  # fmt: skip
_PROXY_V1: Final = b"PROXY "
_PROXY_V2: Final = b"\r\n\r\n\0\r\nQUIT\n"
_MAX_V1: Final = 107
"""The longest line of version 1, line end included."""

_MAX_V2: Final = 4096
"""Maximum size of a version 2 header, larger than any header in practice; the format allows 64 KB."""

_u16 = Struct(">H").unpack_from
_two = Struct(">II").unpack_from


def sniff(data: bytes, *, final: bool) -> str:
    """Return pulsar, tls, http, proxy or other, or an empty string if more bytes are needed."""
    if _is_tls(data):
        return "tls"
    if _HTTP.match(data):
        return "http"
    if data.startswith((_PROXY_V1, _PROXY_V2)):
        return "proxy"
    if len(data) >= 12:
        return "pulsar" if _is_pulsar(data) else "other"
    if _may_be_pulsar_later(data):
        return ""
    return "other"


def _is_tls(data: bytes) -> bool:
    """Whether the bytes are a TLS record header and, after the record, a second header or nothing."""
    if not _TLS.match(data):
        return False
    if len(data) < 5:
        return True
    size: int = 5 + _u16(data, 3)[0]
    return size <= _MAX_RECORD and (len(data) <= size or 0x14 <= data[size] <= 0x17)


def _is_pulsar(data: bytes) -> bool:
    """Whether the bytes are two consistent lengths and a known command. The first frame of either side is small."""
    size, command = _two(data, 0)
    return size <= _MAX_FRAME and command + 4 <= size and data[8] == 8 and data[10:].startswith(TAGS.get(data[9], b"-"))


def _may_be_pulsar_later(data: bytes) -> bool:
    """Whether these few bytes can be the start of a known protocol."""
    starts = (*_HTTP_STARTS, _PROXY_V1, _PROXY_V2)
    if any(start.startswith(data) or data.startswith(start) for start in starts):
        return True
    if data[0] in (0x14, 0x15, 0x16, 0x17) and (len(data) < 2 or data[1] == 3):
        return True
    return data[0] < 16 and (len(data) < 5 or data[4] < 16) and (len(data) < 9 or data[8] == 8)


def pull_proxy(data: bytes) -> tuple[int, str] | None:
    """Return length and content of the PROXY header, or None if it is incomplete. Length 0 means a damaged header."""
    if data.startswith(_PROXY_V1):
        end = data.find(b"\r\n", 0, _MAX_V1)
        if end < 0:
            return None if len(data) < _MAX_V1 else (0, "")
        words = data[:end].decode("ascii", "replace").split(" ")
        return end + 2, f"{words[2]}:{words[4]} to {words[3]}:{words[5]}" if len(words) == 6 else " ".join(words[1:])
    if len(data) < 16:
        return None
    size = 16 + _u16(data, 14)[0]
    if size > _MAX_V2:
        return 0, ""
    return (size, _v2_addresses(data)) if len(data) >= size else None


def _v2_addresses(data: bytes) -> str:
    """Return the addresses. Family 1 is IPv4, 2 is IPv6. Command 0 is a health check by the proxy."""
    width = {1: 4, 2: 16}.get(data[13] >> 4, 0)
    if not width or not data[12] & 15 or len(data) < 16 + 2 * width + 4:
        return "no addresses"
    source, target = (ip_address(data[at : at + width]) for at in (16, 16 + width))
    ports = (_u16(data, 16 + 2 * width)[0], _u16(data, 18 + 2 * width)[0])
    return f"{source}:{ports[0]} to {target}:{ports[1]}"
