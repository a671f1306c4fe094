"""The state of a connection at the boundary of two splits: renumbering, comparison, merge.

Rules of this file
1. Packet numbers and offsets in a split are relative to the split; `shifted_by` replaces them with numbers and offsets
   of the recording. Sequence numbers do not change.
2. Two states are equal if no future packet can distinguish them. For a direction that is in order, and at or in a frame
   whose boundary is certain, this requires an equal next sequence number, equal bytes and packets of the open frame,
   and an equal last acknowledgement.
3. The carried state adds what the assumed state lacks: the SYN, the certainty of the frame boundaries, and the maximum
   frame size.
"""

from __future__ import annotations

from collections.abc import Mapping

from pcli.codec.capture.flows import Aligned, Connection, Direction, IncompleteFrame
from pcli.codec.capture.frames import ANCHORED, RESYNC, START
from pcli.codec.capture.resync import BUDGET, Search
from pcli.spark.columnar.split_merge.held_packets import need_of
from pcli.spark.columnar.split_merge.resync_certainty import NO_OFFSET, ResyncMarks

_MASK = 0xFFFFFFFF
_LEVELS = (START, ANCHORED, RESYNC)


def sync_level(word: str) -> int:
    """Return the number that represents a level in `frame_columns`."""
    return _LEVELS.index(word)


def direction_of(connection: Connection, key: bytes) -> Direction:
    """Return the direction of a key."""
    return connection.there if connection.keys[0] == key else connection.back


def is_skipped(connection: Connection) -> bool:
    """Return whether both directions are skipped."""
    return connection.there.skipped and connection.back.skipped


# -- equal ---------------------------------------------------------------------------------------------------------


def states_agree(true: Connection, assumed: Connection) -> bool:
    """Return whether the assumed state equals the true state. ``assumed`` contains the recording's packet numbers."""
    if not (true.oriented and assumed.oriented) or true.stream.kind != "pulsar":
        return False
    if true.paused or true.closing >= 0 or true.finished or true.ended is not None:
        return False
    return all(_directions_agree(direction_of(true, key), direction_of(assumed, key)) for key in assumed.keys)


def _directions_agree(true: Direction, assumed: Direction) -> bool:
    if true.from_client != assumed.from_client or true.seen != assumed.seen:
        return False
    if not assumed.seen:
        # No packet of this direction was captured in this split or earlier splits.
        return true.base < 0 and true.ack < 0 and not true.held
    if not isinstance(true.mode, Aligned) or true.held or true.fin >= 0 or true.deadline >= 0:
        return False
    if true.pending_problems:
        return False
    if true.isn < 0 and not true.offset:
        return False  # a keep-alive may still move the start of such a direction
    same_place = (true.base + true.offset - assumed.base - assumed.offset) & _MASK == 0
    return same_place and true.ack == assumed.ack and true.run == assumed.run and true.marks == assumed.marks


# -- renumbered ----------------------------------------------------------------------------------------------------


def shifted_by(connection: Connection, packets: int) -> Connection:
    """Add ``packets`` to all packet numbers of the connection in place, and return the connection."""
    stream = connection.stream
    stream.opening = tuple(packet + packets for packet in stream.opening)
    for name in ("closing", "timer"):
        if getattr(connection, name) >= 0:
            setattr(connection, name, getattr(connection, name) + packets)
    connection.last += packets
    if connection.ended is not None:
        direction, packet, time_ns, flags = connection.ended
        connection.ended = (direction, packet + packets, time_ns, flags)
    for direction in (connection.there, connection.back):
        _move(direction, packets)
    return connection


def _move(direction: Direction, packets: int) -> None:
    if direction.fin_packet:
        direction.fin_packet += packets
    if direction.deadline >= 0:
        direction.deadline += packets
    direction.held = [
        (at, data, size, packet + packets, time_ns, tuple(one + packets for one in parts), turn + packets)
        for at, data, size, packet, time_ns, parts, turn in direction.held
    ]
    direction.marks = [(at, packet + packets, time_ns) for at, packet, time_ns in direction.marks]
    if isinstance(direction.mode, IncompleteFrame):
        direction.mode.packets = [packet + packets for packet in direction.mode.packets]
    if isinstance(direction.mode, Search):
        direction.mode.timer += packets


def _shift_offsets(direction: Direction, offsets: int) -> None:
    """Add a number to all offsets of a direction; sequence numbers do not change."""
    direction.offset += offsets
    direction.base = (direction.base - offsets) & _MASK
    direction.fin += offsets if direction.fin >= 0 else 0
    direction.held = [(at + offsets, *rest) for at, *rest in direction.held]  # type: ignore[misc]
    direction.pending_problems = [(at + offsets, problem) for at, problem in direction.pending_problems]
    if isinstance(direction.mode, IncompleteFrame):
        direction.mode.offset += offsets


# -- merged --------------------------------------------------------------------------------------------------------


def apply_true_state(
    end: Connection, true: Connection, assumed: Connection, marks: Mapping[bytes, ResyncMarks]
) -> bool:
    """Convert the end state of a split that started with an assumed state to the true end state, in place.

    The assumed state agreed with ``true``. Return False if an unknown value matters: the split must then be read again.
    All packet numbers refer to the recording.
    """
    pairs = [
        (direction_of(end, key), direction_of(true, key), direction_of(assumed, key), marks[key]) for key in end.keys
    ]
    asked = any(mark.asked for _, _, _, mark in pairs)
    raised = any(direction.limit != start.limit for direction, _, start, _ in pairs)
    other = any(was.limit != start.limit for _, was, start, _ in pairs)
    if other and (asked or raised):
        return False
    for direction, was, start, mark in pairs:
        if isinstance(direction.mode, Search):
            return False  # the search contains offsets that no function adjusts
        # The budget always suffices for checks of frames, which read no more bytes than have arrived. Searches may read
        # more bytes.
        before = was.offset + mark.lost - start.offset + 1024
        if mark.lost < NO_OFFSET and was.budget.spent + direction.budget.spent > BUDGET * before:
            return False
    for direction, was, start, mark in pairs:
        _apply_carried(direction, was, start, mark)
        if other:
            direction.limit = was.limit
        direction.stream = true.stream
        if isinstance(direction.mode, Aligned):
            direction.mode.need = need_of(direction, direction.mode)
    true.stream.kind = end.stream.kind
    end.stream = true.stream
    if end.keys != true.keys:
        end.keys, end.there, end.back = true.keys, end.back, end.there
    return True


def _apply_carried(direction: Direction, was: Direction, assumed: Direction, marks: ResyncMarks) -> None:
    direction.isn, direction.resent = was.isn, direction.resent or was.resent
    if not assumed.seen:
        return
    before, aligned = was.aligned, direction.mode
    if isinstance(aligned, IncompleteFrame):
        aligned.sync = _LEVELS[sync_level_at(before, marks, aligned.offset)]
        aligned = aligned.after
    if marks.lost == NO_OFFSET:
        doubted = before.sync == RESYNC
        direction.budget.spent = was.budget.spent + (direction.budget.spent if doubted else 0)
        if isinstance(aligned, Aligned):
            aligned.checked_bytes = before.checked_bytes + (aligned.checked_bytes if doubted else 0)
            aligned.sync = _LEVELS[sync_level_at(before, marks, direction.offset)]
    else:
        direction.budget.spent += was.budget.spent
    _shift_offsets(direction, was.offset - assumed.offset)


def sync_level_at(was: Aligned, marks: ResyncMarks, offset: int) -> int:
    """Return the certainty at an offset of the split; ``was`` is the mode of the direction in the carried state."""
    level = sync_level(was.sync)
    if offset >= marks.lost:
        return sync_level(RESYNC)
    return max(level, sync_level(ANCHORED)) if offset >= marks.anchored else level
