"""One line of text for each frame, for `dissect`, `follow` and the live log of `broker` and `proxy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pcli.cli.common.output import colored
from pcli.cli.common.times import TimeFormat, time_writer

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.observe import Facts

_RED, _CYAN, _GREEN, _PLAIN, _DIM = "\x1b[31m", "\x1b[36m", "\x1b[32m", "\x1b[0m", "\x1b[2m"

_MAX_PEERS: Final = 10_000
"""Maximum number of streams whose addresses are kept as text."""


def text_writer(
    reading: CaptureReading, style: TimeFormat, *, color: bool, packet_numbers: bool = False
) -> Callable[[Facts], str]:
    """Return a function that formats a frame as one line.

    Columns: frame number, packet number (optional), time, the client's address with the direction, type, contents,
    latency, problems.
    """
    from pcli.codec.observe.fields.general_fields import problems_of
    from pcli.codec.observe.output.frame_summary import describe
    from pcli.codec.observe.text_format import latency_text, printable
    from pcli.codec.wire import name_of

    write_time = time_writer(style)
    painted = color and colored()
    peers: dict[int, str] = {}
    shown_before = 0

    def line(facts: Facts) -> str:
        nonlocal shown_before
        frame = facts.frame
        now = frame.time_ns
        before = shown_before or now if style == "dd" else reading.before_ns
        shown_before = now
        peer = peers.get(frame.stream.number)
        if peer is None:
            if len(peers) > _MAX_PEERS:
                peers.clear()
            address, port = frame.stream.client
            peer = peers[frame.stream.number] = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        arrow = "→" if frame.from_client else "←"
        name = name_of(frame.type)
        problems = problems_of(facts)
        tail = f"  ({latency_text(facts.latency_ns)})" if facts.latency_ns >= 0 else ""
        packet = f" packet {frame.packet:<6}" if packet_numbers else ""
        head = f"frame {frame.number:<6}{packet} {write_time(now, reading.first_ns, before):>10}  {peer} {arrow} "
        if not painted:
            for problem in problems:
                tail += f"  [{printable(problem)}]"
            return f"{head}{name:<20} {describe(facts)}{tail}".rstrip()
        tint = _RED if problems or "ERROR" in name else _CYAN if frame.from_client else _GREEN
        warned = "".join(f"  {_RED}[{printable(problem)}]{_PLAIN}" for problem in problems)
        return f"{_DIM}{head}{_PLAIN}{tint}{name:<20}{_PLAIN} {describe(facts)}{_DIM}{tail}{_PLAIN}{warned}"

    return line
