"""The script of a replay, built from a capture: the steps of both sides, and a list of steps that cannot be replayed.

Rules of this file
1. Only connections whose start was captured are replayed: they begin with CONNECT. If a connection started before the
   capture, the commands that created its producers and consumers are unknown.
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
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pcli.codec.capture import CapturedFrame, Note, StreamEnd
from pcli.codec.capture.frames import START
from pcli.codec.errors import CaptureError
from pcli.codec.observe import Facts, Observer
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.replay.player.script.command_order import in_order_of_effects
from pcli.replay.player.script.script import Connection, Script, Step

if TYPE_CHECKING:
    pass

__all__ = ["build_script"]

_CONNECT: Final = BY_NAME["CONNECT"].number
_MS: Final = 1_000_000
_LONGEST_MS: Final = 6 * 3600 * 1000


Wanted = Callable[[Facts], bool]


def build_script(
    events: Iterable[CapturedFrame | Note | StreamEnd],
    *,
    only: int | None = None,
    wanted: Wanted | None = None,
) -> Script:
    """Return the script of a capture.

    ``only`` is the number of the only connection to replay. ``wanted`` is a filter: only connections with a matching
    frame are replayed. Raises CaptureError, with a description of the capture's content, if there is no Pulsar frame.
    """
    seen, ends, others = _observe(events)
    if not seen:
        reason = f": {others.most_common(1)[0][0]}" if others else ""
        raise CaptureError(f"the capture contains no Pulsar frame{reason}")
    script = Script(left_out=others)
    streams: dict[int, list[Facts]] = {}
    for facts in seen:
        streams.setdefault(facts.frame.stream.number, []).append(facts)
    steps: list[Step] = []
    for number, found in streams.items():
        if only is None or only == number:
            steps += _play(script, found, ends.get(number), wanted)
    steps.sort(key=_position)
    _shorten_pauses(steps)
    script.steps = in_order_of_effects(_up_to_hole(script, steps))
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


def _up_to_hole(script: Script, steps: list[Step]) -> list[Step]:
    for count, step in enumerate(steps):
        if step.frame is not None and _broken(step.frame):
            script.left_out["frames from the first gap or cut packet on"] += len(steps) - count
            return steps[:count]
    return steps


def _broken(frame: CapturedFrame) -> bool:
    return frame.sync != START or bool(frame.capture_problems) or frame.missing > 0


def _observe(
    events: Iterable[CapturedFrame | Note | StreamEnd],
) -> tuple[list[Facts], dict[int, StreamEnd], Counter[str]]:
    observer, seen, ends, others = Observer(), [], dict[int, StreamEnd](), Counter[str]()
    for event in events:
        if isinstance(event, CapturedFrame):
            seen.append(observer.see(event))
        elif isinstance(event, StreamEnd):
            ends.setdefault(event.stream.number, event)
        elif event.kind in ("tls", "http", "not-pulsar"):
            others[event.text] += 1
    return seen, ends, others


def _play(script: Script, seen: list[Facts], end: StreamEnd | None, wanted: Wanted | None) -> Iterator[Step]:
    """Yield the steps of one connection, or nothing if it cannot be replayed."""
    reason = _why_not(seen, wanted)
    if reason:
        script.left_out[reason] += 1
        return
    stream = seen[0].frame.stream
    number = stream.number
    script.connections[number] = Connection(number, stream.client, stream.server)
    for facts in seen:
        frame = facts.frame
        assert isinstance(frame, CapturedFrame)
        if facts.system:
            script.left_out["frames of the broker's internal client"] += 1
        else:
            time_ms = frame.time_ns / _MS
            yield Step(frame.number, number, time_ms, frame.from_client, frame, facts.peer, facts.request)
    if end is not None:
        yield Step(end.packet, number, end.time_ns / _MS, end.from_client, None, reset=end.reset)


def _why_not(seen: list[Facts], wanted: Wanted | None) -> str:
    """Return the reason why a connection is not replayed, or an empty string if it is replayed."""
    first = seen[0].frame
    telling = [facts.system for facts in seen if facts.frame.type not in _GREETINGS]
    if telling and all(telling):
        return "connections of the broker's internal client"
    if first.sync != START or not first.from_client or first.type != _CONNECT:
        return "connections that began before the capture"
    if all(facts.frame.from_client for facts in seen):
        return "connections without a response from the broker"
    if any(_is_newer(facts.frame.type) for facts in seen):
        return "connections with features of Pulsar 5.0: scalable topics, watched coordinators"
    if wanted is not None and not any(map(wanted, seen)):
        return "connections without a frame that the filter accepts"
    return ""


def _is_newer(number: int) -> bool:
    """Return whether a command belongs to a feature of Pulsar 5.0, whose segments and leases cannot be recreated."""
    row = COMMANDS.get(number)
    return row is not None and row.feature in ("supports_scalable_topics", "supports_tc_metadata_discovery")


_GREETINGS: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "CONNECTED", "PING", "PONG"))
"""Commands that do not show which client owns the connection."""


def _position(step: Step) -> tuple[float, bool, int]:
    """Return the sort key for capture order. The end of a connection follows the frames of its packet."""
    return step.time_ms, step.frame is None, step.index
