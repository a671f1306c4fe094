"""Finding the next frame behind lost bytes.

Rules of this file
1. A place is a candidate when a known command of this side can begin there: two lengths that fit each other, the
   type, the tag of its body and a body of the length that is left.
2. A candidate is good when the chain of frames from it holds: each whole frame parses with all required fields and,
   where it has one, its checksum is right; the last, open one begins rightly. The chain must hold as far as the bytes
   go: one that breaks is thrown away with all places on it.
3. Payloads may hold valid Pulsar frames. So nobody is content with one frame at once, unless it begins and ends where
   the bytes do; otherwise the decision waits for ENOUGH_FRAMES, ENOUGH_BYTES, or the end of the bytes (a hole, the
   end of the connection, an alarm). What is found may still be wrong, and is marked as such.
4. Linear: a place that was found bad is not looked at twice, and full checks stop when they have read BUDGET times
   the bytes of the direction.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from pcli.codec.capture.legal import HEAD_SIZE, PATTERNS, TAGS
from pcli.codec.proto import pb
from pcli.codec.wire.commands import PAYLOAD_TYPES
from pcli.codec.wire.frame import Frame

__all__ = ["Budget", "Search", "check_frame", "follows"]

ENOUGH_FRAMES: Final = 16
ENOUGH_BYTES: Final = 64 * 1024
BUDGET: Final = 32

_SURE: Final = 64
"""Bytes of an open frame that are believed without any whole frame before them, when no more will come."""

_MAX_COMMAND: Final = 64 * 1024
"""Larger commands are not parsed before their frame is whole."""

_two = Struct(">II").unpack_from
_u32 = Struct(">I").unpack_from


class Budget:
    """What the checks of a direction may read, in all its searches together."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0
        """Bytes that were read for checks."""

    def pay(self, count: int, total: int) -> bool:
        """Whether so many bytes may be read, when the direction has had ``total`` so far."""
        if self.spent + count > BUDGET * (total + 1024):
            return False
        self.spent += count
        return True


class Search:
    """The search in one direction, over all bytes since the hole."""

    __slots__ = (
        "_bad",
        "_budget",
        "_chain",
        "_path",
        "alarm",
        "aligned",
        "base",
        "candidate",
        "dropped",
        "first",
        "kinds",
        "patience",
        "side",
        "silent",
        "wanted",
    )

    def __init__(self, base: int, skip: int, packet: int, patience: int, budget: Budget, *, side: bool | None) -> None:
        self.base = base
        """Offset in the stream of the run's first byte."""
        self.aligned = -1 if skip else base
        """Offset at which a segment begins; a frame that begins there needs less proof. -1: there is none."""
        self.first = base + skip
        """Offset of the first byte that is searched."""
        self.patience = patience
        """Packets until the next alarm."""
        self.alarm = packet + patience
        """The packet at which a decision is due."""
        self.side = side
        """Whose commands count: the client's (True), the broker's, or (None) either's."""
        self.candidate = -1
        """Offset of the place that is tried; -1: none."""
        self.wanted = 0
        """Offset up to which bytes are needed before looking again is of use."""
        self.dropped = 0
        """Bytes that were given up."""
        self.silent = False
        """Nothing is to be told when the very first byte is the place."""
        self._chain = base + skip
        self._path: list[int] = []
        self.kinds: list[int] = []
        """The first command types on the chain."""
        self._bad: set[int] = set()
        self._budget = budget

    def look(self, run: bytearray, limit: int, *, final: bool, due: bool) -> bool:
        """Look again with more bytes. True: ``candidate`` is the place to go on.

        ``final``: no more bytes follow these; ``due``: a decision is wanted now, if one can be had.
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
        """Go to the next candidate."""
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
        """Walk the chain as far as it is whole. False: it breaks."""
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
            if self._budget.pay(total, end) and not check_frame(bytes(run[position : position + total])):
                return False
            if len(self._path) < ENOUGH_FRAMES:
                self.kinds.append(run[position + 9])
            self._path.append(self._chain)
            self._chain += total

    def _plausible(self, run: bytearray, position: int, limit: int, end: int) -> bool:
        return PATTERNS[self.side].match(run, position) is not None and self._head(run, position, limit, end)

    def _head(self, run: bytearray, position: int, limit: int, end: int) -> bool:
        """Whether the lengths fit each other, and the command parses if all of it is here."""
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
        if position + 8 + command > end - self.base or command > _MAX_COMMAND or not self._budget.pay(command, end):
            return True
        return _parses(bytes(run[position + 8 : position + 8 + command]))

    def _enough(self, end: int, *, final: bool, due: bool) -> bool:
        """Whether the chain, which holds so far, is good enough to go on with."""
        aligned = self.candidate == self.aligned
        if self._path:
            whole = self._chain == end and aligned
            return whole or final or due or len(self._path) >= ENOUGH_FRAMES or end - self.candidate >= ENOUGH_BYTES
        return final and (aligned or end - self.candidate >= _SURE)

    def _reject(self) -> None:
        """The chain from the candidate breaks, and with it that from each place on it."""
        self._bad.add(self.candidate)
        self._bad.update(self._path)
        self._path.clear()
        self._chain = self.candidate + 1
        self.candidate = -1

    def drop(self) -> int:
        """How many bytes at the beginning of the run are of no more use; they count as dropped from now on."""
        keep = self.candidate if self.candidate >= 0 else self._chain
        count = max(0, keep - self.base)
        self.base += count
        self.dropped += count
        if self.candidate < 0:
            self._bad.clear()
        return count


def _varint(run: bytearray, position: int) -> tuple[int, int]:
    """The value and the place behind it; -1 when its bytes are not here."""
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
    """Whether a frame can begin at run[position:], or nothing is there yet: then the frame before it ended rightly."""
    if len(run) - position < HEAD_SIZE:
        return len(run) == position
    size, command = _two(run, position)
    return size + 4 <= limit and command + 4 <= size and PATTERNS[None].match(run, position) is not None


def check_frame(data: bytes) -> bool:
    """Whether a whole frame is right in every respect: command, required fields, metadata, checksum."""
    return not Frame.of(data).problems
