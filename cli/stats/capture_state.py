"""The state of a capture at a given time, from a tracker that processes all frames up to this time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pcli.cli.common.output import Exit, counted, say
from pcli.cli.common.times import epoch_ns, moment_text

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.codec.capture import ReadOptions
    from pcli.codec.observe.tracking.tracker import Tracker


@dataclass(slots=True)
class CaptureState:
    """The tracker of a capture that was read up to a given time."""

    tracker: Tracker
    reading: CaptureReading
    at: str
    """The given time as text, empty for the end of the capture."""
    continues: bool
    """Whether the capture has frames after the given time."""
    truncated: bool
    """Whether the capture ends within a frame or a connection."""
    packets: PacketIndex | None
    """The packet numbers of the frames, if requested."""

    @property
    def doubt(self) -> str:
        """Why the state at the given time is unknown; empty if it is known."""
        unknown = self.at and self.truncated and not self.continues
        return "the capture is truncated before that time" if unknown else ""

    def moment(self) -> int:
        """Print and return the time of the state. Raises LocalError if the capture begins later."""
        from pcli.codec.errors import LocalError

        first_ns, capture = self.reading.first_ns, self.tracker.capture
        until_ns = epoch_ns("--at", self.at) if self.at else capture.last_ns
        if self.at and until_ns < first_ns:
            raise LocalError(f"--at {self.at}: the capture begins later, at {moment_text(first_ns)}")
        if not self.continues:
            if self.at and capture.frames and not self.truncated:
                say(f"--at {self.at}: the capture has no later frame; its last state is shown")
            until_ns = capture.last_ns
        if until_ns:
            say(f"state at {moment_text(until_ns)}, {(until_ns - first_ns) / 1e9:.3f} s after the first frame")
        return until_ns

    def finish(self, nothing: str = "") -> Exit:
        """Return the exit code. If ``nothing`` is not empty, print it with the number of frames."""
        code = self.reading.finish()
        if nothing:
            say(f"{nothing} in {counted(self.tracker.capture.frames, 'frame')}")
        return code


def read_state(
    files: Sequence[str], options: ReadOptions, at: str = "", *, packet_numbers: bool = False
) -> CaptureState:
    """Read the inputs to their end, or up to the time ``at``, the value of the option."""
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.codec.observe.tracking.tracker import Tracker

    until_ns = epoch_ns("--at", at) if at else None
    tracker, over, whole = Tracker(), False, True
    packets = PacketIndex() if packet_numbers else None

    def is_over(time_ns: int) -> bool:
        nonlocal over
        over = over or (until_ns is not None and time_ns > until_ns)
        return over

    reading = CaptureReading(files, options=options, system=True, connections=tracker.connections)
    reading.on_note = lambda note: None if over else tracker.note(note)
    reading.on_end = lambda end: None if is_over(end.time_ns) else tracker.ended(end)
    for facts in reading.facts():
        if is_over(facts.frame.time_ns):
            break
        tracker.see(facts)
        if packets is not None:
            packets.add(facts.frame)
        whole = not facts.frame.capture_problems
    capture = tracker.capture
    return CaptureState(tracker, reading, at, over, capture.damaged or not (whole or capture.cut), packets)
