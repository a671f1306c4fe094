"""Damage of the write-ahead log that SQLite does not report ("WAL-mode File Format" in the SQLite documentation).

Rules of this file
1. SQLite ignores the log from the first invalid frame on, because a commit that a crash interrupted looks like this.
   It also ignores the commits after a damaged frame, deletes the log of a missing or empty database, and does not
   compare the size of the database with its header if there is a log.
2. Each commit is synchronized before the next one starts. So at most one commit after the first invalid frame was
   interrupted, and further ones are damaged. Damage of the last commit cannot be distinguished from an interruption.
3. Frames of the current log have the salts of its header. Frames with other salts are from earlier logs.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_TITLE: Final = b"SQLite format 3\0"
_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
"""The lowest bit of the magic number means that the checksums are of big-endian words."""
_FREE_PAGES: Final = slice(36, 40)
"""The number of free pages in the first page of a database."""
_WORD: Final = 0xFFFFFFFF


class _Frame(NamedTuple):
    page: int
    pages: int
    """The number of pages of the database after a commit; 0 if the frame does not end a commit."""
    salts: tuple[int, int]
    checksum: tuple[int, int]
    start: int
    """The position of the page in the log."""


def damage(database: Path, page_size: int) -> str:
    """Return how the write-ahead log of a database or the end of its file is damaged, or an empty string.

    ``page_size`` is the size of a page in bytes. Raises OSError.
    """
    log = database.with_name(f"{database.name}-wal")
    data = log.read_bytes() if log.exists() else b""
    size = database.stat().st_size if database.exists() else 0
    if len(data) <= _HEADER.size:
        return f"{size} bytes are not a whole number of pages" if size and _is_cut(database, size) else ""
    if not size:
        return f"the database is missing or empty, but not its write-ahead log {log.name}"
    frames = list(_frames(data, page_size))
    salts, valid = _valid(data, frames, page_size)
    if sum(bool(frame.pages) for frame in frames[valid:] if frame.salts == salts) > 1:
        return f"frame {valid + 1} of the write-ahead log {log.name} is damaged, and commits after it would be lost"
    last = max((number for number in range(valid) if frames[number].pages), default=-1)
    return _missing_pages(database, data, frames[: last + 1], size // page_size)


def _is_cut(database: Path, size: int) -> bool:
    """Return whether the last page of a database without a log is incomplete. SQLite ignores a part of the first page.

    A creation that was interrupted leaves a rollback journal.
    """
    with database.open("rb") as file:
        head = file.read(18)
    page_size = int.from_bytes(head[16:], "big")
    if head[:16] != _TITLE[:size] or database.with_name(f"{database.name}-journal").exists():
        return False
    return not page_size or size % page_size != 0


def _frames(data: bytes, page_size: int) -> Iterator[_Frame]:
    for start in range(_HEADER.size, len(data) - _FRAME.size - page_size + 1, _FRAME.size + page_size):
        page, pages, *rest = _FRAME.unpack_from(data, start)
        yield _Frame(page, pages, (rest[0], rest[1]), (rest[2], rest[3]), start + _FRAME.size)


def _valid(data: bytes, frames: list[_Frame], page_size: int) -> tuple[tuple[int, int] | None, int]:
    """Return the salts of the log, and the number of frames before the first invalid one."""
    magic, *_, salt, other, first, second = _HEADER.unpack_from(data)
    swap = (magic & 1 == 1) != (sys.byteorder == "big")
    if magic & ~1 != _MAGIC or _checksum(data[:24], (0, 0), swap=swap) != (first, second):
        return (frames[0].salts if frames else None), 0
    salts, checksum = (salt, other), (first, second)
    for number, frame in enumerate(frames):
        if frame.salts != salts:
            return salts, number
        head = data[frame.start - _FRAME.size : frame.start - _FRAME.size + 8]
        checksum = _checksum(head + data[frame.start : frame.start + page_size], checksum, swap=swap)
        if frame.checksum != checksum:
            return salts, number
    return salts, len(frames)


def _checksum(data: bytes, checksum: tuple[int, int], *, swap: bool) -> tuple[int, int]:
    first, second = checksum
    words = array("I", data)
    if swap:
        words.byteswap()
    numbers = iter(words)
    for number, following in zip(numbers, numbers, strict=True):
        first = first + number + second & _WORD
        second = second + following + first & _WORD
    return first, second


def _missing_pages(database: Path, data: bytes, frames: list[_Frame], pages: int) -> str:
    """Return an error if neither the file, which has ``pages`` pages, nor the log has all pages of the database.

    Free pages may be missing, because SQLite does not write them.
    """
    if not frames:
        return ""
    stored = {frame.page for frame in frames}
    missing = sum(page not in stored for page in range(pages + 1, frames[-1].pages + 1))
    start = next((frame.start for frame in reversed(frames) if frame.page == 1), None)
    if start is None:
        with database.open("rb") as file:
            first_page = file.read(_FREE_PAGES.stop)
    else:
        first_page = data[start : start + _FREE_PAGES.stop]
    if missing <= int.from_bytes(first_page[_FREE_PAGES], "big"):
        return ""
    return f"{missing} pages at the end of the file are missing"
