"""A connection at the edge of two splits: renumbered, compared, put together from what both know.

Rules of this file
1. In a split, packets and offsets are its own; `moved` makes them the recording's. Sequence numbers are what they are.
2. Two states are equal when no packet to come can tell them apart. Of a direction that is in order, at or in a frame of
   a certain place, that is: the next sequence number, the bytes of the open frame and who brought them, and the last
   acknowledgement.
3. What a guess can't know, the carried state knows: its SYN, how certain its places are, the largest frame.
"""

from __future__ import annotations

from collections.abc import Mapping

from pcli.codec.capture.flows import SKIP, SYNC, Connection, Direction
from pcli.codec.capture.frames import ANCHORED, RESYNC, START
from pcli.codec.capture.resync import BUDGET
from pcli.spark.columnar.split_merge.held_packets import need_of
from pcli.spark.columnar.split_merge.resync_certainty import NOWHERE, Marks

__all__ = ["adopt", "agree", "is_skipped", "moved", "sync_level", "way_of"]

_MASK = 0xFFFFFFFF
_LEVELS = (START, ANCHORED, RESYNC)


def sync_level(word: str) -> int:
    """As the numbers of `columns`."""
    return _LEVELS.index(word)


def way_of(connection: Connection, key: bytes) -> Direction:
    """The direction of a key."""
    return connection.there if connection.keys[0] == key else connection.back


def is_skipped(connection: Connection) -> bool:
    """Whether nobody wants the bytes of either direction."""
    return connection.there.mode == connection.back.mode == SKIP


# -- equal ---------------------------------------------------------------------------------------------------------


def agree(true: Connection, guess: Connection) -> bool:
    """Whether a connection may go on from the guess. ``guess`` is in the recording's packets already."""
    if not (true.oriented and guess.oriented) or true.stream.kind != "pulsar":
        return False
    if true.paused or true.closing >= 0 or true.finished or true.ended is not None:
        return False
    return all(_agree(way_of(true, key), way_of(guess, key)) for key in guess.keys)


def _agree(true: Direction, guess: Direction) -> bool:
    if true.from_client != guess.from_client or true.seen != guess.seen:
        return False
    if not guess.seen:
        # Not one packet of it was seen, in this split and before.
        return true.base < 0 and true.ack < 0 and not true.held
    if true.mode != SYNC or true.partial is not None or true.held or true.fin >= 0 or true.deadline >= 0:
        return False
    if true.trouble:
        return False
    if true.isn < 0 and not true.offset:
        return False  # of such a one a keep-alive may still move the beginning
    same_place = (true.base + true.offset - guess.base - guess.offset) & _MASK == 0
    return same_place and true.ack == guess.ack and true.run == guess.run and true.marks == guess.marks


# -- renumbered ----------------------------------------------------------------------------------------------------


def moved(connection: Connection, packets: int) -> Connection:
    """Add to all packet numbers, in place; gives the connection."""
    stream = connection.stream
    stream.opening = tuple(packet + packets for packet in stream.opening)
    for name in ("closing", "alarm"):
        if getattr(connection, name) >= 0:
            setattr(connection, name, getattr(connection, name) + packets)
    connection.last += packets
    if connection.ended is not None:
        way, packet, time_ns, flags = connection.ended
        connection.ended = (way, packet + packets, time_ns, flags)
    for way in (connection.there, connection.back):
        _move(way, packets)
    return connection


def _move(way: Direction, packets: int) -> None:
    if way.fin_packet:
        way.fin_packet += packets
    if way.deadline >= 0:
        way.deadline += packets
    way.held = [
        (at, data, size, packet + packets, time_ns, tuple(one + packets for one in parts), turn + packets)
        for at, data, size, packet, time_ns, parts, turn in way.held
    ]
    way.marks = [(at, packet + packets, time_ns) for at, packet, time_ns in way.marks]
    if way.partial is not None:
        way.partial.packets = [packet + packets for packet in way.partial.packets]
    if way.search is not None:
        way.search.alarm += packets


def _slide(way: Direction, offsets: int) -> None:
    """Add to all offsets; sequence numbers stay."""
    way.offset += offsets
    way.base = (way.base - offsets) & _MASK
    way.fin += offsets if way.fin >= 0 else 0
    way.held = [(at + offsets, *rest) for at, *rest in way.held]  # type: ignore[misc]
    way.trouble = [(at + offsets, problem) for at, problem in way.trouble]
    if way.partial is not None:
        way.partial.offset += offsets


# -- put together --------------------------------------------------------------------------------------------------


def adopt(end: Connection, true: Connection, guess: Connection, marks: Mapping[bytes, Marks]) -> bool:
    """Make of the end of a split, which began with a guess, the true end, in place; the guess agreed with ``true``.

    False: it matters what the guess did not know, and the split must be read again. All in the recording's packets.
    """
    pairs = [(way_of(end, key), way_of(true, key), way_of(guess, key), marks[key]) for key in end.keys]
    asked = any(mark.asked for _, _, _, mark in pairs)
    raised = any(way.limit != guessed.limit for way, _, guessed, _ in pairs)
    other = any(was.limit != guessed.limit for _, was, guessed, _ in pairs)
    if other and (asked or raised):
        return False
    for way, was, guessed, mark in pairs:
        if way.search is not None:
            return False  # its places are offsets, and nobody moves them
        # Checks of frames can always be paid: they read no more than came. Searches may read more.
        before = was.offset + mark.lost - guessed.offset + 1024
        if mark.lost < NOWHERE and was.budget.spent + way.budget.spent > BUDGET * before:
            return False
    for way, was, guessed, mark in pairs:
        _adopt(way, was, guessed, mark)
        if other:
            way.limit = was.limit
        way.stream = true.stream
        if way.mode == SYNC and way.partial is None:
            way.need = need_of(way)
    true.stream.kind = end.stream.kind
    end.stream = true.stream
    if end.keys != true.keys:
        end.keys, end.there, end.back = true.keys, end.back, end.there
    return True


def _adopt(way: Direction, was: Direction, guessed: Direction, marks: Marks) -> None:
    way.isn = was.isn
    if not guessed.seen:
        return
    if way.partial is not None:
        way.partial.sync = _LEVELS[level_at(was, marks, way.partial.offset)]
    if marks.lost == NOWHERE:
        way.trust = was.trust + (way.trust if was.sync == RESYNC else 0)
        way.budget.spent = was.budget.spent + (way.budget.spent if was.sync == RESYNC else 0)
        way.sync = _LEVELS[level_at(was, marks, way.offset)]
    else:
        way.budget.spent += was.budget.spent
    _slide(way, was.offset - guessed.offset)


def level_at(was: Direction, marks: Marks, offset: int) -> int:
    """How certain a place of the split is, the carried direction being ``was``."""
    level = sync_level(was.sync)
    if offset >= marks.lost:
        return sync_level(RESYNC)
    return max(level, sync_level(ANCHORED)) if offset >= marks.anchored else level
