r"""Bytes out of what people paste: hex in its usual dresses, base64, or the bytes themselves.

The forms, tried in this order by ``auto``: binary (anything that is no text), a hex dump with offsets (xxd, hexdump -C,
tshark -x), escapes (``\x00``, also as a Python or C string), plain hex (spaced, with 0x, commas, colons), base64.
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

_OFFSET: Final = re.compile(r"\s*[0-9a-fA-F]{4,16}(:\s*|\s{1,3})(?=\S)")
_GROUP: Final = re.compile(r"([0-9a-fA-F]{2,8})(?:(\s+)|$|(?=\|))")
_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\([0-7]{1,3})|\\(.)|(.)", re.DOTALL)
_ESCAPED: Final = {"n": 10, "r": 13, "t": 9, "a": 7, "b": 8, "f": 12, "v": 11, "0": 0}
_BETWEEN: Final = re.compile(r"0[xX]|[\s,;:{}\[\]_-]+")


def pull_bytes(data: bytes, form: str = "auto") -> bytes:
    """The bytes meant by ``data``, which is what was typed, piped or in the file; LocalError with the offset."""
    if form != "auto":
        return _READERS[form](data)
    if not _is_text(data):
        return data
    text = data.decode()
    if _dump_lines(text):
        return _from_dump(data)
    if "\\x" in text:
        return _from_escapes(data)
    compact = _BETWEEN.sub("", text)
    looks_hex = not re.search(r"[^0-9a-fA-F]", compact)
    return (
        _from_hex(data) if looks_hex or not re.fullmatch(r"[A-Za-z0-9+/\r\n]+={0,2}\s*", text) else _from_base64(data)
    )


def _is_text(data: bytes) -> bool:
    return all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in data)


def _dump_lines(text: str) -> list[str]:
    """The hex of each line, if every line is one of a dump; else nothing."""
    found: list[str] = []
    for line in text.splitlines():
        # hexdump and od close with a line that holds only the offset.
        if re.fullmatch(r"\s*([0-9a-fA-F]{4,16})?\s*", line) and found:
            continue
        offset = _OFFSET.match(line)
        digits = _dump_digits(line, offset.end()) if offset is not None else ""
        if not digits:
            return []
        found.append(digits)
    # One line such as "0000 0006 0802" may be plain hex: it is a dump only if it counts from 0 with a mark.
    plain = len(found) == 1 and re.fullmatch(r"[0-9a-fA-F\s]+", text) is not None
    return [] if plain and not re.match(r"\s*0{4,16}(:|\s{2})", text) else found


def _dump_digits(line: str, position: int) -> str:
    """The hex digits of a line of a dump, up to the gap before the text column; at most 16 bytes.

    hexdump -C leaves two blanks after the eighth byte too: that gap alone is no end.
    """
    digits = ""
    while len(digits) < 32:
        group = _GROUP.match(line, position)
        if group is None:
            break
        digits += group.group(1)
        position = group.end()
        gap = group.group(2) or ""
        if len(gap) > 1 and not (len(digits) == 16 and len(gap) == 2):
            break
    return digits


def _from_dump(data: bytes) -> bytes:
    return _from_hex("\n".join(_dump_lines(data.decode(errors="replace"))).encode())


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
    text = data.decode(errors="replace")
    compact = _BETWEEN.sub("", text)
    wrong = re.search(r"[^0-9a-fA-F]", compact)
    if wrong is not None:
        raise LocalError(f"{wrong.group()!r} is no hex digit", text.index(wrong.group()))
    if len(compact) % 2:
        raise LocalError(f"{len(compact)} hex digits: one is missing or too many", len(text.rstrip()))
    return bytes.fromhex(compact)


def _from_base64(data: bytes) -> bytes:
    try:
        return base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error as error:
        raise LocalError(f"no base64: {error}") from None


_READERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "binary": bytes,
    "dump": _from_dump,
    "escapes": _from_escapes,
    "hex": _from_hex,
    "base64": _from_base64,
}
