"""Lifecycles of messages that match a query, printed when they are complete.

Rules of this file
1. The tracker processes every frame, so that lifecycles are complete. Frames that match the query are marked. When a
   lifecycle is complete, its marks determine whether it is selected.
2. Only open lifecycles are kept. With --slowest, the slowest lifecycles so far are also kept.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Final

from pcli.cli.common.output import Exit, colored, json_text, print_json_lines, say, text_width, write_line

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.cli.common.packet_numbers import PacketIndex
    from pcli.codec.observe import Facts
    from pcli.codec.observe.bit_set import Bits
    from pcli.codec.observe.tracking.lifecycle_filter import LifecycleFilter
    from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
    from pcli.codec.observe.tracking.tracker import Tracker

MOST_DRAWN: Final = 10
"""Maximum number of lifecycles in one diagram."""

Mark = tuple["Bits", "Callable[[Facts], bool]"]
"""A set of marked frames, and the condition that frames must meet to be marked."""

FactsOf = Callable[["Tracker"], Iterator["Facts"]]
"""A function that yields all frames. Between frames, it passes notes and ends of connections to the tracker."""


def wanted(
    message_id: str, sequence: str, *, unacked: bool, redelivered: bool, slower_ms: float | None
) -> LifecycleFilter:  # fmt: skip
    """Return the query. Raises LocalError if a message id or a sequence is malformed."""
    from pcli.codec.errors import LocalError
    from pcli.codec.observe.tracking.lifecycle_filter import LifecycleFilter
    from pcli.codec.wire import MessageId

    producer, colon, number = sequence.rpartition(":")
    if sequence and not (colon and producer and number.isascii() and number.isdigit()):
        raise LocalError(f"--sequence {sequence}: write PRODUCER:N")
    return LifecycleFilter(
        message_id=MessageId.parse(message_id) if message_id else None,
        producer=producer,
        sequence_id=int(number) if sequence else -1,
        unacked=unacked,
        redelivered=redelivered,
        slower_ns=-1 if slower_ms is None else round(slower_ms * 1e6),
    )


def marks(wanted: LifecycleFilter, filter_: str, key: str, payload_contains: str) -> list[Mark]:
    """Return the conditions on frames. Their sets of frames are added to ``wanted``."""
    from pcli.codec.observe import compile_filter
    from pcli.codec.observe.bit_set import Bits

    questions: list[Callable[[Facts], bool]] = []
    if filter_:
        questions.append(compile_filter(filter_).match)
    if key:
        questions.append(_with_key(key))
    if payload_contains:
        questions.append(_with_payload(payload_contains.encode()))
    found = [(Bits(), question) for question in questions]
    wanted.frames += [bits for bits, _ in found]
    return found


def _with_key(key: str) -> Callable[[Facts], bool]:
    from pcli.codec.observe.fields.id_readers import id_reader
    from pcli.codec.wire.commands import PAYLOAD_TYPES

    def match(facts: Facts) -> bool:
        get = id_reader("key", facts.frame.type) if facts.frame.type in PAYLOAD_TYPES else None
        value = get(facts) if get is not None else None
        return key == value or (isinstance(value, list) and key in value)

    return match


def _with_payload(part: bytes) -> Callable[[Facts], bool]:
    def match(facts: Facts) -> bool:
        opened = facts.opened
        return opened is not None and any(part in message.payload for message in opened.messages)

    return match


class Search:
    """The lifecycles of a capture that match a query, in the order in which they are complete."""

    def __init__(
        self, reading: CaptureReading, wanted: LifecycleFilter, marks: list[Mark], packets: PacketIndex | None = None
    ) -> None:
        self.reading = reading
        self.packets = packets
        self._wanted = wanted
        self._marks = marks
        self._frames = self._messages = 0

    def lifecycles(self, *, slowest: int, count: int) -> Iterator[Lifecycle]:
        """Yield at most ``count`` lifecycles (0 for all), or only the ``slowest`` lifecycles, slowest first."""
        from pcli.codec.observe.tracking.lifecycle_filter import is_system
        from pcli.codec.observe.tracking.message_timeline import duration_ns

        lifecycles = (
            lifecycle for lifecycle in self._all() if not is_system(lifecycle) and self._wanted.holds(lifecycle)
        )
        chosen = nlargest(slowest, lifecycles, key=duration_ns) if slowest else lifecycles
        return islice(chosen, count or None)

    def examined(self) -> str:
        """Return the number of messages and frames that were examined."""
        return f"{self._messages} messages in {self._frames} frames"

    def _all(self) -> Iterator[Lifecycle]:
        for lifecycle in lifecycles_of(self._facts, self._see):
            self._messages += 1
            yield lifecycle

    def _facts(self, tracker: Tracker) -> Iterator[Facts]:
        self.reading.on_note, self.reading.on_end = tracker.note, tracker.ended
        self.reading.connections = tracker.connections
        return self.reading.facts()

    def _see(self, facts: Facts) -> None:
        self._frames += 1
        if self.packets is not None:
            self.packets.add(facts.frame)
        for bits, match in self._marks:
            if match(facts):
                bits.add(facts.frame.number)


def lifecycles_of(facts_of: FactsOf, see: Callable[[Facts], None]) -> Iterator[Lifecycle]:
    """Yield each lifecycle when it is complete or the capture ends. ``see`` is called with each frame in advance.

    Lifecycles that continue on other segments are steps of these, and are not yielded.
    """
    from pcli.codec.observe.tracking.tracker import Tracker

    over: list[Lifecycle] = []

    def complete(lifecycle: Lifecycle) -> None:
        if not lifecycle.continued:
            over.append(lifecycle)

    tracker = Tracker(on_lifecycle=complete)
    for facts in facts_of(tracker):
        see(facts)
        tracker.see(facts)
        if over:
            yield from over
            over.clear()
    tracker.finish()
    yield from over


def show(search: Search, output: str, *, slowest: int, count: int, color: bool) -> Exit:
    """Print the lifecycles as ``text``, ``json``, ``ndjson`` or ``mermaid``, and return the exit code."""
    lifecycles = search.lifecycles(slowest=slowest, count=count)
    if output == "text":
        shown = _show_text(lifecycles, color, search.packets)
    elif output == "mermaid":
        shown = _show_mermaid(lifecycles)
    else:
        shown = _show_json(lifecycles, output)
    code = search.reading.finish()
    if shown:
        return code
    say(f"none of {search.examined()} matches")
    return Exit.NO


def _show_text(lifecycles: Iterable[Lifecycle], color: bool, packets: PacketIndex | None) -> int:
    from pcli.codec.observe.output.message_text import lifecycle_lines

    colors = _COLORS if color and colored() else {}
    width = text_width()
    shown = 0
    for lifecycle in lifecycles:
        shown += 1
        for kind, line in lifecycle_lines(lifecycle) if width is None else lifecycle_lines(lifecycle, width):
            begin = colors.get(kind, "")
            for part in _fitted(line if packets is None else packets.label(line), width):
                write_line(f"{begin}{part}\x1b[0m" if begin else part)
        write_line("")
    return shown


def _fitted(line: str, width: int | None) -> list[str]:
    """Return one line, or several indented lines if it is wider than the terminal."""
    if width is None or len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line.lstrip(), width, initial_indent=indent, subsequent_indent=f"{indent}    ", break_on_hyphens=False,
        break_long_words=False, drop_whitespace=True,
    )  # fmt: skip


_COLORS: Final = {
    "head": "\x1b[1m",
    "state": "\x1b[36m",
    "refused": "\x1b[31m",
    "asked again": "\x1b[31m",
    "doubt": "\x1b[2m",
}


def _show_json(lifecycles: Iterable[Lifecycle], output: str) -> int:
    from pcli.codec.observe.output.message_json import lifecycle_object

    return print_json_lines((json_text(lifecycle_object(one)) for one in lifecycles), output)


def _show_mermaid(lifecycles: Iterator[Lifecycle]) -> int:
    from pcli.codec.observe.output.message_text import lifecycle_diagram

    drawn = list(islice(lifecycles, MOST_DRAWN))
    for line in lifecycle_diagram(drawn) if drawn else ():
        write_line(line)
    if next(lifecycles, None) is not None:
        say(f"the diagram shows only the first {MOST_DRAWN} messages: select fewer, or use -T text")
    return len(drawn)
