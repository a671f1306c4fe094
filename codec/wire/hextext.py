r"""Bytes out of what people paste: hex in its usual dresses, base64, or the bytes themselves.

Rules of this file
1. An error says which token is wrong, as an offset in the bytes that were given.
2. A dump whose lines have no colon behind the offset is one only if the offsets count its bytes (in hex, decimal or
   octal): hex in columns looks the same otherwise.
3. Patterns are linear: they match from one place on, and no two repetitions beside each other share a character.

The forms, tried in this order by ``auto``: binary (anything that is no text), a hex dump with offsets (xxd, hexdump -C,
od -t x1z, tshark -x, tcpdump -x and -X), escapes (``\x00``, also as a Python or C string), plain hex (spaced, with 0x,
commas, colons), base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from pcli.codec.errors import LocalError

__all__ = ["FORMS", "pull_bytes"]

FORMS: Final = ("auto", "binary", "dump", "escapes", "hex", "base64")

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
"""Hex digits, each run with the offset at which it stands."""


def pull_bytes(data: bytes, form: str = "auto") -> bytes:
    """The bytes meant by ``data``, which is what was typed, piped or in the file; LocalError with the offset."""
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
    """One line such as "0000 0006 0802" may be plain hex: it is a dump only if it counts from 0 with a mark."""
    text = text.strip()
    plain = "\n" not in text and re.fullmatch(r"[0-9a-fA-F\s]+", text) is not None
    return plain and not re.match(r"0{4,16}(:|\s{2})", text)


def _dump_groups(text: str) -> tuple[_Groups, int]:
    """The hex of a dump, and the offset of the first line that is none of a dump; -1 when all are."""
    found: _Groups = []
    position, expected = 0, dict.fromkeys(_BASES, -1)
    for line in text.splitlines(keepends=True):
        words = line.strip()
        if words == "*" and found:
            raise LocalError("the dump omits lines here (*): create it with -v", position + line.index("*"))
        # hexdump and od close with a line that holds only the offset.
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
    """What the next offset has to be in each base in which this one was right: the first is free, 0 begins again."""
    following = {}
    for base, due in expected.items():
        try:
            value = int(offset, base)
        except ValueError:
            continue  # not all of its digits are some of this base
        if due < 0 or value in (0, due):
            following[base] = value + size
    return following


def _line_groups(line: str, position: int) -> _Groups:
    """The hex digits of a line of a dump, up to the gap before the text column.

    All groups are as wide as the first; the last of the data may be less. hexdump -C leaves two blanks after the
    eighth byte too: that gap alone is no end.
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
    """The bytes of whole groups; LocalError for one with half a byte."""
    for offset, digits in groups:
        if len(digits) % 2:
            count = "1 hex digit" if len(digits) == 1 else f"{len(digits)} hex digits"
            raise LocalError(f"{count}: one is missing or too many", offset)
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
    text = data.decode("latin-1")  # a character a byte, so that offsets are those of the bytes
    groups: _Groups = []
    for token in _TOKEN.finditer(text):
        prefix, digits = token.group(1, 2)
        if digits is None:
            raise LocalError(f"{token.group()} without a digit", token.start())
        wrong = _NO_DIGIT.search(digits)
        if wrong is not None:
            offset = token.start(2) + wrong.start()
            raise LocalError(f"{data[offset : offset + 4].decode(errors='replace')[0]!r} is not a hex digit", offset)
        # 0x0 is a number, and so a byte; a digit by itself may be half of one.
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
