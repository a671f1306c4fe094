"""Offsets at which a capture file may be split: record boundaries, found without reading all earlier bytes.

Rules of this file
1. An offset is accepted if a chain of records begins there: CHAIN records, or as many as remain in the file. In a pcap,
   the lengths, the fraction of a second and the time must be plausible. In a pcapng, types must be known, and both
   lengths of a block must be equal. Payload can still look like records (for example, in a captured transfer of
   captures). The reader therefore checks that a split ends where the next split begins, and
   `pcli.spark.input.splits.corrected_splits` corrects the splits.
2. If no offset is accepted within REACH bytes after the wanted offset, the file is not split there.
3. A pcapng is split only before a packet block that contains a timestamp.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO, Final

import numpy as np

from pcli.codec.capture.pcap import MAGICS, MAX_PACKET
from pcli.codec.capture.rotated import pull_first_time
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.input.capture_headers import Head, blocks, section_order

CHAIN: Final = 8
REACH: Final = 4 << 20
_LOOK: Final = 256 << 10
"""Number of bytes to read first. REACH bytes are read only if this number is not sufficient."""

_DAY: Final = 86_400
_YEARS: Final = 10 * 366 * _DAY
_TIMED: Final = frozenset({2, 6})
_KNOWN: Final = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0x0A0D0D0A, 0xBAD, 0x40000BAD, 0x80000001})


def cuts(file: BinaryIO, head: Head, size: int, every: int) -> Iterator[tuple[int, int | None]]:
    """Yield increasing offsets of records, about ``every`` bytes apart, at which the file may be split.

    Each offset is followed by the time of its packet in ns, or None if more of the file must be read to determine the
    time.
    """
    if not head.records:
        return
    last = head.records
    for wanted in range(head.records + every, size - every // 4, every):
        if wanted <= last:
            continue
        found, time_ns = _find(file, head, size, wanted)
        if found > last:
            yield found, time_ns
            last = found


def _find(file: BinaryIO, head: Head, size: int, wanted: int) -> tuple[int, int | None]:
    """Return the first accepted offset at or after ``wanted``, and its packet's time; -1 if no offset is accepted."""
    for reach in (_LOOK, REACH):
        file.seek(wanted)
        data = file.read(reach)
        whole = wanted + len(data) >= size
        place = _pcap(data, head, whole=whole) if head.format == "pcap" else _pcapng(data, head, wanted)
        if place >= 0:
            first = pull_first_time(io.BytesIO(head.preamble + data[place:]))
            return wanted + place, first
        if whole:
            break
    return -1, None


def _pcap(data: bytes, head: Head, *, whole: bool) -> int:
    order, units, length = MAGICS[head.preamble[:4]]
    base = (head.first_ns or 0) // 1_000_000_000
    pull = Struct(order + "IIII").unpack_from
    for place in _candidates(data, order, units, base).tolist():
        position, before, count = place, 0, 0
        while position + length <= len(data):
            seconds, fraction, size, wire = pull(data, position)
            if not _plausible(seconds - base, fraction, size, wire, units) or (count and abs(seconds - before) > _DAY):
                count = -1
                break
            position, before, count = position + length + size, seconds, count + 1
            if count == CHAIN:
                return int(place)
        if count > 0 and whole and position == len(data):
            return int(place)
    return -1


def _plausible(age: int, fraction: int, size: int, wire: int, units: int) -> bool:
    return -_DAY <= age <= _YEARS and fraction < units and size <= MAX_PACKET and 0 < wire <= MAX_PACKET


def _candidates(data: bytes, order: str, units: int, base: int) -> Longs:
    """Return increasing offsets at which the four words of a record header are plausible."""
    found = [np.zeros(0, np.int64)]
    for shift in range(4):
        count = (len(data) - shift) // 4
        if count < 4:
            continue
        words = np.frombuffer(data, order + "u4", count, shift).astype(np.int64)
        age, fraction, size, wire = words[:-3] - base, words[1:-2], words[2:-1], words[3:]
        good = (age >= -_DAY) & (age <= _YEARS) & (fraction < units)
        good &= (size <= MAX_PACKET) & (wire > 0) & (wire <= MAX_PACKET)
        found.append(np.flatnonzero(good) * 4 + shift)
    return np.sort(np.concatenate(found))


def _pcapng(data: bytes, head: Head, wanted: int) -> int:
    """Return the first accepted offset. Blocks begin at multiples of 4 from the start of the file."""
    order = section_order(head.preamble, 0)
    pull = Struct(order + "II").unpack_from
    for place in range(-wanted % 4, len(data) - 12, 4):
        number, length = pull(data, place)
        if number not in _TIMED or not 12 <= length <= MAX_PACKET + 65536 or length & 3:
            continue
        for count, (_, kind, _) in enumerate(blocks(data, place, order), 1):
            if kind not in _KNOWN:
                break
            if count == CHAIN:
                return place
    return -1
