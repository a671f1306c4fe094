"""Extraction of frames from the bytes of a direction and the gaps between them.

Rules of this file
1. Bytes arrive in order, each once; a gap arrives as its size. This module does not use sequence numbers.
2. The length of the open frame is carried over a gap: if the gap ends inside the frame, or at its end, the position of
   the next frame is certain ("anchored"). A search starts only if the gap covers the next frame's lengths.
3. The result of a search is checked frame by frame, until the frames together are longer than the largest frame. Then
   they cannot all be in the payload of one frame. If the check fails, the search continues after the failed position
   in the same bytes. Therefore a wrong result loses no later frame.
4. An incomplete frame is returned when its end is reached, with the available bytes and the reason.
5. This is the slow path. ``fast_path`` does the same for frames in order, directly in the window, with the same fields.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.capture.command_start_patterns import HEAD_SIZE
from pcli.codec.capture.flows import IGNORE, MAX_MARKS, SEARCH, SKIP, SNIFF, SYNC, Direction, Partial
from pcli.codec.capture.frames import ANCHORED, RESYNC, START
from pcli.codec.capture.output import Output, carriers_of, trim
from pcli.codec.capture.resync import Search, check_frame, follows
from pcli.codec.capture.stream_kind import Judge
from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

__all__ = ["CONNECTED", "SEARCH_PACKETS", "Walker", "raise_limit"]

SEARCH_PACKETS: Final = 64
"""Number of packets after which a search must decide."""

SEARCH_UNKNOWN: Final = 64 * 1024
"""Number of bytes to search in a stream of unknown kind before it is classified as other."""

MOST_FRAME: Final = 256 * 1024 * 1024
"""Upper bound of the frame size limit, regardless of CONNECTED."""

_SHOWN: Final = 10
"""Minimum number of bytes of an incomplete frame, enough for its type to be known."""

CONNECTED: Final = 3

_u32 = Struct(">I").unpack_from
_two = Struct(">II").unpack_from


class Walker:
    """Splits directions into frames."""

    def __init__(self, output: Output, judge: Judge) -> None:
        self.output = output
        self.judge = judge
        self.snapped = False
        """Whether truncated packets were already reported for this file."""

    # -- bytes ---------------------------------------------------------------------------------------------------

    def feed(self, way: Direction, data: bytes, start: int, end: int, packet: int, time_ns: int) -> None:
        """Add the next bytes of a direction: data[start:end] from that packet."""
        if way.mode == SKIP:
            way.offset += end - start
            return
        if way.partial is not None:
            start = self._pass(way, way.partial, start, end, packet, time_ns)
            if start == end:
                return
        size = end - start
        if len(way.marks) < MAX_MARKS:
            way.marks.append((len(way.run), packet, time_ns))
        else:
            way.marks[-1] = (way.marks[-1][0], packet, time_ns)
        way.run += data[start:end]
        way.offset += size
        if way.mode == SYNC:
            if size < way.need:
                way.need -= size
            else:
                self._cut(way, packet)
        elif way.mode == SNIFF:
            self._sniff(way, packet, final=False)
        else:
            self._look(way, packet, final=False, due=False)

    def _pass(self, way: Direction, partial: Partial, start: int, end: int, packet: int, time_ns: int) -> int:
        """Skip bytes of a frame with missing bytes, without keeping them."""
        size = min(partial.left, end - start)
        partial.left -= size
        way.offset += size
        partial.time_ns = time_ns
        if len(partial.packets) < MAX_MARKS and partial.packets[-1] != packet:
            partial.packets.append(packet)
        if not partial.left:
            self._show(way, partial)
        return start + size

    def _cut(self, way: Direction, packet: int) -> None:
        """Deliver all whole frames from the start of the run."""
        run, position, size, mark = way.run, 0, len(way.run), 0
        base = way.offset - size
        while True:
            left = size - position
            if left < 8:
                way.need = 8 - left
                break
            length, command = _two(run, position)
            total = length + 4
            if command + 4 > length or total > way.limit:
                self._impossible(way, position, packet, total, command)
                return
            checked = way.sync == RESYNC and way.trust <= way.limit
            if total > left:
                if checked and left < HEAD_SIZE:
                    way.need = HEAD_SIZE - left
                    break
                if checked and not follows(run, position, way.limit):
                    self.search(way, position, 1, packet)
                    return
                way.need = total - left
                break
            data = bytes(run[position : position + total])
            if checked:
                good = not way.budget.pay(total, way.offset) or check_frame(data)
                if not good and not follows(run, position + total, way.limit):
                    self.search(way, position, 1, packet)
                    return
                way.trust += total
            mark, packets = carriers_of(way, mark, position, position + total)
            kind = self.output.frame(way, data, base + position, way.sync, packets, max(packets), way.marks[mark][2])
            if kind == CONNECTED:
                raise_limit(way, data)
            position += total
        trim(way, position)

    def _impossible(self, way: Direction, position: int, packet: int, total: int, command: int) -> None:
        """Handle lengths at run[position:] that cannot be a frame's."""
        offset = way.offset - len(way.run) + position
        if total > way.limit:
            text = (
                f"a frame of {total} bytes, but at most {way.limit} are possible: not Pulsar from here on, or damaged"
            )
        else:
            text = f"a command of {command} bytes in a frame of {total}: not Pulsar from here on, or damaged"
        self.output.note(way, "length", text, packet, offset, total)
        self.search(way, position, 1, packet)

    # -- gaps ----------------------------------------------------------------------------------------------------

    def gap(self, way: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Handle ``size`` missing bytes of the direction, truncated by the snap length (``cut``) or lost."""
        if way.mode == SNIFF and way.run:
            self._sniff(way, packet, final=True)
        if way.mode == SEARCH:
            self._look(way, packet, final=True, due=True)
        if way.mode == SKIP:
            way.offset += size
            return
        self._tell(way, size, packet, cut=cut)
        kind, start = ("cut" if cut else "gap"), way.offset
        if way.mode == SYNC and self._bridge(way, size, kind):
            return
        self._leave(way, packet)
        way.offset += size
        if way.stream.kind == "unknown":
            way.mode, way.sync = SNIFF, RESYNC
        else:
            self.search(way, 0, 0, packet)
            assert way.search is not None
            way.search.silent = cut  # reported once per file
        where = "truncated from packets" if cut else "missing from the capture"
        way.trouble.append((start, Problem(kind, f"{size} bytes {where} before this frame")))

    def _tell(self, way: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Add a note for each gap in a stream that may be Pulsar, and one per file with truncated packets."""
        if not cut and (way.stream.kind != "unknown" or not self.judge.may_give_up(way)):
            self.output.note(way, "gap", f"{size} bytes are missing from the capture", packet, way.offset, size)
        elif cut and not self.snapped:
            self.snapped = True
            text = "packets are truncated (snap length): payloads are incomplete, and later frames may be missing"
            self.output.note(way, "snaplen", text, packet, way.offset, size)

    def _bridge(self, way: Direction, size: int, kind: str) -> bool:
        """Carry the frame boundary over a gap. Return False if the gap exceeds the open frame."""
        partial = way.partial or self._open_frame(way)
        if partial is None:
            return False
        missing = min(size, partial.left)
        lost = "truncated from the packet" if kind == "cut" else "missing from the capture"
        partial.problems.append(Problem(kind, f"{missing} bytes {lost} inside this frame"))
        partial.left -= missing
        way.partial = partial
        if missing == size:
            way.offset += size
            if way.sync == START:
                way.sync = ANCHORED
        if not partial.left:
            self._show(way, partial)
        return missing == size

    def _open_frame(self, way: Direction) -> Partial | None:
        """Return the run as an incomplete frame, or None if its length is unknown or impossible."""
        size = len(way.run)
        if size < 4:
            return None
        total: int = _u32(way.run, 0)[0] + 4
        if not max(8, size) <= total <= way.limit:
            return None
        mark, packets = carriers_of(way, 0, 0, size)
        partial = Partial(bytes(way.run), way.offset - size, way.sync, packets, way.marks[mark][2])
        partial.left = total - size
        trim(way, size)
        way.need = 0
        return partial

    def _show(self, way: Direction, partial: Partial) -> None:
        """Deliver an incomplete frame."""
        way.partial = None
        data, packet = partial.data, max(partial.packets)
        if len(data) < _SHOWN:
            text = f"{len(data)} bytes of a frame, too few to determine its command"
            self.output.note(way, "leftover", text, packet, partial.offset, len(data))
            return
        way.trouble += [(partial.offset, problem) for problem in partial.problems]
        self.output.frame(way, data, partial.offset, partial.sync, partial.packets, packet, partial.time_ns)

    def _leave(self, way: Direction, packet: int) -> None:
        """Discard the run and report its bytes."""
        size = len(way.run)
        if size and (way.stream.kind != "unknown" or not self.judge.may_give_up(way)):
            self.output.note(way, "leftover", f"{size} bytes outside complete frames", packet, way.offset - size, size)
        trim(way, size)

    def finish(self, way: Direction, packet: int, reason: str) -> None:
        """End a direction for the given reason, and report the remaining bytes."""
        if way.mode == SNIFF and way.run:
            self._sniff(way, packet, final=True)
        if way.mode == SEARCH:
            self._look(way, packet, final=True, due=True)
        if way.mode == SYNC:
            partial = way.partial or self._open_frame(way)
            if partial is not None:
                partial.problems.append(Problem("cut", f"{reason} {partial.left} bytes before the end of this frame"))
                self._show(way, partial)
        if way.mode != SKIP:
            self._leave(way, packet)
        way.mode, way.next, way.search, way.trouble = SKIP, IGNORE, None, []

    def skip_left_out(self, way: Direction, offset: int, packet: int) -> None:
        """Skip bytes up to ``offset`` that were omitted from an excerpt; a frame begins there."""
        size = offset - way.offset
        self.output.note(way, "gap", f"{size} bytes were omitted from this excerpt", packet, way.offset, size)
        trim(way, len(way.run))
        way.offset, way.partial, way.search, way.trouble = offset, None, None, []
        if way.mode != SNIFF:
            # The position is as certain as it was when the excerpt was created.
            way.mode, way.need = SYNC, 8
            if way.sync == START:
                way.sync = ANCHORED

    def interrupt(self, way: Direction, packet: int) -> None:
        """Restart a direction that continues at an unknown distance."""
        self.finish(way, packet, "another connection begins")
        way.mode, way.sync = SNIFF, RESYNC

    # -- classification and search ---------------------------------------------------------------------------------

    def search(self, way: Direction, position: int, skipped: int, packet: int) -> None:
        """Search for a frame from ``position + skipped`` in the run and in later bytes; drop the bytes before it."""
        trim(way, position)
        base = way.offset - len(way.run)
        way.mode, way.sync, way.trust, way.need = SEARCH, RESYNC, 0, 0
        side = way.from_client if way.connection.oriented else None
        way.search = Search(base, skipped, packet, SEARCH_PACKETS, way.budget, side=side)
        if way.run:
            self._look(way, packet, final=False, due=False)

    def alarm(self, way: Direction, packet: int) -> None:
        """Force a decision of the search if its alarm is due."""
        if way.mode == SEARCH and way.search is not None and packet >= way.search.alarm:
            # The interval doubles, so that a thousand idle connections are not examined all the time.
            way.search.patience *= 2
            way.search.alarm = packet + way.search.patience
            self._look(way, packet, final=False, due=True)

    def _look(self, way: Direction, packet: int, *, final: bool, due: bool) -> None:
        """Continue the search. If a frame is found, the direction changes to SYNC."""
        search = way.search
        assert search is not None
        found = search.look(way.run, way.limit, final=final, due=due)
        trim(way, search.drop())
        if not found:
            if search.dropped > SEARCH_UNKNOWN and self.judge.may_give_up(way):
                self._is(way, "other", packet)
            return
        if search.dropped or (search.first and not search.silent):
            text = f"{search.dropped} bytes were searched; the next frame begins here"
            self.output.note(way, "resync", text, packet, search.base, search.dropped)
        self.judge.orient(way, search.kinds)
        if way.stream.kind in ("unknown", "proxy"):
            self._is(way, "pulsar", packet)
        way.mode, way.search, way.trust = SYNC, None, 0
        self._cut(way, packet)

    def _sniff(self, way: Direction, packet: int, *, final: bool) -> None:
        """Classify the stream by the first bytes of this direction."""
        verdict = self.judge.verdict(way, final=final)
        if not verdict:
            return
        if verdict == "proxy":
            self._proxy(way, packet, final=final)
            return
        if verdict == "search":
            self.search(way, 0, 0, packet)
            return
        if way.stream.kind != verdict:
            self._is(way, verdict, packet)
        if verdict == "pulsar":
            way.mode = SYNC
            self._cut(way, packet)

    def _proxy(self, way: Direction, packet: int, *, final: bool) -> None:
        """Handle a PROXY header at the start."""
        found = self.judge.proxy(way)
        if found is None and not final:
            return
        size, text = found or (0, "")
        if not size:
            self._is(way, "other", packet)
            return
        self.output.note(way, "proxy-protocol", f"PROXY header: {text}", packet, way.offset - len(way.run), size)
        way.stream.kind = "proxy"
        trim(way, size)
        if way.run:
            self._sniff(way, packet, final=final)

    def _is(self, way: Direction, kind: str, packet: int) -> None:
        """Set the stream's kind. A stream that is not Pulsar is reported once and skipped from now on."""
        way.stream.kind = kind
        if kind == "pulsar":
            return
        name, text = self.judge.advice(kind)
        self.output.note(way, name, text, packet, way.offset - len(way.run), 0)
        for each in (way, way.peer):
            each.mode, each.next, each.search, each.partial, each.trouble = SKIP, IGNORE, None, None, []
            each.run.clear()
            each.marks.clear()
            each.held.clear()
            each.need = each.held_bytes = 0


def raise_limit(way: Direction, data: bytes) -> None:
    """Raise the frame size limit to the maximum message size in CONNECTED plus the size of the headers."""
    announced = Frame(data, CONNECTED).command.connected.max_message_size
    limit = min(way.limit - DEFAULT_MAX_MESSAGE_SIZE + announced, MOST_FRAME)
    if announced > 0 and limit > way.limit:
        way.limit = way.peer.limit = limit
