r"""Parser for pasted bytes in the common forms of hex, in base64, or without encoding.

Rules of this file
1. An error names the invalid token by its offset in the input.
2. Lines without a colon after the offset are a hex dump only if the offsets count the bytes (in hex, decimal or
   octal). Otherwise they could be plain hex in columns.
3. All patterns run in linear time: they match from a fixed position, and two adjacent repetitions have no character in
   common.

Forms, in the order in which ``auto`` tries them: binary (any input that is not text), a hex dump with offsets (xxd,
hexdump -C, od -t x1z, tshark -x, tcpdump -x and -X), escapes (``\x00``, also as a Python or C string), plain hex (with
spaces, 0x, commas or colons), base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from pcli.codec.errors import LocalError

_TEXT: Final = bytes([9, 10, 13, *range(32, 127)])
_OFFSET: Final = re.compile(
    r"\s*(?:(?:0[xX])?[0-9a-fA-F]{4,16}(?P<colon>:)\s*|(?P<bare>[0-9a-fA-F]{4,16})\s{1,3})(?=\S)"
)
_LAST_OFFSET: Final = re.compile(r"[0-9a-fA-F]{4,16}")
_GROUP: Final = re.compile(r"([0-9a-fA-F]{2,64})(?:(\s+)|$|(?=\|))")
_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\([0-7]{1,3})|\\(.)|(.)", re.DOTALL)
_ESCAPED: Final = {"n": 10, "r": 13, "t": 9, "a": 7, "b": 8, "f": 12, "v": 11, "0": 0}
_TOKEN: Final = re.compile(r"(0[xX])?((?:(?!0[xX])[^\s,;:{}\[\]_-])+)|0[xX]", re.ASCII)
_NO_DIGIT: Final = re.compile(r"[^0-9a-fA-F]")
_BETWEEN: Final = re.compile(r"0[xX]|[\s,;:{}\[\]_-]+", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\r\n]+={0,2}")
_BASES: Final = (16, 10, 8)

_Groups = list[tuple[int, str]]
"""Runs of hex digits, each with its offset in the input."""


def pull_bytes(data: bytes, form: str = "auto") -> bytes:
    """Return the bytes that the input ``data`` describes. Raise LocalError with the offset of an invalid token."""
    if form != "auto":
        return _READERS[form](data)
    if data.translate(None, _TEXT):
        return data
    text = data.decode()
    groups, stopped = _dump_groups(text)
    if stopped < 0 and not _one_plain_line(text):
        return _joined(groups)
    if "\\x" in text:
        return _from_escapes(data)
    looks_hex = not _NO_DIGIT.search(_BETWEEN.sub("", text))
    return _from_hex(data) if looks_hex or not _BASE64.fullmatch(text.strip()) else _from_base64(data)


def _one_plain_line(text: str) -> bool:
    """Whether the text is one line of plain hex, such as "0000 0006 0802", that does not start with a marked zero."""
    text = text.strip()
    plain = "\n" not in text and re.fullmatch(r"[0-9a-fA-F\s]+", text) is not None
    return plain and not re.match(r"0{4,16}(:|\s{2})", text)


def _dump_groups(text: str) -> tuple[_Groups, int]:
    """Return the dump's hex digits, and the offset of the first line outside the dump, or -1."""
    found: _Groups = []
    position, expected = 0, dict.fromkeys(_BASES, -1)
    for line in text.splitlines(keepends=True):
        words = line.strip()
        if words == "*" and found:
            raise LocalError("the dump omits lines here (*): create it with -v", position + line.index("*"))
        # The last line that hexdump and od print contains only the offset.
        closing = _LAST_OFFSET.fullmatch(words) is not None and bool(found)
        offset = _OFFSET.match(line)
        bare = words if closing else offset["bare"] if offset is not None else None
        groups = _line_groups(line, offset.end()) if offset is not None and not closing else []
        size = sum(len(digits) for _, digits in groups) // 2
        if bare is not None:
            expected = _counted(bare, expected, size)
        if words and not (expected and (closing or groups)):
            return found, position
        found += ((position + start, digits) for start, digits in groups)
        position += len(line)
    return found, -1 if found else 0


def _counted(offset: str, expected: dict[int, int], size: int) -> dict[int, int]:
    """Return the next expected offset in each base that fits all offsets so far; offset 0 starts a new dump."""
    following = {}
    for base, due in expected.items():
        try:
            value = int(offset, base)
        except ValueError:
            continue  # not all digits are valid in this base
        if due < 0 or value in (0, due):
            following[base] = value + size
    return following


def _line_groups(line: str, position: int) -> _Groups:
    """Return the hex digits of a line of a dump, up to the gap before the text column.

    All groups are as wide as the first group; the last group of the data may be shorter. hexdump -C also prints two
    spaces after the eighth byte, so that gap alone does not end the hex column.
    """
    groups: _Groups = []
    width = size = 0
    while (group := _GROUP.match(line, position)) is not None:
        digits, gap = group.group(1), group.group(2) or ""
        if width and len(digits) > width:
            break
        groups.append((position, digits))
        width = width or len(digits)
        size += len(digits)
        position = group.end()
        if len(digits) < width or (len(gap) > 1 and not (width == 2 and size == 16 and len(gap) == 2)):
            break
    return groups


def _from_dump(data: bytes) -> bytes:
    groups, stopped = _dump_groups(data.decode("latin-1"))
    if stopped >= 0:
        raise LocalError("not a line of a hex dump: offset, hex digits", stopped)
    return _joined(groups)


def _joined(groups: _Groups) -> bytes:
    """Return the bytes of complete groups. Raise LocalError for a group with an odd number of digits."""
    for offset, digits in groups:
        if len(digits) % 2:
            count = "1 hex digit" if len(digits) == 1 else f"{len(digits)} hex digits"
            raise LocalError(f"{count}: one is missing, or there is one too many", offset)
    return bytes.fromhex("".join(digits for _, digits in groups))


def _from_escapes(data: bytes) -> bytes:
    text = data.decode(errors="replace").strip()
    quoted = re.fullmatch(r"[bB]?([\"'])(.*)\1", text, re.DOTALL)
    out = bytearray()
    for hexadecimal, octal, other, plain in _ESCAPE.findall(quoted.group(2) if quoted else text):
        if hexadecimal:
            out.append(int(hexadecimal, 16))
        elif octal:
            out.append(int(octal, 8) & 255)
        elif other:
            out += bytes([_ESCAPED[other]]) if other in _ESCAPED else other.encode()
        elif quoted or not plain.isspace():
            out += plain.encode()
    return bytes(out)


def _from_hex(data: bytes) -> bytes:
    text = data.decode("latin-1")  # one character per byte, so that text offsets are byte offsets
    groups: _Groups = []
    for token in _TOKEN.finditer(text):
        prefix, digits = token.group(1, 2)
        if digits is None:
            raise LocalError(f"{token.group()} without a digit", token.start())
        wrong = _NO_DIGIT.search(digits)
        if wrong is not None:
            offset = token.start(2) + wrong.start()
            raise LocalError(f"{data[offset : offset + 4].decode(errors='replace')[0]!r} is not a hex digit", offset)
        # 0x0 is a number and therefore a byte; a single digit without 0x may be half of a byte.
        groups.append((token.start(), digits.zfill(2) if prefix else digits))
    return _joined(groups)


def _from_base64(data: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error as error:
        raise LocalError(f"not base64: {error}") from None


_READERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "binary": bytes,
    "dump": _from_dump,
    "escapes": _from_escapes,
    "hex": _from_hex,
    "base64": _from_base64,
}
