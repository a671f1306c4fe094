"""The script of a replay, built from a capture: the steps of both sides, and a list of steps that cannot be replayed.

Rules of this file
1. A connection begins with CONNECT. If it began before the capture, its handshake is composed from what later frames
   prove (composed_starts.py).
2. Frames of the broker's internal client (system topics, transaction ends, compaction) are omitted, because the live
   broker also has an internal client.
3. The script ends at the first gap in a replayed connection: later steps on any connection may depend on the missing
   bytes.
4. Commands that cannot be replayed are listed with the reason; their content is never guessed.
5. Steps are in capture order across all connections. The player derives causality from that order (player.py).
6. A pause of more than six hours is shortened to six hours: no broker operation takes longer, and a damaged timestamp
   may be years ahead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from pcli.codec.capture import CapturedFrame, Note, StreamEnd
from pcli.codec.capture.frames import RESYNC, START
from pcli.codec.errors import CaptureError
from pcli.codec.observe import Facts, Observer
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.replay.player.script.command_order import in_order_of_effects
from pcli.replay.player.script.composed_starts import ComposedStarts, compose_starts
from pcli.replay.player.script.script import FEATURES_OF_5, CapturedConnection, Script, Step

_CONNECT: Final = BY_NAME["CONNECT"].number
_MS: Final = 1_000_000
_LONGEST_MS: Final = 6 * 3600 * 1000


Wanted = Callable[[Facts], bool]

_Event = CapturedFrame | Note | StreamEnd


def build_script(
    events: Iterable[_Event], *, only: int | None = None, wanted: Wanted | None = None, newer: bool = True
) -> Script:
    """Return the script of a capture.

    ``only`` is the number of the only connection to replay. ``wanted`` is a filter: only connections with a matching
    frame are replayed. ``newer`` includes connections with features of Pulsar 5.0. Raises CaptureError, with a
    description of the capture's content, if there is no Pulsar frame.
    """
    recorded = list(events)
    found = _observe(recorded)
    if not found.seen:
        reason = f": {found.others.most_common(1)[0][0]}" if found.others else ""
        raise CaptureError(f"the capture contains no Pulsar frame{reason}")
    starts = compose_starts(found.seen, found.ends)
    if starts.frames:
        found = _observe(_with_starts(recorded, starts))
    script = Script(left_out=found.others + starts.left_out)
    streams: dict[int, list[Facts]] = {}
    for facts in found.seen:
        streams.setdefault(facts.frame.stream.number, []).append(facts)
    steps: list[Step] = []
    for number, frames in streams.items():
        if only is None or only == number:
            reason = _why_not(frames, wanted, known_start=number in starts.frames)
            if not reason and not newer and any(_is_newer(facts.frame.type) for facts in frames):
                reason = "connections with features of Pulsar 5.0: scalable topics, watched coordinators"
            if reason:
                script.left_out[reason] += 1
            else:
                steps += _play(script, frames, found.ends.get(number))
    script.composed = [
        f"stream {number}: {text}" for number in script.connections for text in starts.texts.get(number, ())
    ]
    steps.sort(key=_position)
    _shorten_pauses(steps)
    script.steps = in_order_of_effects(_up_to_hole(script, steps, _Certainty(starts, found.gaps)))
    for index, step in enumerate(script.steps):
        step.index = index
    return script


def _shorten_pauses(steps: list[Step]) -> None:
    """Shorten long pauses (rule 6)."""
    ahead = 0.0
    for before, step in pairwise(steps):
        step.time_ms -= ahead
        if step.time_ms - before.time_ms > _LONGEST_MS:
            ahead += step.time_ms - before.time_ms - _LONGEST_MS
            step.time_ms = before.time_ms + _LONGEST_MS


def _with_starts(events: Iterable[_Event], starts: ComposedStarts) -> Iterator[_Event]:
    """Yield the events with the composed frames, and without the omitted frames."""
    for frames in starts.frames.values():
        yield from frames
    yield from (one for one in events if not isinstance(one, CapturedFrame) or one.number not in starts.omitted)


@dataclass(frozen=True, slots=True)
class _Certainty:
    """The frames whose position in the connection is certain."""

    starts: ComposedStarts
    gaps: dict[int, int]
    """The packet of the first gap of each connection."""

    def broken(self, frame: CapturedFrame) -> bool:
        """Return whether bytes before or in a frame are missing. A start that was composed is not a gap."""
        number = frame.stream.number
        composed = number in self.starts.frames and frame.packet < self.gaps.get(number, frame.packet + 1)
        expected = (START, RESYNC) if composed else (START,)
        return frame.sync not in expected or bool(frame.capture_problems) or frame.missing > 0


def _up_to_hole(script: Script, steps: list[Step], certainty: _Certainty) -> list[Step]:
    for count, step in enumerate(steps):
        if step.frame is not None and certainty.broken(step.frame):
            script.left_out["frames from the first gap or cut packet on"] += len(steps) - count
            return steps[:count]
    return steps


@dataclass(slots=True)
class _Observed:
    """The content of a capture."""

    seen: list[Facts] = field(default_factory=list)
    ends: dict[int, StreamEnd] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    """The protocols of the connections without Pulsar frames."""
    gaps: dict[int, int] = field(default_factory=dict)
    """The packet of the first gap of each connection."""


def _observe(events: Iterable[_Event]) -> _Observed:
    observer, found = Observer(), _Observed()
    for event in events:
        if isinstance(event, CapturedFrame):
            found.seen.append(observer.see(event))
        elif isinstance(event, StreamEnd):
            found.ends.setdefault(event.stream.number, event)
        elif event.kind in ("tls", "http", "not-pulsar"):
            found.others[event.text] += 1
        elif event.kind in ("gap", "length") and event.stream is not None:
            found.gaps.setdefault(event.stream.number, event.packet)
    return found


def _play(script: Script, seen: list[Facts], end: StreamEnd | None) -> Iterator[Step]:
    """Yield the steps of one connection."""
    stream = seen[0].frame.stream
    number = stream.number
    script.connections[number] = CapturedConnection(number, stream.client, stream.server)
    for facts in seen:
        frame = facts.frame
        assert isinstance(frame, CapturedFrame)
        if facts.system:
            script.left_out["frames of the broker's internal client"] += 1
        else:
            time_ms = frame.time_ns / _MS
            layout = None if frame.from_client else facts.layout
            yield Step(frame.number, number, time_ms, frame.from_client, frame, facts.peer, facts.request, layout)
    if end is not None:
        yield Step(end.packet, number, end.time_ns / _MS, end.from_client, None, reset=end.reset)


def _why_not(seen: list[Facts], wanted: Wanted | None, *, known_start: bool) -> str:
    """Return the reason why a connection is not replayed, or an empty string if it is replayed.

    ``known_start`` is true if the start of the connection was composed, or lacks only the TCP handshake.
    """
    first = seen[0].frame
    telling = [facts.system for facts in seen if facts.frame.type not in _GREETINGS]
    if telling and all(telling):
        return "connections of the broker's internal client"
    if not (known_start or first.sync == START) or not first.from_client or first.type != _CONNECT:
        return "connections that began before the capture"
    if all(facts.frame.from_client for facts in seen):
        return "connections without a response from the broker"
    if wanted is not None and not any(map(wanted, seen)):
        return "connections without a frame that the filter accepts"
    return ""


def _is_newer(number: int) -> bool:
    """Return whether a command belongs to a feature of Pulsar 5.0."""
    row = COMMANDS.get(number)
    return row is not None and row.feature in FEATURES_OF_5


_GREETINGS: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "CONNECTED", "PING", "PONG"))
"""Commands that do not show which client owns the connection."""


def _position(step: Step) -> tuple[float, bool, int]:
    """Return the sort key for capture order. The end of a connection follows the frames of its packet."""
    return step.time_ms, step.frame is None, step.index
