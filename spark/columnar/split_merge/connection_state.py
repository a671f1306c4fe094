"""The state of a connection at the boundary of two splits: renumbering, comparison, merge.

Rules of this file
1. Packets and offsets in a split are the split's own; `shifted_by` replaces them with the recording's. Sequence
   numbers do not change.
2. Two states are equal if no future packet can distinguish them. For a direction that is in order, at or in a frame
   with a certain boundary, that means: equal next sequence number, equal bytes and packets of the open frame, equal
   last acknowledgement.
3. The carried state adds what the assumed state lacks: the SYN, the certainty of the frame boundaries, the maximum
   frame size.
"""

from __future__ import annotations

from collections.abc import Mapping

from pcli.codec.capture.flows import SKIP, SYNC, Connection, Direction
from pcli.codec.capture.frames import ANCHORED, RESYNC, START
from pcli.codec.capture.resync import BUDGET
from pcli.spark.columnar.split_merge.held_packets import need_of
from pcli.spark.columnar.split_merge.resync_certainty import NO_OFFSET, ResyncMarks

__all__ = ["apply_true_state", "direction_of", "is_skipped", "shifted_by", "states_agree", "sync_level"]

_MASK = 0xFFFFFFFF
_LEVELS = (START, ANCHORED, RESYNC)


def sync_level(word: str) -> int:
    """Return the number of a level, as in `frame_columns`."""
    return _LEVELS.index(word)


def direction_of(connection: Connection, key: bytes) -> Direction:
    """Return the direction of a key."""
    return connection.there if connection.keys[0] == key else connection.back


def is_skipped(connection: Connection) -> bool:
    """Return whether both directions are skipped."""
    return connection.there.mode == connection.back.mode == SKIP


# -- equal ---------------------------------------------------------------------------------------------------------


def states_agree(true: Connection, guess: Connection) -> bool:
    """Return whether the assumed state equals the true one. ``guess`` already has the recording's packets."""
    if not (true.oriented and guess.oriented) or true.stream.kind != "pulsar":
        return False
    if true.paused or true.closing >= 0 or true.finished or true.ended is not None:
        return False
    return all(_directions_agree(direction_of(true, key), direction_of(guess, key)) for key in guess.keys)


def _directions_agree(true: Direction, guess: Direction) -> bool:
    if true.from_client != guess.from_client or true.seen != guess.seen:
        return False
    if not guess.seen:
        # No packet of this direction was captured, in this split or before.
        return true.base < 0 and true.ack < 0 and not true.held
    if true.mode != SYNC or true.partial is not None or true.held or true.fin >= 0 or true.deadline >= 0:
        return False
    if true.trouble:
        return False
    if true.isn < 0 and not true.offset:
        return False  # a keep-alive may still move the start of such a direction
    same_place = (true.base + true.offset - guess.base - guess.offset) & _MASK == 0
    return same_place and true.ack == guess.ack and true.run == guess.run and true.marks == guess.marks


# -- renumbered ----------------------------------------------------------------------------------------------------


def shifted_by(connection: Connection, packets: int) -> Connection:
    """Add to all packet numbers in place and return the connection."""
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
    """Add to all offsets; sequence numbers do not change."""
    way.offset += offsets
    way.base = (way.base - offsets) & _MASK
    way.fin += offsets if way.fin >= 0 else 0
    way.held = [(at + offsets, *rest) for at, *rest in way.held]  # type: ignore[misc]
    way.trouble = [(at + offsets, problem) for at, problem in way.trouble]
    if way.partial is not None:
        way.partial.offset += offsets


# -- put together --------------------------------------------------------------------------------------------------


def apply_true_state(end: Connection, true: Connection, guess: Connection, marks: Mapping[bytes, ResyncMarks]) -> bool:
    """Turn the end of a split that started with an assumed state into the true end, in place.

    The assumed state agreed with ``true``. Return False if an unknown value matters, so that the split must be read
    again. All packet numbers are the recording's.
    """
    pairs = [
        (direction_of(end, key), direction_of(true, key), direction_of(guess, key), marks[key]) for key in end.keys
    ]
    asked = any(mark.asked for _, _, _, mark in pairs)
    raised = any(way.limit != guessed.limit for way, _, guessed, _ in pairs)
    other = any(was.limit != guessed.limit for _, was, guessed, _ in pairs)
    if other and (asked or raised):
        return False
    for way, was, guessed, mark in pairs:
        if way.search is not None:
            return False  # its positions are offsets, which nothing adjusts
        # The budget always suffices for checks of frames: they read no more bytes than arrived. Searches may read
        # more.
        before = was.offset + mark.lost - guessed.offset + 1024
        if mark.lost < NO_OFFSET and was.budget.spent + way.budget.spent > BUDGET * before:
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


def _adopt(way: Direction, was: Direction, guessed: Direction, marks: ResyncMarks) -> None:
    way.isn = was.isn
    if not guessed.seen:
        return
    if way.partial is not None:
        way.partial.sync = _LEVELS[level_at(was, marks, way.partial.offset)]
    if marks.lost == NO_OFFSET:
        way.trust = was.trust + (way.trust if was.sync == RESYNC else 0)
        way.budget.spent = was.budget.spent + (way.budget.spent if was.sync == RESYNC else 0)
        way.sync = _LEVELS[level_at(was, marks, way.offset)]
    else:
        way.budget.spent += was.budget.spent
    _slide(way, was.offset - guessed.offset)


def level_at(was: Direction, marks: ResyncMarks, offset: int) -> int:
    """Return the certainty at an offset of the split; ``was`` is the carried direction."""
    level = sync_level(was.sync)
    if offset >= marks.lost:
        return sync_level(RESYNC)
    return max(level, sync_level(ANCHORED)) if offset >= marks.anchored else level
