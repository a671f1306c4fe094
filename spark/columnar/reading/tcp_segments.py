"""TCP segments of a window as columns: the link, IP and TCP headers of all packets are read at once.

Rules of this file
1. A plain packet has simple headers: Ethernet (up to two VLAN tags), Linux cooked, BSD loopback or raw IP; IPv4 without
   options or IPv6 without extension headers; no fragment; TCP. All other packets are called opaque, and `pull_segment`
   parses them.
2. An ordinary packet is plain and complete, and has ACK but not SYN, FIN or RST. Only ordinary packets are processed
   together.
3. `codec.capture.fast_path` processes a lean packet without reading the connection. For every other packet it stores
   the packet number in ``Connection.last``, and the columnar reader must do the same.
4. Headers are gathered as records of 40 or 60 bytes, so one pass over memory reads all their fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pcli.codec.capture.link import BSD_IPV6, IPV4, IPV6, LOOPS, RAW, TYPED, VLAN
from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.reading.packet_records import Records

_V4: Final = np.dtype(
    {
        "names": ["version", "length", "fragment", "protocol", "addresses", "ports", "seq", "ack", "size", "flags"],
        "formats": ["u1", ">u2", ">u2", "u1", "u8", "u4", ">u4", ">u4", "u1", "u1"],
        "offsets": [0, 2, 6, 9, 12, 20, 24, 28, 32, 33],
        "itemsize": 40,
    }
)
_V6: Final = np.dtype(
    {
        "names": [
            "version",
            "length",
            "protocol",
            "from1",
            "from2",
            "to1",
            "to2",
            "ports",
            "seq",
            "ack",
            "size",
            "flags",
        ],
        "formats": ["u1", ">u2", "u1", "u8", "u8", "u8", "u8", "u4", ">u4", ">u4", "u1", "u1"],
        "offsets": [0, 4, 6, 8, 16, 24, 32, 40, 44, 48, 52, 53],
        "itemsize": 60,
    }
)
"""IP and TCP headers. Addresses and ports are only compared, so they are kept in the machine's byte order."""

FACTORS: Final = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD], np.uint64
)
"""Odd factors of the hash that distinguishes keys. The code checks for collisions."""

_Words = npt.NDArray[np.uint64]


@dataclass(slots=True)
class Segments:
    """The packets of a window as TCP segments, one entry for each packet."""

    direction: Longs
    """Number of the direction, an index into ``keys``; -1 for an opaque packet."""
    keys: list[bytes]
    """Addresses and ports in the form of ``Segment.key``."""
    seq: Longs
    ack: Longs
    at: Longs
    """Index into the window of the first byte of data."""
    stop: Longs
    ordinary: Bools
    lean: Bools


def read_segments(records: Records) -> Segments | None:
    """Return the segments of a window, or None if the hashes of two keys collide."""
    count = len(records)
    zeros = np.zeros(count, np.int64)
    segments = Segments(
        np.full(count, -1, np.int64),
        [],
        zeros.copy(),
        zeros.copy(),
        zeros.copy(),
        zeros,
        np.zeros(count, np.bool_),
        np.zeros(count, np.bool_),
    )
    kind, place = _network(records)
    complete = _take_v4(records, segments, np.flatnonzero((kind == IPV4) & (place + 40 <= records.end)), place)
    complete = complete and _take_v6(
        records, segments, np.flatnonzero((kind == IPV6) & (place + 60 <= records.end)), place
    )
    return segments if complete else None


# -- link ----------------------------------------------------------------------------------------------------------


def _network(records: Records) -> tuple[Longs, Longs]:
    """Return the EtherType and position of each network header; the EtherType is 0 if it cannot be determined."""
    if len(records.interfaces) == 1:
        return _of_link(records, records.interfaces[0].link, slice(None))
    kind, place = np.zeros(len(records), np.int64), np.zeros(len(records), np.int64)
    links = np.array([face.link for face in records.interfaces], np.int64)[records.face]
    for link in np.unique(links).tolist():
        mine = np.flatnonzero(links == link)
        kind[mine], place[mine] = _of_link(records, link, mine)
    return kind, place


def _of_link(records: Records, link: int, mine: Any) -> tuple[Longs, Longs]:
    start, end = records.start[mine], records.end[mine]
    if link in TYPED:
        return _typed(records.data, start, end, *TYPED[link])
    if link in LOOPS:
        return _loop(records.data, start, end)
    if link in RAW:
        kind = RAW[link]
        return (np.full(len(start), kind), start) if kind else (_version(records.data, start, end), start)
    return np.zeros(len(start), np.int64), start


def _typed(data: bytes, start: Longs, end: Longs, at: int, header: int) -> tuple[Longs, Longs]:
    place = start + header
    kind = _u16(data, start + at, place <= end)
    for _ in range(2):
        tagged = np.flatnonzero(kind != IPV4)
        tagged = tagged[np.isin(kind[tagged], VLAN)]
        if not len(tagged):
            break
        tags = place[tagged]
        kind[tagged] = _u16(data, tags + 2, tags + 4 <= end[tagged])
        place[tagged] += 4
    return kind, place


def _loop(data: bytes, start: Longs, end: Longs) -> tuple[Longs, Longs]:
    """Read the address family, which is in the byte order of the capturing machine."""
    whole = start + 4 <= end
    first, last = _u8(data, start, whole), _u8(data, start + 3, whole)
    family = np.where(first != 0, first, last)
    return np.where(family == 2, IPV4, np.where(np.isin(family, BSD_IPV6), IPV6, 0)), start + 4


def _version(data: bytes, start: Longs, end: Longs) -> Longs:
    version = _u8(data, start, start < end) >> 4
    return np.where(version == 4, IPV4, np.where(version == 6, IPV6, 0))


def _u8(data: bytes, at: Longs, there: Bools) -> Longs:
    return np.where(there, np.frombuffer(data, np.uint8)[np.where(there, at, 0)].astype(np.int64), 0)


def _u16(data: bytes, at: Longs, there: Bools) -> Longs:
    """Return the two-byte number at each position; 0 where ``there`` is false."""
    words = np.ndarray((max(0, len(data) - 1),), ">u2", data, 0, (1,))
    if there.all():
        return words[at].astype(np.int64)
    return np.where(there, words[np.where(there, at, 0)].astype(np.int64), 0) if len(words) else np.zeros_like(at)


# -- IP and TCP ----------------------------------------------------------------------------------------------------


def _take_v4(records: Records, segments: Segments, mine: Longs, places: Longs) -> bool:
    if not len(mine):
        return True
    data, place = records.data, places[mine]
    head = np.ndarray((len(data) - 39,), "V40", data, 0, (1,))[place].view(_V4)
    length = head["length"].astype(np.int64)
    plain = (head["version"] == 0x45) & (head["protocol"] == 6) & (head["fragment"] & 0x3FFF == 0)
    plain &= head["size"] >= 0x50
    lean = length > 0
    skip = np.array([face.skip for face in records.interfaces], np.int64)[records.face[mine]]
    lean &= (skip > 0) & (place - records.start[mine] == skip)
    # The length is 0 if the packet was captured before segmentation offload; the length on the wire is used instead.
    stop = place + np.where(length > 0, length, records.wire[mine] - (place - records.start[mine]))
    if not plain.all():
        mine, place, stop, lean, head = mine[plain], place[plain], stop[plain], lean[plain], head[plain]
    words = [head["addresses"], head["ports"].astype(np.uint64)]
    return _put(records, segments, mine, place + 20, stop, lean, head, words, (-8, 4))


def _take_v6(records: Records, segments: Segments, mine: Longs, places: Longs) -> bool:
    if not len(mine):
        return True
    data, place = records.data, places[mine]
    head = np.ndarray((len(data) - 59,), "V60", data, 0, (1,))[place].view(_V6)
    length = head["length"].astype(np.int64)
    keep = np.flatnonzero((head["version"] >> 4 == 6) & (head["protocol"] == 6) & (head["size"] >= 0x50))
    stop = np.where(length > 0, place + 40 + length, records.start[mine] + records.wire[mine])
    words = [head[name][keep] for name in ("from1", "from2", "to1", "to2")] + [head["ports"][keep].astype(np.uint64)]
    lean = np.zeros(len(keep), np.bool_)
    return _put(records, segments, mine[keep], place[keep] + 40, stop[keep], lean, head[keep], words, (-32, 4))


def _put(
    records: Records,
    segments: Segments,
    mine: Longs,
    tcp: Longs,
    stop: Longs,
    lean: Bools,
    head: Any,
    words: list[_Words],
    key: tuple[int, int],
) -> bool:
    """Fill the columns of plain packets with TCP headers at ``tcp``; return False if the hashes of keys collide."""
    if not len(mine):
        return True
    number, first = _numbers(words)
    if any((word != word[first].take(number)).any() for word in words):
        return False
    # In most windows this condition is true for all packets.
    put: Any = mine if len(mine) < len(segments.direction) else slice(None)
    segments.direction[put] = number + len(segments.keys)
    data = records.data
    segments.keys += [data[at + key[0] : at + key[1]] for at in tcp[first].tolist()]
    at = tcp + (head["size"] >> 4 << 2)
    segments.seq[put], segments.ack[put], segments.at[put], segments.stop[put] = head["seq"], head["ack"], at, stop
    ordinary = (head["flags"] & 0x17 == 0x10) & (at <= stop) & (stop <= records.end[put])
    if any(face.left_out is face for face in records.interfaces):
        marked = np.array([face.left_out is face for face in records.interfaces])
        ordinary &= ~marked[records.face[mine]]
    segments.ordinary[put] = ordinary
    segments.lean[put] = lean
    return True


def _numbers(words: list[_Words]) -> tuple[Longs, Longs]:
    """Return a number for each distinct key, and the first packet with each key."""
    mixed = np.zeros(len(words[0]), np.uint64)
    for word, factor in zip(words, FACTORS):
        mixed += (word ^ (word >> np.uint64(29))) * factor
        mixed ^= mixed >> np.uint64(32)
    ordered = np.sort(mixed)
    different = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    number = np.searchsorted(different, mixed)
    first = np.zeros(len(different), np.int64)
    first[number[::-1]] = np.arange(len(mixed) - 1, -1, -1)
    return number, first
