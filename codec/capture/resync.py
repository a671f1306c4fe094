"""Search for the next frame after lost bytes.

Rules of this file
1. A position is a candidate if a known command of this side can begin there: two consistent lengths, the type, the tag
   of its body, and a body of the remaining length.
2. A candidate is accepted if the chain of frames after it is valid: each whole frame parses with all required fields
   and a correct checksum, if it has one; the last, incomplete frame begins correctly. The chain must be valid up to
   the last byte. If the chain breaks, all positions in it are rejected.
3. Payloads may contain valid Pulsar frames. Therefore one frame is enough only if it begins at the start of a segment
   and ends at the last byte. Otherwise the decision waits for ENOUGH_FRAMES, ENOUGH_BYTES, or the end of the bytes (a
   gap, the end of the connection, a timer). The result may still be wrong, so the frames are marked ``resync``.
4. The search is linear: a rejected position is not tested again, and full checks stop when they have read BUDGET times
   the bytes of the direction.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from pcli.codec.capture.command_start_patterns import HEAD_SIZE, PATTERNS, TAGS
from pcli.codec.proto import pb
from pcli.codec.wire.commands import PAYLOAD_TYPES
from pcli.codec.wire.frame import Frame

ENOUGH_FRAMES: Final = 16
ENOUGH_BYTES: Final = 64 * 1024
BUDGET: Final = 32

_ENOUGH_ALONE: Final = 64
"""Number of bytes at which an incomplete frame is accepted without a whole frame, if no more bytes will follow."""

_MAX_COMMAND: Final = 64 * 1024
"""Maximum size of a command that is parsed before its frame is complete."""

_two = Struct(">II").unpack_from
_u32 = Struct(">I").unpack_from


class Budget:
    """Limit on the bytes that checks may read in one direction, in all searches together."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0
        """Number of bytes read for checks."""

    def spend(self, count: int, total: int) -> bool:
        """Return whether ``count`` more bytes of a direction with ``total`` bytes may be read. If so, count them."""
        if self.spent + count > BUDGET * (total + 1024):
            return False
        self.spent += count
        return True


class Search:
    """The mode in which the run is searched for a frame, through all bytes since the gap."""

    __slots__ = (
        "_bad",
        "_budget",
        "_chain",
        "_path",
        "aligned",
        "base",
        "candidate",
        "dropped",
        "first",
        "interval",
        "kinds",
        "side",
        "silent",
        "timer",
        "wanted",
    )

    def __init__(
        self,
        base: int,
        skip: int,
        packet: int,
        interval: int,
        budget: Budget,
        *,
        side: bool | None,
        silent: bool = False,
    ) -> None:
        self.base = base
        """Offset of the run's first byte in the stream."""
        self.aligned = -1 if skip else base
        """Offset of the start of a segment, where weaker evidence for a frame is sufficient; -1 if there is none."""
        self.first = base + skip
        """Offset of the first byte to search."""
        self.interval = interval
        """Number of packets until the next timer."""
        self.timer = packet + interval
        """The packet at which a decision is due."""
        self.side = side
        """Side whose commands are accepted: the client's (True), the broker's (False), or either (None)."""
        self.candidate = -1
        """Offset of the current candidate; -1 if there is none."""
        self.wanted = 0
        """Offset up to which bytes are needed before the next attempt."""
        self.dropped = 0
        """Number of bytes skipped without a frame."""
        self.silent = silent
        """Whether to omit the note if the frame begins at the first byte."""
        self._chain = base + skip
        self._path: list[int] = []
        self.kinds: list[int] = []
        """The first command types of the chain."""
        self._bad: set[int] = set()
        self._budget = budget

    def advance(self, run: bytearray, limit: int, *, final: bool, due: bool) -> bool:
        """Continue the search with more bytes. Return True if ``candidate`` is accepted.

        ``final`` means that no more bytes follow, and ``due`` means that a single whole frame is now sufficient.
        """
        end = self.base + len(run)
        if end < self.wanted and not final and not due:
            return False
        while True:
            if self.candidate < 0 and not self._next(run, limit, end):
                return False
            if self._follow(run, limit, end):
                if self._enough(end, final=final, due=due):
                    return True
                if not final:
                    return False
            self._reject()

    def _next(self, run: bytearray, limit: int, end: int) -> bool:
        """Advance to the next candidate and return whether there is one."""
        pattern = PATTERNS[self.side]
        position = self._chain - self.base
        while (found := pattern.search(run, position)) is not None:
            position = found.start()
            if self.base + position not in self._bad and self._head(run, position, limit, end):
                self.candidate = self._chain = self.base + position
                self.kinds = [run[position + 9]]
                return True
            position += 1
        self._chain = max(self.base + position, end - HEAD_SIZE + 1)
        self.wanted = self._chain + HEAD_SIZE
        return False

    def _follow(self, run: bytearray, limit: int, end: int) -> bool:
        """Follow the chain to the last whole frame. Return False if it breaks."""
        while True:
            position = self._chain - self.base
            if end - self._chain < HEAD_SIZE:
                self.wanted = self._chain + HEAD_SIZE
                return True
            if self._chain in self._bad or not self._plausible(run, position, limit, end):
                return False
            total: int = _u32(run, position)[0] + 4
            if self._chain + total > end:
                self.wanted = min(self._chain + total, self.candidate + ENOUGH_BYTES)
                return True
            if self._budget.spend(total, end) and not check_frame(bytes(run[position : position + total])):
                return False
            if len(self._path) < ENOUGH_FRAMES:
                self.kinds.append(run[position + 9])
            self._path.append(self._chain)
            self._chain += total

    def _plausible(self, run: bytearray, position: int, limit: int, end: int) -> bool:
        return PATTERNS[self.side].match(run, position) is not None and self._head(run, position, limit, end)

    def _head(self, run: bytearray, position: int, limit: int, end: int) -> bool:
        """Whether the lengths are consistent and the command, if it is completely available, can be parsed."""
        size, command = _two(run, position)
        if size + 4 > limit or command + 4 > size:
            return False
        number = run[position + 9]
        at = position + 10 + len(TAGS[number])
        body, at = _varint(run, at)
        if body >= 0 and at + body != position + 8 + command:
            return False
        if number not in PAYLOAD_TYPES and size != command + 4:
            return False
        if position + 8 + command > end - self.base or command > _MAX_COMMAND or not self._budget.spend(command, end):
            return True
        return _parses(bytes(run[position + 8 : position + 8 + command]))

    def _enough(self, end: int, *, final: bool, due: bool) -> bool:
        """Whether the chain, valid so far, is long enough to be accepted."""
        aligned = self.candidate == self.aligned
        if self._path:
            whole = self._chain == end and aligned
            return whole or final or due or len(self._path) >= ENOUGH_FRAMES or end - self.candidate >= ENOUGH_BYTES
        return final and (aligned or end - self.candidate >= _ENOUGH_ALONE)

    def _reject(self) -> None:
        """Reject the candidate and every position in its broken chain."""
        self._bad.add(self.candidate)
        self._bad.update(self._path)
        self._path.clear()
        self._chain = self.candidate + 1
        self.candidate = -1

    def drop(self) -> int:
        """Return the number of bytes no longer needed at the start of the run, and count them as dropped."""
        keep = self.candidate if self.candidate >= 0 else self._chain
        count = max(0, keep - self.base)
        self.base += count
        self.dropped += count
        if self.candidate < 0:
            self._bad.clear()
        return count


def _varint(run: bytearray, position: int) -> tuple[int, int]:
    """Return a varint and the position after it; the value is -1 if its bytes are incomplete."""
    value = shift = 0
    while position < len(run) and shift < 35:
        byte = run[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
        shift += 7
    return -1, position


def _parses(command: bytes) -> bool:
    try:
        return pb.BaseCommand.FromString(command).IsInitialized()
    except DecodeError:
        return False


def follows(run: bytearray, position: int, limit: int) -> bool:
    """Whether a frame can begin at ``position`` or the run ends there. Both cases confirm the previous frame."""
    if len(run) - position < HEAD_SIZE:
        return len(run) == position
    size, command = _two(run, position)
    return size + 4 <= limit and command + 4 <= size and PATTERNS[None].match(run, position) is not None


def check_frame(data: bytes) -> bool:
    """Whether a whole frame is valid in every respect: command, required fields, metadata, checksum."""
    return not Frame.of(data).problems
