"""The recorded broker: which frames to send to live clients, given their commands. No socket, no clock.

Rules of this file
1. A live client's command is matched to a captured line with the same subject (recorded_conversation.py): preferably
   one with its sequence id or name, then one of the matching connection, then the first.
2. A response is sent when its request has arrived. A MESSAGE is sent when its consumer has permits, the earlier ones to
   that consumer were sent, and the lines that it depends on have occurred. Any other frame is sent when every earlier
   client line has arrived, except FLOWs, ACKs and queries, and every earlier frame on its connection was sent. Pauses
   are not replayed.
3. Request, producer, consumer, watcher and sequence ids are those of the live client; message ids, names, versions and
   the rest are as captured. Broker addresses are replaced by the recorded broker's own.
4. PINGs are answered. A captured query, or a CONNECT, may be repeated and receives its response each time.
5. A command without a captured line is noted. A request receives an ERROR, a lookup its own failed response, a SEND a
   SEND_ERROR, all with NotAllowedError, which clients do not retry. An ACK that requests a response receives one,
   because each client groups ACKs in its own way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import BY_NAME, name_of
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader
from pcli.replay.player.comparison.client_command_rules import Heard, report_on
from pcli.replay.player.comparison.report import Report
from pcli.replay.player.player import HangUp, Say
from pcli.replay.player.recorded_broker_commands import as_captured, permits_of, refusal, spoken
from pcli.replay.player.response_matching import KEEP_ALIVE, Pair
from pcli.replay.player.script.recorded_conversation import OWNERS, QUESTIONS, Owners, Recorded, about
from pcli.replay.player.script.script import Line, Script

__all__ = ["BrokerSide"]

_PING: Final = BY_NAME["PING"].number
_LIVE_IDS: Final = (*OWNERS, "request_id", "sequence_id")
_SOFT: Final = ("sequence_id", "consumer_name", "producer_name", "message_ids")
_NEAR: Final = 32
"""Number of lines to compare: those with the same subject arrive nearly in order."""
_GROUPED: Final = ("ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES")


@dataclass(slots=True)
class _Talk:
    """A live connection."""

    reader: FrameReader = field(default_factory=FrameReader)
    part: int = -1
    """The captured connection that it is matched to; -1 if none."""


class BrokerSide:
    """One replay of a recording to live clients."""

    def __init__(self, script: Script, service_url: str) -> None:
        """``service_url``: the recorded broker's own, for lookup responses."""
        self.script, self._url = script, service_url
        self.heard = Heard(script)
        self.notes: list[str] = []
        """One line for each command that is not in the recording."""
        self._recorded = Recorded(script)
        self._talks: dict[int, _Talk] = {}
        self._owners: Owners = {}
        self._where: dict[Line, tuple[int, int]] = {}
        """Live connection and id of a captured producer, consumer or watcher."""
        self._permits: dict[Line, int] = {}
        self._last: dict[Hashable, Line] = {}
        """The last captured line that was matched, by subject."""
        self._answers: list[tuple[int, int, bytes]] = []
        """A heap of responses to send: index, live connection, frame."""
        self._done: set[int] = set()
        """Indexes of captured lines that were received or sent."""

    # -- input -----------------------------------------------------------------------------------------------------

    def open(self, talk: int) -> None:
        """Add a client's connection with the unique number ``talk``."""
        self._talks[talk] = _Talk()

    def receive(self, talk: int, data: bytes) -> list[Say | HangUp]:
        """Process bytes from a client; return what to send now to any client."""
        out: list[Say | HangUp] = []
        reader = self._talks[talk].reader
        for frame in reader.feed(data):
            if frame.type == _PING:
                out.append(Say(talk, push_frame(pb.CommandPong())))
            elif frame.type not in KEEP_ALIVE:
                self._take(talk, frame)
                out += self._ready()
        return out if reader.error is None else [*out, HangUp(talk)]

    def lost(self, talk: int) -> list[Say | HangUp]:
        """Process the end of a connection that either side closed."""
        part = self._talks.pop(talk).part
        ends = self._recorded.open["END", part]
        if ends:
            self._hear(ends.pop(0), part, None)
        return list(self._ready())

    def _take(self, talk: int, frame: Frame) -> None:
        body, part = frame.body, self._talks[talk].part
        owner = self._owner(talk, frame)
        key = about(frame, owner)
        line = self._likest(self._recorded.open[key], body, part)
        if name_of(frame.type) == "FLOW" and owner is not None:
            self._permits[owner] += body.messagePermits
        if line is None:
            self._take_unknown(talk, frame, key)
            return
        self._recorded.open[key].remove(line)
        self._last[key] = line
        self._bind(talk, line, body)
        self._hear(line, line.part, frame if line.frame is None else as_captured(frame, line.frame))
        if line in self._recorded.answers:
            self._answer(talk, body, line)

    def _owner(self, talk: int, frame: Frame) -> Line | None:
        body = frame.body
        names = (name for name in OWNERS if body is not None and name in body.DESCRIPTOR.fields_by_name)
        return next((self._owners.get((talk, name, getattr(body, name))) for name in names), None)

    @staticmethod
    def _likest(lines: list[Line], body: Any, part: int) -> Line | None:
        def unlike(line: Line) -> tuple[bool, bool, int]:
            assert line.frame is not None
            mine = line.frame.body
            other = any(getattr(mine, name, None) != getattr(body, name, None) for name in _SOFT)
            return other, line.part != part, line.index

        return min(lines[:_NEAR], key=unlike, default=None)

    def _bind(self, talk: int, line: Line, body: Any) -> None:
        """Record which captured connection, producer or consumer a live one is matched to."""
        mine = self._talks[talk]
        makes = [name for name, maker in OWNERS.items() if maker == line.name]
        if makes or line.name == "CONNECT":
            for other in self._talks.values():
                if other.part == line.part:
                    other.part = mine.part
            mine.part = line.part
        for name in makes:
            number = getattr(body, name)
            self._owners[talk, name, number], self._where[line], self._permits[line] = line, (talk, number), 0

    def _hear(self, line: Line | None, part: int, frame: Frame | None) -> None:
        if line is not None:
            self._done.add(line.index)
        self.heard.pairs.append(Pair(line, part, frame, -1, len(self.heard.pairs), None))

    def _take_unknown(self, talk: int, frame: Frame, key: Hashable) -> None:
        """Respond to a command without a captured line (rules 4 and 5)."""
        body, name = frame.body, name_of(frame.type)
        self._hear(None, self._talks[talk].part, frame)
        last = self._last.get(key)
        if name in QUESTIONS and last in self._recorded.answers:
            self._answer(talk, body, last)
            return
        answer = refusal(name, body)
        if answer is not None:
            heappush(self._answers, (-1, talk, push_frame(answer)))
        if name not in _GROUPED:
            topic = getattr(body, "topic", "")
            self.notes.append(f"the recording has no more of {name}{f' for {topic}' if topic else ''}")

    # -- output ----------------------------------------------------------------------------------------------------

    def _answer(self, talk: int, body: Any, line: Line) -> None:
        answer = self._recorded.answers[line]
        assert answer.frame is not None
        assert line.frame is not None
        ids = {name: getattr(body, name) for name in _LIVE_IDS if name in body.DESCRIPTOR.fields_by_name}
        if "sequence_id" in ids and answer.name == "SEND_RECEIPT":
            highest = answer.frame.command.send_receipt.highest_sequence_id
            later = ids["sequence_id"] - line.frame.command.send.sequence_id
            ids["highest_sequence_id"] = highest if highest == MINUS_ONE else (highest + later) & MINUS_ONE
        if answer.name == "CONNECTED":
            reader, most = self._talks[talk].reader, answer.frame.command.connected.max_message_size
            reader.max_frame_size = max(reader.max_frame_size, 2 * most)
        heappush(self._answers, (answer.index, talk, spoken(answer.frame, ids, self._url)))

    def _ready(self) -> Iterator[Say | HangUp]:
        """Yield everything that can be sent now, in capture order."""
        while True:
            line = min([*self._messages(), *self._unasked()], key=lambda one: one.index, default=None)
            if self._answers and (line is None or self._answers[0][0] < line.index):
                index, talk, data = heappop(self._answers)
                self._done.add(index)
                if talk in self._talks:
                    yield Say(talk, data)
            elif line is not None:
                yield from self._say(line)
            else:
                return

    def _messages(self) -> Iterator[Line]:
        for owner, lines in self._recorded.messages.items():
            talk, _ = self._where.get(owner, (-1, 0))
            ready = lines and talk in self._talks and self._permits[owner] > 0
            if ready and all(line.index in self._done for line in self._recorded.needs[lines[0]]):
                yield lines[0]

    def _unasked(self) -> Iterator[Line]:
        bound = self._recorded.bound
        while bound and bound[0].index in self._done:
            bound.popleft()
        for part, lines in self._recorded.unasked.items():
            said = self._recorded.said[part]
            while said and said[0].index in self._done:
                said.popleft()
            first = lines[0] if lines and said[0] is lines[0] else None
            if first is None or (bound and bound[0].index < first.index):
                continue
            if first.frame is None or self._target(first)[0] in self._talks:
                yield first

    def _target(self, line: Line) -> tuple[int, dict[str, int]]:
        """Return the live connection for a captured line, or -1 if none, and the live ids to put in it."""
        owner = self._recorded.owners.get(line)
        if owner is None:
            return next((number for number, talk in self._talks.items() if talk.part == line.part), -1), {}
        talk, number = self._where.get(owner, (-1, 0))
        return talk, {name: number for name, maker in OWNERS.items() if maker == owner.name}

    def _say(self, line: Line) -> Iterator[Say | HangUp]:
        self._done.add(line.index)
        talk, ids = self._target(line)
        owner = self._recorded.owners.get(line)
        if line.name == "MESSAGE" and owner is not None and line.frame is not None:
            self._recorded.messages[owner].popleft()
            self._permits[owner] -= permits_of(line.frame)
        else:
            self._recorded.unasked[line.part].popleft()
        if talk in self._talks:
            yield HangUp(talk) if line.frame is None else Say(talk, spoken(line.frame, ids, self._url))

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def left(self) -> list[Line]:
        """Captured lines of the broker that were not sent."""
        return [
            line
            for line in self.script.lines
            if not line.from_client and line.type not in KEEP_ALIVE and line.index not in self._done
        ]

    @property
    def told(self) -> bool:
        """Whether every line was received or sent and every client has disconnected."""
        return not self._talks and not self.heard.missing() and not self.left

    def report(self) -> Report:
        """Compare the commands of the live clients with the captured ones."""
        return report_on(self.heard, self.script, self.left)
