"""A conversation as it was played, line by line in Python: each command said, each answer asserted.

Rules of this file
1. The test says what the player said, and hears what the mini-broker answered then; so it passes until a broker answers
   otherwise. Where that is not what was captured, a comment says so, with the rule that explains it.
2. Time stands still but for ``advance``: where the capture paused for a second or more, and where a timer of the broker
   made it speak.
3. What can't be said, and what does not come, is a comment at its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.wire.commands import COMMANDS, name_of
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import EXTRA, Outcome
from pcli.replay.player.player import HangUp, Open, Say
from pcli.replay.player.recording_player import Noting, Step
from pcli.replay.player.replay import Replay
from pcli.replay.player.reproduce.command_source import Words
from pcli.replay.player.reproduce.python_source import WIDTH, Group, Node, laid_out, literal
from pcli.replay.player.response_matching import KEEP_ALIVE, Pair
from pcli.replay.player.script.rest_calls import RESTART, Call
from pcli.replay.player.script.script import Line
from pcli.replay.player.script.seed_messages import SEED_PART

__all__ = ["INDENT", "Retelling"]

_PAUSE_MS: Final = 1000
INDENT: Final = 8
"""Spaces before a line of the conversation."""
_QUIET: Final = ("address", "clock", "version")
"""Rules that nobody needs to read at every answer."""


class Retelling:
    """The lines of one conversation."""

    def __init__(self, replay: Replay, noted: Noting, service_url: str) -> None:
        """``noted``: who has played it, against a broker at ``service_url``."""
        self._replay, self._steps = replay, noted.steps
        heard = [frame.body for step in noted.steps if (frame := _heard(step)) is not None]
        self.words = Words(service_url, replay.start_ms, heard)
        outcomes = noted.outcomes()
        self._outcomes = {id(one.pair): one for one in outcomes}
        self._absent = sorted(_absent(replay, noted, outcomes))
        self._clients = _clients(noted)
        self._delivered = {_content(frame) for step in noted.steps if (frame := _heard(step)) is not None}
        self._clock_ms = replay.start_ms
        self.lines: list[str] = []

    def _add(self, before: str, node: Node, after: str = "") -> None:
        self.lines += laid_out(before, node, INDENT, after)

    def _note(self, text: str) -> None:
        line = f"{' ' * INDENT}# {text}"
        self.lines.append(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…")

    def write(self) -> None:
        """Write every step."""
        before_ms = self._clock_ms
        for step in self._steps:
            self._tell_absent(step.place)
            self._pass_time(step, before_ms)
            before_ms = step.ms
            match step.what:
                case Open(part):
                    self._add(f"{self._clients[part]} = ", "talk.connect()")
                case Say(part, data):
                    self._say(self._clients[part], Frame.of(data), step.ms)
                case HangUp(part):
                    self._add("", f"{self._clients[part]}.close()")
                case Call():
                    self._add("", self.call(step.what))
                case Pair():
                    self._hear(self._clients[step.what.part], step.what)
        self._tell_absent(len(self._replay.script.lines))

    def _pass_time(self, step: Step, before_ms: int) -> None:
        """Advance where it matters: what came while time went on was said by a timer, and delays begin now."""
        timed = isinstance(step.what, Pair) and step.ms > before_ms
        if timed or step.ms - before_ms >= _PAUSE_MS or _is_delayed(step):
            gap, self._clock_ms = step.ms - self._clock_ms, step.ms
            if gap:
                self.words.used.add("clock")
                self._add("", f"broker.clock.advance({gap / 1000})")

    def _tell_absent(self, place: int) -> None:
        while self._absent and self._absent[0][0] <= place:
            self._note(self._absent.pop(0)[1])

    def call(self, call: Call) -> Node:
        """A call of the REST interface, or what stands for it."""
        if call == RESTART:
            return "broker.restart()"
        items: list[tuple[str, Node]] = [("", literal(call.method)), ("", self.words.text(call.path))]
        if call.body is not None:
            items.append(("body=", self.words.admin_body(call.body)))
        return Group("talk.admin(", items, ")")

    def _say(self, client: str, frame: Frame, now_ms: int) -> None:
        if frame.type in KEEP_ALIVE:
            return
        if frame.type not in COMMANDS:
            self._note(f">> {name_of(frame.type)} is no command of this version")
            return
        items: list[tuple[str, Node]] = [("", literal(name_of(frame.type)))]
        if frame.command.HasField("send"):
            items.append(("entry=", self._entry(frame)))
        fields = self.words.fields(frame.body, now_ms)
        self._add(f"{client}.say(", Group("", [*items, *fields], ")"))

    def _entry(self, frame: Frame) -> Node:
        """The entry, or the variable that it is put into since it is heard again."""
        text = self.words.of_entry(frame)
        if text:
            self._note(text)
        entry, content = self.words.entry(frame), _content(frame)
        if content not in self._delivered:
            return entry
        if content not in self.words.entries:
            name = self.words.entries[content] = f"entry{len(self.words.entries)}"
            self._add(f"{name} = ", entry)
        return self.words.entries[content]

    def _hear(self, client: str, pair: Pair) -> None:
        frame = pair.frame
        note = _difference(self._outcomes[id(pair)])
        if note:
            self._note(note)
        if frame is None:
            self._add("", f"{client}.hear_end()")
            return
        body = frame.body
        items: list[tuple[str, Node]] = [("", literal(name_of(frame.type)))]
        if frame.command.HasField("message"):
            items.append(("entry=", self.words.entries.get(_content(frame)) or self.words.entry(frame)))
            if frame.broker_entry is not None:
                fields = [
                    (f'"{name[:-1]}": ', node) for name, node in self.words.fields(frame.broker_entry, heard=True)
                ]
                items.append(("broker_entry=", Group("{", fields, "}", call=False)))
        self._add(f"{client}.hear(", Group("", [*items, *self.words.fields(body, heard=True)], ")"))


def _heard(step: Step) -> Frame | None:
    return step.what.frame if isinstance(step.what, Pair) else None


def _is_delayed(step: Step) -> bool:
    """Whether a message is sent that is to be delivered at its time."""
    metadata = Frame.of(step.what.data).metadata if isinstance(step.what, Say) else None
    return metadata is not None and metadata.HasField("deliver_at_time")


def _content(frame: Frame) -> bytes:
    """Metadata and payload of a SEND or MESSAGE; empty for others."""
    return frame.data[frame.parts.checked_start :] if frame.parts.checked_start >= 0 else b""


def _clients(noted: Noting) -> dict[int, str]:
    """What each connection is called: by its number, unless it is the only one."""
    parts = list(dict.fromkeys(step.what.part for step in noted.steps if isinstance(step.what, Open)))
    played = [part for part in parts if part != SEED_PART]
    return {part: "client" if len(played) == 1 else f"client{part}" for part in played} | {SEED_PART: "earlier"}


def _absent(replay: Replay, noted: Noting, outcomes: list[Outcome]) -> Iterator[tuple[int, str]]:
    """Lines of the capture that are not in the test: their place, and why."""
    for one in outcomes:
        if one.line is not None and one.pair.order < 0 and one.line.part != SEED_PART:
            rule = next(iter(one.rules.values()), "unexplained")
            yield one.line.index, f"<< {_place(one.line)} does not come: {rule}"
    for line in noted.unsaid:
        yield line.index, f">> {_place(line)} is not said: its connection or its ids are not there"
    for index in replay.preparation.unsaid:
        line = replay.script.lines[index]
        if line.from_client:
            yield index, f">> {_place(line)} is not said: the captured broker lost it while it unloaded the topic"


def _place(line: Line) -> str:
    return f"{line.name} of frame {line.frame.number}" if line.frame is not None else line.name


def _difference(outcome: Outcome) -> str:
    """What was captured otherwise; empty: nothing that matters."""
    told = {one.field: outcome.rules.get(one.field, "unexplained") for one in outcome.differences}
    told = {name: rule for name, rule in told.items() if rule not in _QUIET}
    if outcome.part == SEED_PART or not told:
        return ""
    if EXTRA in told:
        return f"not in the capture: {told[EXTRA]}"
    if "type" in told:
        return f"captured: << {outcome.name} ({told['type']})"
    return "captured otherwise: " + ", ".join(f"{name} ({rule})" for name, rule in told.items())
