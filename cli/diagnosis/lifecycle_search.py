"""How `pcli trace` runs: lives as they come to their ends, those that are wanted, printed.

Rules of this file
1. The tracker sees every frame: a life is that of its message, whatever is asked. Frames that match a question are
   marked as they go by, and a life is asked for its marks when it is over.
2. Nothing is kept but what is open, and with --slowest the slowest so far.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Final

from pcli.cli.common.output import Exit, json_text, say, write_line

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.capture import Note, StreamEnd
    from pcli.codec.observe import Facts
    from pcli.codec.observe.bit_set import Bits
    from pcli.codec.observe.tracking.lifecycle_filter import Wanted
    from pcli.codec.observe.tracking.records.lifecycle import Life

__all__ = ["MOST_DRAWN", "FactsOf", "Mark", "Search", "lives_of", "marks", "show", "wanted"]

MOST_DRAWN: Final = 10
"""Lives in one diagram."""

Mark = tuple["Bits", "Callable[[Facts], bool]"]
"""Where frames are marked, and which."""

FactsOf = Callable[["Callable[[Note], None]", "Callable[[StreamEnd], None]"], Iterator["Facts"]]
"""Gives all frames, and tells in their order what the capture says between them, and which connections end."""


def wanted(
    message_id: str, sequence: str, *, unacked: bool, redelivered: bool, slower_ms: float | None
) -> Wanted:  # fmt: skip
    """What is asked of lives. LocalError: an id or a sequence that is none."""
    from pcli.codec.errors import LocalError
    from pcli.codec.observe.tracking.lifecycle_filter import Wanted
    from pcli.codec.wire import MessageId

    producer, colon, number = sequence.rpartition(":")
    if sequence and not (colon and producer and number.isascii() and number.isdigit()):
        raise LocalError(f"--sequence {sequence}: write PRODUCER:N")
    return Wanted(
        message_id=MessageId.parse(message_id) if message_id else None,
        producer=producer,
        sequence_id=int(number) if sequence else -1,
        unacked=unacked,
        redelivered=redelivered,
        slower_ns=-1 if slower_ms is None else round(slower_ms * 1e6),
    )


def marks(wanted: Wanted, filter_: str, key: str, payload_contains: str) -> list[Mark]:
    """The questions that frames answer; their sets of frames are put into ``wanted``."""
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
    """The lives of a capture that are wanted, in the order in which they are over."""

    def __init__(self, reading: CaptureReading, wanted: Wanted, marks: list[Mark]) -> None:
        self.reading = reading
        self._wanted = wanted
        self._marks = marks
        self._frames = self._messages = 0

    def lives(self, *, slowest: int, count: int) -> Iterator[Life]:
        """At most ``count`` (0: all) of them; with ``slowest`` those that took longest, longest first."""
        from pcli.codec.observe.tracking.lifecycle_filter import is_system
        from pcli.codec.observe.tracking.message_timeline import duration_ns

        lives = (life for life in self._all() if not is_system(life) and self._wanted.holds(life))
        chosen = nlargest(slowest, lives, key=duration_ns) if slowest else lives
        return islice(chosen, count or None)

    def looked_at(self) -> str:
        """What was gone through in words."""
        return f"{self._messages} messages in {self._frames} frames"

    def _all(self) -> Iterator[Life]:
        for life in lives_of(self._facts, self._see):
            self._messages += 1
            yield life

    def _facts(self, on_note: Callable[[Note], None], on_end: Callable[[StreamEnd], None]) -> Iterator[Facts]:
        self.reading.on_note, self.reading.on_end = on_note, on_end
        return self.reading.facts()

    def _see(self, facts: Facts) -> None:
        self._frames += 1
        for bits, match in self._marks:
            if match(facts):
                bits.add(facts.frame.number)


def lives_of(facts_of: FactsOf, see: Callable[[Facts], None]) -> Iterator[Life]:
    """Every life when it is over, the rest at the end; ``see`` sees each frame before a life can end with it."""
    from pcli.codec.observe.tracking.tracker import Tracker

    over: list[Life] = []
    tracker = Tracker(on_life=over.append)
    for facts in facts_of(tracker.note, tracker.ended):
        see(facts)
        tracker.see(facts)
        if over:
            yield from over
            over.clear()
    tracker.finish()
    yield from over


def show(search: Search, output: str, *, slowest: int, count: int, color: bool) -> Exit:
    """Print what is found as ``text``, ``json`` or ``mermaid``; the exit code."""
    lives = search.lives(slowest=slowest, count=count)
    shown = {"text": _show_text, "json": _show_json, "mermaid": _show_mermaid}[output](lives, color)
    code = search.reading.finish()
    if shown:
        return code
    say(f"no message matches, of {search.looked_at()}")
    return Exit.NO


def _show_text(lives: Iterable[Life], color: bool) -> int:
    from pcli.codec.observe.output.message_text import life_lines

    colors = _COLORS if color and sys.stdout.isatty() and "NO_COLOR" not in os.environ else {}
    shown = 0
    for life in lives:
        shown += 1
        for kind, line in life_lines(life):
            begin = colors.get(kind, "")
            write_line(f"{begin}{line}\x1b[0m" if begin else line)
        write_line("")
    return shown


_COLORS: Final = {
    "head": "\x1b[1m",
    "state": "\x1b[36m",
    "refused": "\x1b[31m",
    "asked again": "\x1b[31m",
    "doubt": "\x1b[2m",
}


def _show_json(lives: Iterable[Life], color: bool) -> int:
    from pcli.codec.observe.output.message_json import life_object

    shown = 0
    for life in lives:
        shown += 1
        write_line(json_text(life_object(life)))
    return shown


def _show_mermaid(lives: Iterator[Life], color: bool) -> int:
    from pcli.codec.observe.output.message_text import life_mermaid

    drawn = list(islice(lives, MOST_DRAWN))
    for line in life_mermaid(drawn) if drawn else ():
        write_line(line)
    if next(lives, None) is not None:
        say(f"the first {MOST_DRAWN} messages are drawn: ask for fewer, or take -T text")
    return len(drawn)
