"""The player: which commands to send next, given the live broker's responses and the time. No socket, no clock.

Rules of this file
1. Causality: a client's line is sent when every response before it in the capture, on any connection, has arrived, and
   every earlier client line was sent. The captured client had received no more, and the broker was in no other state.
   This keeps a SEND after its PRODUCER_SUCCESS and an ACK after its MESSAGE, and also the order between connections: a
   SUBSCRIBE before the SEND, a CLOSE before the next SUBSCRIBE.
2. Time: a line is not sent before its time in the capture, scaled by the speed. Without a speed only causality counts.
3. Every wait ends: a response is awaited for the captured pause before it plus ``patience``. It may arrive later; if it
   never does, that is a difference.
4. A PING is answered immediately with a PONG. The captured PONGs are not sent, because they belong to other PINGs. An
   AUTH_RESPONSE is sent only after an AUTH_CHALLENGE.
5. Administrative operations of the capture (an unload, more partitions) are returned as calls at their position in the
   script: before the line that shows them, or when the live broker does not send the captured frame by itself.
6. A Shared subscription may deliver an entry to another consumer than in the capture. The live holder then sends the
   redelivery request, because a broker accepts it from no other consumer.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader
from pcli.replay.player.entry_holders import Holders
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.response_matching import KEEP_ALIVE, Book
from pcli.replay.player.script.rest_calls import Call
from pcli.replay.player.script.script import Line, Script

__all__ = ["Action", "HangUp", "Open", "Pace", "Player", "Say"]

_PING: Final = BY_NAME["PING"].number
_PONG: Final = BY_NAME["PONG"].number
_REDELIVER: Final = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number
_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "AUTH_RESPONSE"))
_AUTH_CHALLENGE: Final = BY_NAME["AUTH_CHALLENGE"].number
_AUTH_RESPONSE: Final = BY_NAME["AUTH_RESPONSE"].number
_SUBSCRIBE: Final = BY_NAME["SUBSCRIBE"].number
_CONNECTED: Final = BY_NAME["CONNECTED"].number


@dataclass(frozen=True, slots=True)
class Open:
    """Open this connection."""

    part: int


@dataclass(frozen=True, slots=True)
class Say:
    """Write to this connection."""

    part: int
    data: bytes


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close this connection."""

    part: int
    reset: bool = False


Action = Open | Say | HangUp | Call


@dataclass(frozen=True, slots=True)
class Pace:
    """The timing of a replay."""

    speed: float = 0
    """1 for the pauses of the capture; 0 for no pauses, only causality."""
    patience_ms: int = 3000
    latency_ms: int = 0
    """How long to wait for the live broker to send a captured frame by itself before the call that causes it."""


@dataclass(slots=True)
class _Talk:
    """A live connection."""

    reader: FrameReader = field(default_factory=FrameReader)
    consumers: dict[int, Consumer] = field(default_factory=dict)
    challenges: int = 0
    """Number of AUTH_CHALLENGEs without a response."""
    lost: bool = False


class Player:
    """One replay of a script."""

    def __init__(
        self,
        script: Script,
        ids: Ids,
        now: int,
        *,
        pace: Pace = Pace(),
        before: Mapping[int, Sequence[Call]] | None = None,
        instead: Mapping[int, Sequence[Call]] | None = None,
        unsaid: Container[int] = (),
        auth: tuple[str, bytes] | None = None,
    ) -> None:
        """Begin at ``now``, milliseconds since 1970.

        ``before``, ``instead``: calls by the index of the line that shows them (rule 5); ``unsaid``: indexes of lines
        to leave out; ``auth``: method and data for CONNECT.
        """
        self.script, self.ids = script, ids
        self.book = Book(line for line in script.lines if line.index not in unsaid)
        self.unsaid: list[Line] = []
        """Lines that could not be sent: their connection was closed, or their ids are unknown."""
        self._pace, self._auth = pace, auth
        self._before, self._instead = dict(before or {}), dict(instead or {})
        self._lines = [
            line for line in script.lines if line.from_client and line.type != _PONG and line.index not in unsaid
        ]
        self._at = 0
        self._talks: dict[int, _Talk] = {}
        self._holders = Holders()
        self._start = now
        self._first_ms = script.lines[0].time_ms if script.lines else 0.0
        self._slip = 0.0
        self._since = now
        """When the last line was sent: waits are measured from here."""
        self._since_ms = self._first_ms
        """The time of that line in the capture."""

    # -- input -----------------------------------------------------------------------------------------------------

    def receive(self, part: int, data: bytes) -> list[Action]:
        """Process bytes from the live broker; return immediate replies."""
        talk, out = self._talks[part], list[Action]()
        for frame in talk.reader.feed(data):
            if frame.type == _PING:
                out.append(Say(part, push_frame(pb.CommandPong())))
            elif frame.type not in KEEP_ALIVE:
                self._take(part, talk, frame)
        if talk.reader.error is not None and not talk.lost:
            self.lost(part)
            out.append(HangUp(part))
        return out

    def _take(self, part: int, talk: _Talk, frame: Frame) -> None:
        consumer, content = None, b""
        if frame.type == _CONNECTED and frame.command.connected.max_message_size:
            talk.reader.max_frame_size = max(talk.reader.max_frame_size, frame.command.connected.max_message_size * 2)
        talk.challenges += frame.type == _AUTH_CHALLENGE
        if frame.command.HasField("reachedEndOfTopic"):
            consumer = talk.consumers.get(frame.command.reachedEndOfTopic.consumer_id)
        if frame.command.HasField("message"):
            consumer, content = talk.consumers.get(frame.command.message.consumer_id), self.ids.content(frame)
            if consumer is not None:
                self._holders.give(part, consumer, frame.command.message)
        pair = self.book.take(part, frame, content, consumer, self.said)
        body = frame.body
        if body is not None and pair.line is not None and pair.line.frame is not None and pair.line.type == frame.type:
            self.ids.learn(pair.line.frame.body, body)

    def lost(self, part: int) -> None:
        """Process the live broker's closing of a connection."""
        talk = self._talks[part]
        if not talk.lost:
            talk.lost = True
            self.book.end(part, self.said)

    @property
    def said(self) -> int:
        """The index of the last line that was sent; -1 if none."""
        return self._lines[self._at - 1].index if self._at else -1

    # -- output ----------------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether every line was sent and no response is awaited."""
        return self._at >= len(self._lines) and self.book.missing_before(len(self.script.lines)) is None

    @property
    def progress(self) -> float:
        """The fraction of lines that were sent, 0 to 1."""
        return self._at / len(self._lines) if self._lines else 1.0

    def actions(self, now: int) -> list[Action]:
        """Return what to do now; if empty, nothing is due before `deadline` unless bytes arrive."""
        line = self._next()
        place = line.index if line is not None else len(self.script.lines)
        missing = self.book.missing_before(place)
        if missing is not None:
            if missing.index in self._instead:
                if now >= self._own_time(missing) + self._pace.latency_ms:
                    return [self._live(call) for call in self._instead.pop(missing.index)]
                return []
            if now < self._patience_ends(missing):
                return []
            self.book.give_up(place)
        if line is None or now < self._due(line):
            return []
        if line.index in self._before:
            return [self._live(call) for call in self._before.pop(line.index)]
        return self._say(line, now)

    @property
    def deadline(self) -> int | None:
        """When to call `actions` although nothing arrived; None if the replay is done."""
        line = self._next()
        missing = self.book.missing_before(line.index if line is not None else len(self.script.lines))
        if missing is not None:
            if missing.index in self._instead:
                return self._own_time(missing) + self._pace.latency_ms
            return self._patience_ends(missing)
        return None if line is None else self._due(line)

    def _live(self, call: Call) -> Call:
        """Return a call with the live message id in its body."""
        if call.place is None:
            return call
        ledger, entry = self.ids.places.get(call.place, call.place)
        body = {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": -1}
        return Call(call.method, call.path, body)

    def _next(self) -> Line | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _due(self, line: Line) -> int:
        """Return when a line is due."""
        if not self._pace.speed:
            return self._since
        return int(self._start + self._slip + (line.time_ms - self._first_ms) / self._pace.speed)

    def _own_time(self, missing: Line) -> int:
        """Return when a response is due, from its captured pause after the last line that was sent."""
        pause = missing.time_ms - self._since_ms
        return int(self._since + max(0.0, pause) / (self._pace.speed or 1))

    def _patience_ends(self, missing: Line) -> int:
        return self._own_time(missing) + self._pace.patience_ms

    def _say(self, line: Line, now: int) -> list[Action]:
        self._at += 1
        self._slip += max(0, now - self._due(line)) if self._pace.speed else 0
        self._since, self._since_ms = now, line.time_ms
        if self.ids.shift_ms:
            self.ids.shift_ms = int(now - line.time_ms)
        talk = self._talks.get(line.part)
        if talk is None and line.frame is None:
            return []  # the connection was never opened: all its earlier lines are left out
        if talk is not None and talk.lost:
            if line.frame is not None:
                self.unsaid.append(line)
            return []
        if line.frame is None:
            self._talks[line.part].lost = True
            return [HangUp(line.part, line.reset)]
        out: list[Action] = []
        if talk is None:
            talk = self._talks[line.part] = _Talk()
            out.append(Open(line.part))
        if line.type == _AUTH_RESPONSE:
            if not talk.challenges:
                return out
            talk.challenges -= 1
        data = self._words(line.frame)
        if not data:
            self.unsaid.append(line)
            return out
        if line.type == _SUBSCRIBE and isinstance(line.peer, Consumer):
            talk.consumers[line.peer.id] = line.peer
        if line.type == _REDELIVER and isinstance(line.peer, Consumer):
            shares = self._holders.shares(line.part, line.peer, data)
            return [Say(part, share) for part, share in shares if part in self._talks and not self._talks[part].lost]
        return [*out, Say(line.part, data)]

    def _words(self, frame: Frame) -> bytes:
        if self._auth is None or frame.type not in _LOGIN:
            return self.ids.rewritten(frame)
        command = pb.BaseCommand()
        command.CopyFrom(frame.command)
        method, data = self._auth
        if command.HasField("connect"):
            command.connect.auth_method_name, command.connect.auth_data = method, data
        else:
            command.authResponse.response.auth_method_name = method
            command.authResponse.response.auth_data = data
        return join_frame(command.SerializeToString())
