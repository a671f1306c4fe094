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
    Aligned,
    Connection,
    Direction,
    Encrypted,
    IncompleteFrame,
    Skipped,
    Unclassified,
)
from pcli.codec.capture.frames import ANCHORED, RESYNC, START
from pcli.codec.capture.output import Output, carriers_of, trim
from pcli.codec.capture.resync import Search, check_frame, follows
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.tls import KeyLog, TlsError, TlsSession
from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

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
        mode = direction.mode
        if isinstance(mode, Skipped):
            direction.offset += end - start
            return
        if isinstance(mode, Encrypted):
            direction.offset += end - start
            self._decrypt(direction, mode, data[start:end], packet, time_ns)
            return
        if isinstance(mode, IncompleteFrame):
            start = self._pass(direction, mode, start, end, packet, time_ns)
            if start == end:
                return
            mode = mode.after
        size = end - start
        if len(direction.marks) < MAX_MARKS:
            direction.marks.append((len(direction.run), packet, time_ns))
        else:
            direction.marks[-1] = (direction.marks[-1][0], packet, time_ns)
        direction.run += data[start:end]
        direction.offset += size
        if isinstance(mode, Aligned):
            if size < mode.need:
                mode.need -= size
            else:
                self._cut(direction, mode, packet)
        elif isinstance(mode, Unclassified):
            self._sniff(direction, mode, packet, final=False)
        else:
            self._look(direction, mode, packet, final=False, due=False)

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

    def _cut(self, direction: Direction, mode: Aligned, packet: int) -> None:
        """Deliver all whole frames from the start of the run."""
        run, position, size, mark = direction.run, 0, len(direction.run), 0
        base = direction.offset - size
        while True:
            left = size - position
            if left < 8:
                mode.need = 8 - left
                break
            length, command = _two(run, position)
            total = length + 4
            if command + 4 > length or total > direction.limit:
                self._impossible(direction, position, packet, total, command)
                return
            checked = mode.sync == RESYNC and mode.checked_bytes <= direction.limit
            if total > left:
                if checked and left < HEAD_SIZE:
                    mode.need = HEAD_SIZE - left
                    break
                if checked and not follows(run, position, direction.limit):
                    self.search(direction, position, 1, packet, rejected=True)
                    return
                mode.need = total - left
                break
            data = bytes(run[position : position + total])
            if checked:
                good = not direction.budget.spend(total, direction.offset) or check_frame(data)
                if not good and not follows(run, position + total, direction.limit):
                    self.search(direction, position, 1, packet, rejected=True)
                    return
                mode.checked_bytes += total
            mark, packets = carriers_of(direction, mark, position, position + total)
            kind = self.output.frame(
                direction, data, base + position, mode.sync, packets, max(packets), direction.marks[mark][2]
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
        self._decide(direction, packet)
        if isinstance(direction.mode, Encrypted):
            self.stop_decryption(direction, f"{size} bytes are missing from the capture", packet)
        if isinstance(direction.mode, Skipped):
            direction.offset += size
            return
        self._tell(direction, size, packet, cut=cut)
        kind, start = ("cut" if cut else "gap"), direction.offset
        if self._carry_over(direction, size, kind):
            return
        self._leave(direction, packet)
        direction.offset += size
        if direction.stream.kind == "unknown":
            direction.mode = Unclassified(RESYNC)
        else:
            self.search(direction, 0, 0, packet, silent=cut)  # a truncation is reported only once per file
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
        """Keep the frame boundary across a gap. Return False if the boundary is unknown or in the gap."""
        partial = self._open_frame(direction)
        if partial is None:
            return False
        missing = min(size, partial.left)
        lost = "truncated from the packet" if kind == "cut" else "missing from the capture"
        partial.problems.append(Problem(kind, f"{missing} bytes {lost} inside this frame"))
        partial.left -= missing
        if missing == size:
            direction.offset += size
            if partial.after.sync == START:
                partial.after.sync = ANCHORED
        if not partial.left:
            self._show(direction, partial)
        return missing == size

    def _open_frame(self, direction: Direction) -> IncompleteFrame | None:
        """Return the open frame as an incomplete frame, or None if its length is unknown or impossible."""
        mode, size = direction.mode, len(direction.run)
        if isinstance(mode, IncompleteFrame):
            return mode
        if not isinstance(mode, Aligned) or size < 4:
            return None
        total: int = _u32(direction.run, 0)[0] + 4
        if not max(8, size) <= total <= direction.limit:
            return None
        mark, packets = carriers_of(direction, 0, 0, size)
        time_ns = direction.marks[mark][2]
        partial = IncompleteFrame(bytes(direction.run), direction.offset - size, mode, packets, time_ns, total - size)
        trim(direction, size)
        direction.mode, mode.need = partial, 0
        return partial

    def _show(self, direction: Direction, partial: IncompleteFrame) -> None:
        """Deliver an incomplete frame. The direction is aligned afterwards."""
        direction.mode = partial.after
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
        self._decide(direction, packet)
        partial = self._open_frame(direction)
        if partial is not None:
            partial.problems.append(Problem("cut", f"{reason} {partial.left} bytes before the end of this frame"))
            self._show(direction, partial)
        if isinstance(direction.mode, Encrypted):
            self.finish(direction.mode.plain, packet, reason)
        self._leave(direction, packet)
        direction.mode, direction.next, direction.pending_problems = Skipped(), IGNORE, []

    def _decide(self, direction: Direction, packet: int) -> None:
        """Classify the run, or end the search in it, because no byte follows the run."""
        if isinstance(direction.mode, Unclassified) and direction.run:
            self._sniff(direction, direction.mode, packet, final=True)
        if isinstance(direction.mode, Search):
            self._look(direction, direction.mode, packet, final=True, due=True)

    def skip_left_out(self, direction: Direction, offset: int, packet: int) -> None:
        """Skip the bytes before ``offset`` because they were omitted from an excerpt. A frame begins at ``offset``."""
        size, mode = offset - direction.offset, direction.mode
        if isinstance(mode, Encrypted):
            self.gap(direction, size, packet, cut=False)
            return
        self.output.note(
            direction, "gap", f"{size} bytes were omitted from this excerpt", packet, direction.offset, size
        )
        trim(direction, len(direction.run))
        direction.offset, direction.pending_problems = offset, []
        if isinstance(mode, Unclassified):
            return
        if isinstance(mode, IncompleteFrame):
            mode = mode.after
        # The position is as certain as in the original capture.
        direction.mode = aligned = Aligned(RESYNC)
        if isinstance(mode, Aligned):
            aligned.sync = ANCHORED if mode.sync == START else mode.sync
            aligned.checked_bytes = mode.checked_bytes

    def interrupt(self, direction: Direction, packet: int) -> None:
        """Restart a direction after a jump to unrelated sequence numbers."""
        self.finish(direction, packet, "another connection begins")
        direction.mode = Unclassified(RESYNC)

    # -- classification and search ---------------------------------------------------------------------------------

    def search(
        self,
        direction: Direction,
        position: int,
        skipped: int,
        packet: int,
        *,
        rejected: bool = False,
        silent: bool = False,
    ) -> None:
        """Drop the run before ``position``. Search for a frame from ``position + skipped``, also in later bytes.

        ``rejected`` is true if the frame at ``position`` has possible lengths but failed its check (rule 3). A
        ``silent`` search adds no note if the frame begins at its first byte.
        """
        trim(direction, position)
        base = direction.offset - len(direction.run)
        side = direction.from_client if direction.connection.oriented else None
        direction.mode = search = Search(
            base, skipped, packet, SEARCH_PACKETS, direction.budget, side=side, silent=silent
        )
        if direction.run:
            self._look(direction, search, packet, final=False, due=False)

    def check_search(self, direction: Direction, packet: int) -> None:
        """Force a decision of the search if its timer is due."""
        search = direction.mode
        if isinstance(search, Search) and packet >= search.timer:
            # The interval doubles to limit the cost of many idle connections.
            search.interval *= 2
            search.timer = packet + search.interval
            self._look(direction, search, packet, final=False, due=True)

    def _look(self, direction: Direction, search: Search, packet: int, *, final: bool, due: bool) -> None:
        """Continue the search. If a frame is found, the direction is aligned."""
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
        direction.mode = aligned = Aligned(RESYNC)
        self._cut(direction, aligned, packet)

    def _sniff(self, direction: Direction, mode: Unclassified, packet: int, *, final: bool) -> None:
        """Classify the stream by the first bytes of this direction."""
        verdict = self.classifier.verdict(direction, mode, final=final)
        if not verdict:
            return
        if verdict == "proxy":
            self._proxy(direction, mode, packet, final=final)
            return
        if verdict == "search":
            self.search(direction, 0, 0, packet)
            return
        if direction.stream.kind != verdict:
            self._is(direction, verdict, packet)
        if verdict == "pulsar":
            direction.mode = aligned = Aligned(mode.sync)
            self._cut(direction, aligned, packet)

    def _proxy(self, direction: Direction, mode: Unclassified, packet: int, *, final: bool) -> None:
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
            self._sniff(direction, mode, packet, final=final)

    def _begin_decryption(self, direction: Direction) -> None:
        """Decrypt both directions of a TLS stream from here on."""
        connection = direction.connection
        stream = connection.stream
        stream.kind, stream.decrypted = "unknown", True
        session = TlsSession(self.key_log)
        plain = Connection(stream, direction.limit, connection.keys, first_is_client=connection.there.from_client)
        plain.oriented = True
        for outer, inner in ((connection.there, plain.there), (connection.back, plain.back)):
            inner.isn = 0
            outer.mode = Encrypted(inner, session)
        for outer in (connection.there, connection.back):
            run, marks = bytes(outer.run), outer.marks
            outer.run, outer.marks = bytearray(), []
            for place, (start, packet, time_ns) in enumerate(marks):
                end = marks[place + 1][0] if place + 1 < len(marks) else len(run)
                if isinstance(outer.mode, Encrypted):
                    self._decrypt(outer, outer.mode, run[start:end], packet, time_ns)

    def _decrypt(self, direction: Direction, mode: Encrypted, data: bytes, packet: int, time_ns: int) -> None:
        """Decrypt the next bytes of a direction and process the decrypted bytes."""
        try:
            plain = mode.session.feed(data, from_client=direction.from_client)
        except TlsError as error:
            self.stop_decryption(direction, str(error), packet)
            return
        if plain:
            self.take_plain(direction, mode, plain, packet, time_ns)

    def take_plain(self, direction: Direction, mode: Encrypted, data: bytes, packet: int, time_ns: int) -> None:
        """Process the next decrypted bytes of a direction."""
        self.feed(mode.plain, data, 0, len(data), packet, time_ns)

    def stop_decryption(self, direction: Direction, reason: str, packet: int) -> None:
        """Skip the rest of a direction that cannot be decrypted."""
        self.output.note(direction, "tls", f"{reason}; the rest is not decrypted", packet, direction.offset, 0)
        self.finish(direction, packet, "the decryption ends")

    def _is(self, direction: Direction, kind: str, packet: int) -> None:
        """Set the stream's kind. A stream that is not Pulsar is reported once and then skipped."""
        direction.stream.kind = kind
        if kind == "pulsar":
            return
        if kind == "tls" and self.key_log and not direction.stream.decrypted:
            self._begin_decryption(direction)
            return
        name, text = self.classifier.advice(kind)
        self.output.note(direction, name, text, packet, direction.offset - len(direction.run), 0)
        for each in (direction, direction.peer):
            if isinstance(each.mode, Encrypted):
                self.finish(each.mode.plain, packet, "the decryption ends")
            each.mode, each.next, each.pending_problems = Skipped(), IGNORE, []
            each.run.clear()
            each.marks.clear()
            each.held.clear()
            each.held_bytes = 0


def raise_limit(direction: Direction, data: bytes) -> None:
    """Raise the frame size limit to the maximum message size in CONNECTED plus the size of the headers."""
    announced = Frame(data, CONNECTED).command.connected.max_message_size
    limit = min(direction.limit - DEFAULT_MAX_MESSAGE_SIZE + announced, MAX_FRAME_LIMIT)
    if announced > 0 and limit > direction.limit:
        direction.limit = direction.peer.limit = limit
