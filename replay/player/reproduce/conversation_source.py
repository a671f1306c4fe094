"""Python source of a replayed conversation: one statement for each command sent and each response received.

Rules of this file
1. The test expects the responses of the mini-broker in the replay, and passes until these responses change. If a
   response differed from the capture, a comment states the difference and the rule that explains it.
2. The clock is manual. ``advance`` is called for pauses of a second or more, and before frames that a broker timer
   caused.
3. Commands that were not sent and responses that did not arrive are written as comments at their positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.wire.commands import COMMANDS, name_of
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import EXTRA, Outcome
from pcli.replay.player.player import CloseConnection, OpenConnection, SendCommand
from pcli.replay.player.recording_player import RecordingPlayer, TimedEvent
from pcli.replay.player.replay import Replay
from pcli.replay.player.reproduce.command_source import CommandSource
from pcli.replay.player.reproduce.python_source import WIDTH, Group, Node, formatted_lines, literal
from pcli.replay.player.response_matching import KEEP_ALIVE, Pair
from pcli.replay.player.script.script import RESTART, SEED_STREAM, RestCall, Step

_PAUSE_MS: Final = 1000
INDENT: Final = 8
"""Indentation of the conversation's statements."""
_UNCOMMENTED: Final = ("address", "clock", "version")
"""Rules that apply to almost every response and for which no comment is written."""


class ConversationSource:
    """A writer of the statements of one conversation."""

    def __init__(self, replay: Replay, player: RecordingPlayer, service_url: str) -> None:
        """``player`` has finished a replay against a broker at ``service_url``."""
        self._replay, self._steps = replay, player.events
        received = [frame.body for event in player.events if (frame := _received_frame(event)) is not None]
        self.commands = CommandSource(service_url, replay.start_ms, received)
        outcomes = player.outcomes()
        self._outcomes = {id(one.pair): one for one in outcomes}
        self._absent = sorted(_absent(replay, player, outcomes))
        self._clients = _clients(player)
        self._delivered = {_content(frame) for event in player.events if (frame := _received_frame(event)) is not None}
        self._clock_ms = replay.start_ms
        self.lines: list[str] = []

    def _add(self, before: str, node: Node, after: str = "") -> None:
        self.lines += formatted_lines(before, node, INDENT, after)

    def _note(self, text: str) -> None:
        line = f"{' ' * INDENT}# {text}"
        self.lines.append(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…")

    def write(self) -> None:
        """Write all events of the replay."""
        before_ms = self._clock_ms
        for event in self._steps:
            self._note_absent(event.position)
            self._pass_time(event, before_ms)
            before_ms = event.ms
            match event.what:
                case OpenConnection(stream):
                    self._add(f"{self._clients[stream]} = ", "conversation.connect()")
                case SendCommand(stream, data):
                    self._send(self._clients[stream], Frame.of(data), event.ms)
                case CloseConnection(stream):
                    self._add("", f"{self._clients[stream]}.close()")
                case RestCall():
                    self._add("", self.call(event.what))
                case Pair():
                    self._expect(self._clients[event.what.stream], event.what)
        self._note_absent(len(self._replay.script.steps))

    def _pass_time(self, event: TimedEvent, before_ms: int) -> None:
        """Advance the clock after a pause, before a frame that a timer caused, and before a delayed SEND."""
        timed = isinstance(event.what, Pair) and event.ms > before_ms
        if timed or event.ms - before_ms >= _PAUSE_MS or _is_delayed(event):
            gap, self._clock_ms = event.ms - self._clock_ms, event.ms
            if gap:
                self.commands.used.add("clock")
                self._add("", f"broker.clock.advance({gap / 1000})")

    def _note_absent(self, position: int) -> None:
        while self._absent and self._absent[0][0] <= position:
            self._note(self._absent.pop(0)[1])

    def call(self, call: RestCall) -> Node:
        """Return the source of a REST call or a restart."""
        if call == RESTART:
            return "broker.restart()"
        items: list[tuple[str, Node]] = [("", literal(call.method)), ("", self.commands.text(call.path))]
        if call.body is not None:
            items.append(("body=", self.commands.admin_body(call.body)))
        return Group("conversation.admin(", items, ")")

    def _send(self, client: str, frame: Frame, now_ms: int) -> None:
        if frame.type in KEEP_ALIVE:
            return
        if frame.type not in COMMANDS:
            self._note(f">> {name_of(frame.type)} is unknown to this version of the protocol")
            return
        items: list[tuple[str, Node]] = [("", literal(name_of(frame.type)))]
        if frame.command.HasField("send"):
            items.append(("entry=", self._entry(frame)))
        fields = self.commands.fields(frame.body, now_ms)
        self._add(f"{client}.send(", Group("", [*items, *fields], ")"))

    def _entry(self, frame: Frame) -> Node:
        """Return the source of an entry, or a variable with the entry if the broker delivers it later."""
        text = self.commands.describe_entry(frame)
        if text:
            self._note(text)
        entry, content = self.commands.entry(frame), _content(frame)
        if content not in self._delivered:
            return entry
        if content not in self.commands.entries:
            name = self.commands.entries[content] = f"entry{len(self.commands.entries)}"
            self._add(f"{name} = ", entry)
        return self.commands.entries[content]

    def _expect(self, client: str, pair: Pair) -> None:
        frame = pair.frame
        note = _difference(self._outcomes[id(pair)])
        if note:
            self._note(note)
        if frame is None:
            self._add("", f"{client}.expect_close()")
            return
        body = frame.body
        items: list[tuple[str, Node]] = [("", literal(name_of(frame.type)))]
        if frame.command.HasField("message"):
            items.append(("entry=", self.commands.entries.get(_content(frame)) or self.commands.entry(frame)))
            if frame.broker_entry is not None:
                fields = [
                    (f'"{name[:-1]}": ', node) for name, node in self.commands.fields(frame.broker_entry, received=True)
                ]
                items.append(("broker_entry=", Group("{", fields, "}", call=False)))
        self._add(f"{client}.expect(", Group("", [*items, *self.commands.fields(body, received=True)], ")"))


def _received_frame(event: TimedEvent) -> Frame | None:
    return event.what.frame if isinstance(event.what, Pair) else None


def _is_delayed(event: TimedEvent) -> bool:
    """Return whether the event is a SEND with a delivery time."""
    metadata = Frame.of(event.what.data).metadata if isinstance(event.what, SendCommand) else None
    return metadata is not None and metadata.HasField("deliver_at_time")


def _content(frame: Frame) -> bytes:
    """Return metadata and payload of a SEND or MESSAGE, or no bytes for other commands."""
    return frame.data[frame.parts.checked_start :] if frame.parts.checked_start >= 0 else b""


def _clients(player: RecordingPlayer) -> dict[int, str]:
    """Return the variable of each connection, numbered if there are several."""
    parts = list(dict.fromkeys(event.what.stream for event in player.events if isinstance(event.what, OpenConnection)))
    played = [stream for stream in parts if stream != SEED_STREAM]
    return {stream: "client" if len(played) == 1 else f"client{stream}" for stream in played} | {SEED_STREAM: "earlier"}


def _absent(replay: Replay, player: RecordingPlayer, outcomes: list[Outcome]) -> Iterator[tuple[int, str]]:
    """Yield the position of each captured step that the test lacks, and a comment that states the reason."""
    for one in outcomes:
        if one.step is not None and one.pair.order < 0 and one.step.stream != SEED_STREAM:
            rule = next(iter(one.rules.values()), "unexplained")
            yield one.step.index, f"<< {_position(one.step)} did not arrive: {rule}"
    for step in player.not_sent:
        yield step.index, f">> {_position(step)} was not sent: its connection is closed or its ids are unknown"
    for index in replay.preparation.skipped:
        step = replay.script.steps[index]
        if step.from_client:
            yield index, f">> {_position(step)} was not sent: the captured broker dropped it during an unload"


def _position(step: Step) -> str:
    return f"{step.name} of frame {step.frame.number}" if step.frame is not None else step.name


def _difference(outcome: Outcome) -> str:
    """Return a comment about a response's differences from the capture, or an empty string if none is needed."""
    rules = {one.field: outcome.rules.get(one.field, "unexplained") for one in outcome.differences}
    rules = {name: rule for name, rule in rules.items() if rule not in _UNCOMMENTED}
    if outcome.stream == SEED_STREAM or not rules:
        return ""
    if EXTRA in rules:
        return f"not in the capture: {rules[EXTRA]}"
    if "type" in rules:
        return f"captured: << {outcome.name} ({rules['type']})"
    return "differs from the capture: " + ", ".join(f"{name} ({rule})" for name, rule in rules.items())
