"""Extraction of frames from the bytes of a direction and the gaps between them.

Rules of this file
1. Each byte is added once, in order; a gap is given by its size. This module does not use sequence numbers.
2. The length of the open frame remains valid across a gap: if the gap ends inside the frame, or at its end, the
   position of the next frame is certain ("anchored"). A search starts only if the gap covers the next frame's lengths.
3. The result of a search is checked frame by frame, until the frames together are longer than the largest frame and
   therefore cannot all be in the payload of one frame. If the check fails, the search continues after the failed
   position in the same bytes, so a wrong result loses no later frame.
4. If the key log contains secrets, the bytes of a TLS stream are decrypted and passed to a second pair of directions,
   which have the same Stream. Offsets of frames and notes are those of the decrypted bytes.
5. An incomplete frame is returned when its end is reached, with the available bytes and the reason.
6. This is the slow path. ``fast_path`` extracts frames that are in order directly from the window and updates the same
   fields.
7. `pcli.spark.columnar.split_merge` overrides these methods: gap, skip_left_out, interrupt, search, is_first_cut.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.capture.command_start_patterns import HEAD_SIZE
from pcli.codec.capture.flows import (
    IGNORE,
    MAX_MARKS,
    SEARCH,
    SKIP,
    SNIFF,
    SYNC,
    TLS,
    Connection,
    Direction,
    IncompleteFrame,
)
from pcli.codec.capture.frames import ANCHORED, RESYNC, START
from pcli.codec.capture.output import Output, carriers_of, trim
from pcli.codec.capture.resync import Search, check_frame, follows
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.tls import KeyLog, TlsError, TlsSession
from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

__all__ = ["CONNECTED", "SEARCH_PACKETS", "FrameExtractor", "raise_limit"]

SEARCH_PACKETS: Final = 64
"""Number of packets after which a search accepts a single whole frame as sufficient evidence."""

SEARCH_UNKNOWN: Final = 64 * 1024
"""Number of bytes to search in a stream of unknown kind before it is classified as other."""

MAX_FRAME_LIMIT: Final = 256 * 1024 * 1024
"""Maximum of the frame size limit, regardless of CONNECTED."""

_SHOWN: Final = 10
"""Minimum size of an incomplete frame in bytes, enough to read the type."""

CONNECTED: Final = 3

_u32 = Struct(">I").unpack_from
_two = Struct(">II").unpack_from


class FrameExtractor:
    """A splitter of directions into frames."""

    def __init__(self, output: Output, classifier: StreamClassifier, key_log: KeyLog | None = None) -> None:
        self.output = output
        self.classifier = classifier
        self.key_log = KeyLog() if key_log is None else key_log
        """Secrets to decrypt TLS; without secrets, TLS streams are skipped."""
        self.snapped = False
        """Whether truncated packets were already reported for this file."""

    # -- bytes ---------------------------------------------------------------------------------------------------

    def feed(self, direction: Direction, data: bytes, start: int, end: int, packet: int, time_ns: int) -> None:
        """Add data[start:end], the next bytes of a direction, which the given packet contains."""
        if direction.mode == SKIP:
            direction.offset += end - start
            return
        if direction.mode == TLS:
            direction.offset += end - start
            self._decrypt(direction, data[start:end], packet, time_ns)
            return
        if direction.partial is not None:
            start = self._pass(direction, direction.partial, start, end, packet, time_ns)
            if start == end:
                return
        size = end - start
        if len(direction.marks) < MAX_MARKS:
            direction.marks.append((len(direction.run), packet, time_ns))
        else:
            direction.marks[-1] = (direction.marks[-1][0], packet, time_ns)
        direction.run += data[start:end]
        direction.offset += size
        if direction.mode == SYNC:
            if size < direction.need:
                direction.need -= size
            else:
                self._cut(direction, packet)
        elif direction.mode == SNIFF:
            self._sniff(direction, packet, final=False)
        else:
            self._look(direction, packet, final=False, due=False)

    def _pass(
        self, direction: Direction, partial: IncompleteFrame, start: int, end: int, packet: int, time_ns: int
    ) -> int:
        """Skip and discard bytes of a frame with missing bytes."""
        size = min(partial.left, end - start)
        partial.left -= size
        direction.offset += size
        partial.time_ns = time_ns
        if len(partial.packets) < MAX_MARKS and partial.packets[-1] != packet:
            partial.packets.append(packet)
        if not partial.left:
            self._show(direction, partial)
        return start + size

    def _cut(self, direction: Direction, packet: int) -> None:
        """Deliver all whole frames from the start of the run."""
        run, position, size, mark = direction.run, 0, len(direction.run), 0
        base = direction.offset - size
        while True:
            left = size - position
            if left < 8:
                direction.need = 8 - left
                break
            length, command = _two(run, position)
            total = length + 4
            if command + 4 > length or total > direction.limit:
                self._impossible(direction, position, packet, total, command)
                return
            checked = direction.sync == RESYNC and direction.checked_bytes <= direction.limit
            if total > left:
                if checked and left < HEAD_SIZE:
                    direction.need = HEAD_SIZE - left
                    break
                if checked and not follows(run, position, direction.limit):
                    self.search(direction, position, 1, packet, rejected=True)
                    return
                direction.need = total - left
                break
            data = bytes(run[position : position + total])
            if checked:
                good = not direction.budget.spend(total, direction.offset) or check_frame(data)
                if not good and not follows(run, position + total, direction.limit):
                    self.search(direction, position, 1, packet, rejected=True)
                    return
                direction.checked_bytes += total
            mark, packets = carriers_of(direction, mark, position, position + total)
            kind = self.output.frame(
                direction, data, base + position, direction.sync, packets, max(packets), direction.marks[mark][2]
            )
            if kind == CONNECTED:
                raise_limit(direction, data)
            position += total
        trim(direction, position)

    def _impossible(self, direction: Direction, position: int, packet: int, total: int, command: int) -> None:
        """Handle impossible frame lengths at run[position:]."""
        offset = direction.offset - len(direction.run) + position
        if total > direction.limit:
            limit = direction.limit
            text = f"a frame of {total} bytes, but at most {limit} are possible"
        else:
            text = f"a command of {command} bytes in a frame of {total} bytes"
        text += ": the data from this position is not Pulsar or is damaged"
        self.output.note(direction, "length", text, packet, offset, total)
        self.search(direction, position, 1, packet)

    # -- gaps ----------------------------------------------------------------------------------------------------

    def gap(self, direction: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Handle ``size`` missing bytes of the direction, truncated by the snap length (``cut``) or lost."""
        if direction.mode == SNIFF and direction.run:
            self._sniff(direction, packet, final=True)
        if direction.mode == SEARCH:
            self._look(direction, packet, final=True, due=True)
        if direction.mode == TLS:
            self.stop_decryption(direction, f"{size} bytes are missing from the capture", packet)
        if direction.mode == SKIP:
            direction.offset += size
            return
        self._tell(direction, size, packet, cut=cut)
        kind, start = ("cut" if cut else "gap"), direction.offset
        if direction.mode == SYNC and self._carry_over(direction, size, kind):
            return
        self._leave(direction, packet)
        direction.offset += size
        if direction.stream.kind == "unknown":
            direction.mode, direction.sync, direction.search = SNIFF, RESYNC, None
        else:
            self.search(direction, 0, 0, packet)
            assert direction.search is not None
            direction.search.silent = cut  # a truncation is reported only once per file
        where = "truncated from packets" if cut else "missing from the capture"
        direction.pending_problems.append((start, Problem(kind, f"{size} bytes {where} before this frame")))

    def _tell(self, direction: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Add a note for each gap in a stream that may be Pulsar, and one per file with truncated packets."""
        if not cut and (direction.stream.kind != "unknown" or not self.classifier.may_give_up(direction)):
            self.output.note(
                direction, "gap", f"{size} bytes are missing from the capture", packet, direction.offset, size
            )
        elif cut and self.is_first_cut(direction):
            text = "packets are truncated (snap length): payloads are incomplete, and later frames may be missing"
            self.output.note(direction, "snaplen", text, packet, direction.offset, size)

    def is_first_cut(self, direction: Direction) -> bool:
        """Return whether truncated packets of a direction must be reported: once for each file."""
        first, self.snapped = not self.snapped, True
        return first

    def _carry_over(self, direction: Direction, size: int, kind: str) -> bool:
        """Keep the frame boundary across a gap. Return False if the gap extends beyond the open frame."""
        partial = direction.partial or self._open_frame(direction)
        if partial is None:
            return False
        missing = min(size, partial.left)
        lost = "truncated from the packet" if kind == "cut" else "missing from the capture"
        partial.problems.append(Problem(kind, f"{missing} bytes {lost} inside this frame"))
        partial.left -= missing
        direction.partial = partial
        if missing == size:
            direction.offset += size
            if direction.sync == START:
                direction.sync = ANCHORED
        if not partial.left:
            self._show(direction, partial)
        return missing == size

    def _open_frame(self, direction: Direction) -> IncompleteFrame | None:
        """Return the run as an incomplete frame, or None if its length is unknown or impossible."""
        size = len(direction.run)
        if size < 4:
            return None
        total: int = _u32(direction.run, 0)[0] + 4
        if not max(8, size) <= total <= direction.limit:
            return None
        mark, packets = carriers_of(direction, 0, 0, size)
        partial = IncompleteFrame(
            bytes(direction.run), direction.offset - size, direction.sync, packets, direction.marks[mark][2]
        )
        partial.left = total - size
        trim(direction, size)
        direction.need = 0
        return partial

    def _show(self, direction: Direction, partial: IncompleteFrame) -> None:
        """Deliver an incomplete frame."""
        direction.partial = None
        data, packet = partial.data, max(partial.packets)
        if len(data) < _SHOWN:
            text = f"{len(data)} bytes of a frame, too few to determine its command"
            self.output.note(direction, "leftover", text, packet, partial.offset, len(data))
            return
        direction.pending_problems += [(partial.offset, problem) for problem in partial.problems]
        self.output.frame(direction, data, partial.offset, partial.sync, partial.packets, packet, partial.time_ns)

    def _leave(self, direction: Direction, packet: int) -> None:
        """Discard the run and report its bytes."""
        size = len(direction.run)
        if size and (direction.stream.kind != "unknown" or not self.classifier.may_give_up(direction)):
            self.output.note(
                direction, "leftover", f"{size} bytes outside complete frames", packet, direction.offset - size, size
            )
        trim(direction, size)

    def finish(self, direction: Direction, packet: int, reason: str) -> None:
        """End a direction for the given reason, and report the remaining bytes."""
        if direction.mode == SNIFF and direction.run:
            self._sniff(direction, packet, final=True)
        if direction.mode == SEARCH:
            self._look(direction, packet, final=True, due=True)
        if direction.mode == SYNC:
            partial = direction.partial or self._open_frame(direction)
            if partial is not None:
                partial.problems.append(Problem("cut", f"{reason} {partial.left} bytes before the end of this frame"))
                self._show(direction, partial)
        if direction.decrypted is not None:
            self.finish(direction.decrypted, packet, reason)
        elif direction.mode != SKIP:
            self._leave(direction, packet)
        direction.decrypted = None
        direction.mode, direction.next, direction.search, direction.pending_problems = SKIP, IGNORE, None, []

    def skip_left_out(self, direction: Direction, offset: int, packet: int) -> None:
        """Skip the bytes before ``offset`` because they were omitted from an excerpt. A frame begins at ``offset``."""
        size = offset - direction.offset
        if direction.mode == TLS:
            self.gap(direction, size, packet, cut=False)
            return
        self.output.note(
            direction, "gap", f"{size} bytes were omitted from this excerpt", packet, direction.offset, size
        )
        trim(direction, len(direction.run))
        direction.offset, direction.partial, direction.search, direction.pending_problems = offset, None, None, []
        if direction.mode != SNIFF:
            # The position is as certain as in the original capture.
            direction.mode, direction.need = SYNC, 8
            if direction.sync == START:
                direction.sync = ANCHORED

    def interrupt(self, direction: Direction, packet: int) -> None:
        """Restart a direction after a jump to unrelated sequence numbers."""
        self.finish(direction, packet, "another connection begins")
        direction.mode, direction.sync = SNIFF, RESYNC

    # -- classification and search ---------------------------------------------------------------------------------

    def search(self, direction: Direction, position: int, skipped: int, packet: int, *, rejected: bool = False) -> None:
        """Drop the run before ``position``. Search for a frame from ``position + skipped``, also in later bytes.

        ``rejected`` is true if the frame at ``position`` has possible lengths but failed its check (rule 3).
        """
        trim(direction, position)
        base = direction.offset - len(direction.run)
        direction.mode, direction.sync, direction.checked_bytes, direction.need = SEARCH, RESYNC, 0, 0
        side = direction.from_client if direction.connection.oriented else None
        direction.search = Search(base, skipped, packet, SEARCH_PACKETS, direction.budget, side=side)
        if direction.run:
            self._look(direction, packet, final=False, due=False)

    def check_search(self, direction: Direction, packet: int) -> None:
        """Force a decision of the search if its timer is due."""
        if direction.mode == SEARCH and direction.search is not None and packet >= direction.search.timer:
            # The interval doubles to limit the cost of many idle connections.
            direction.search.interval *= 2
            direction.search.timer = packet + direction.search.interval
            self._look(direction, packet, final=False, due=True)

    def _look(self, direction: Direction, packet: int, *, final: bool, due: bool) -> None:
        """Continue the search. If a frame is found, the direction changes to SYNC."""
        search = direction.search
        assert search is not None
        found = search.advance(direction.run, direction.limit, final=final, due=due)
        trim(direction, search.drop())
        if not found:
            if search.dropped > SEARCH_UNKNOWN and self.classifier.may_give_up(direction):
                self._is(direction, "other", packet)
            return
        if search.dropped or (search.first and not search.silent):
            text = f"{search.dropped} bytes were searched; the next frame begins here"
            self.output.note(direction, "resync", text, packet, search.base, search.dropped)
        self.classifier.orient(direction, search.kinds)
        if direction.stream.kind in ("unknown", "proxy"):
            self._is(direction, "pulsar", packet)
        direction.mode, direction.search, direction.checked_bytes = SYNC, None, 0
        self._cut(direction, packet)

    def _sniff(self, direction: Direction, packet: int, *, final: bool) -> None:
        """Classify the stream by the first bytes of this direction."""
        verdict = self.classifier.verdict(direction, final=final)
        if not verdict:
            return
        if verdict == "proxy":
            self._proxy(direction, packet, final=final)
            return
        if verdict == "search":
            self.search(direction, 0, 0, packet)
            return
        if direction.stream.kind != verdict:
            self._is(direction, verdict, packet)
        if verdict == "pulsar":
            direction.mode = SYNC
            self._cut(direction, packet)

    def _proxy(self, direction: Direction, packet: int, *, final: bool) -> None:
        """Handle a PROXY header at the start of a direction."""
        found = self.classifier.proxy(direction)
        if found is None and not final:
            return
        size, text = found or (0, "")
        if not size:
            self._is(direction, "other", packet)
            return
        self.output.note(
            direction, "proxy-protocol", f"PROXY header: {text}", packet, direction.offset - len(direction.run), size
        )
        direction.stream.kind = "proxy"
        trim(direction, size)
        if direction.run:
            self._sniff(direction, packet, final=final)

    def _begin_decryption(self, direction: Direction) -> None:
        """Decrypt both directions of a TLS stream from here on."""
        connection = direction.connection
        stream = connection.stream
        stream.kind, stream.decrypted = "unknown", True
        connection.tls = TlsSession(self.key_log)
        plain = Connection(stream, direction.limit, connection.keys, first_is_client=connection.there.from_client)
        plain.oriented, plain.tls = True, connection.tls
        for outer, inner in ((connection.there, plain.there), (connection.back, plain.back)):
            inner.isn = 0
            outer.mode, outer.decrypted = TLS, inner
        for outer in (connection.there, connection.back):
            run, marks = bytes(outer.run), outer.marks
            outer.run, outer.marks, outer.need = bytearray(), [], 0
            for place, (start, packet, time_ns) in enumerate(marks):
                end = marks[place + 1][0] if place + 1 < len(marks) else len(run)
                self._decrypt(outer, run[start:end], packet, time_ns)

    def _decrypt(self, direction: Direction, data: bytes, packet: int, time_ns: int) -> None:
        """Decrypt the next bytes of a direction and process the decrypted bytes."""
        session = direction.connection.tls
        if session is None or direction.decrypted is None:
            return
        try:
            plain = session.feed(data, from_client=direction.from_client)
        except TlsError as error:
            self.stop_decryption(direction, str(error), packet)
            return
        if plain:
            self.take_plain(direction, plain, packet, time_ns)

    def take_plain(self, direction: Direction, data: bytes, packet: int, time_ns: int) -> None:
        """Process the next decrypted bytes of a direction."""
        assert direction.decrypted is not None
        self.feed(direction.decrypted, data, 0, len(data), packet, time_ns)

    def stop_decryption(self, direction: Direction, reason: str, packet: int) -> None:
        """Skip the rest of a direction that cannot be decrypted."""
        self.output.note(direction, "tls", f"{reason}; the rest is not decrypted", packet, direction.offset, 0)
        self.finish(direction, packet, "the decryption ends")

    def _is(self, direction: Direction, kind: str, packet: int) -> None:
        """Set the stream's kind. A stream that is not Pulsar is reported once and then skipped."""
        direction.stream.kind = kind
        if kind == "pulsar":
            return
        if kind == "tls" and self.key_log and direction.connection.tls is None:
            self._begin_decryption(direction)
            return
        name, text = self.classifier.advice(kind)
        self.output.note(direction, name, text, packet, direction.offset - len(direction.run), 0)
        for each in (direction, direction.peer):
            each.mode, each.next, each.search, each.partial, each.pending_problems = SKIP, IGNORE, None, None, []
            each.run.clear()
            each.marks.clear()
            each.held.clear()
            each.need = each.held_bytes = 0


def raise_limit(direction: Direction, data: bytes) -> None:
    """Raise the frame size limit to the maximum message size in CONNECTED plus the size of the headers."""
    announced = Frame(data, CONNECTED).command.connected.max_message_size
    limit = min(direction.limit - DEFAULT_MAX_MESSAGE_SIZE + announced, MAX_FRAME_LIMIT)
    if announced > 0 and limit > direction.limit:
        direction.limit = direction.peer.limit = limit
