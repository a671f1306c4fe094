"""The player. It determines the next commands from the live broker's responses and the time. It does no I/O.

Rules of this file
1. Causality: a client's step is sent when every response before it in the capture, on any connection, has arrived, and
   every earlier client step was sent. The live client has then received as much as the captured client, and the
   broker's state is the same. A SEND therefore follows its PRODUCER_SUCCESS, and an ACK follows its MESSAGE. The order
   between connections is also kept: a SUBSCRIBE before the SEND, a CLOSE before the next SUBSCRIBE.
2. Time: a step is not sent before its time in the capture, scaled by the speed. If the speed is 0, only causality
   determines the order and time.
3. The wait for a response is limited to the captured pause before the response plus ``patience``. It may arrive later.
   If it never arrives, its absence is a difference.
4. A PING is answered immediately with a PONG. The captured PONGs are not sent, because they belong to the captured
   PINGs. An AUTH_RESPONSE is sent only after an AUTH_CHALLENGE.
5. Administrative operations of the capture (an unload, more partitions) are returned as calls at their position in the
   script: before the step that shows the operation, or if the live broker does not send the captured frame without the
   call.
6. A Shared subscription may deliver an entry to a different consumer than in the capture. The live holder then sends
   the redelivery request, because a broker accepts the request only from the holder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader
from pcli.replay.player.id_translation import Ids, Position, position_of
from pcli.replay.player.response_matching import KEEP_ALIVE, ResponseMatcher
from pcli.replay.player.script.script import RestCall, Script, Step
from pcli.replay.player.segment_translation import SegmentIds

_PING: Final = BY_NAME["PING"].number
_PONG: Final = BY_NAME["PONG"].number
_REDELIVER: Final = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number
_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "AUTH_RESPONSE"))
_AUTH_CHALLENGE: Final = BY_NAME["AUTH_CHALLENGE"].number
_AUTH_RESPONSE: Final = BY_NAME["AUTH_RESPONSE"].number
_SUBSCRIBE: Final = BY_NAME["SUBSCRIBE"].number
_CONNECTED: Final = BY_NAME["CONNECTED"].number
_REFUSED: Final = 400
_EXISTS: Final = 409


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """An action that opens a connection."""

    stream: int


@dataclass(frozen=True, slots=True)
class SendCommand:
    """An action that writes to a connection."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """An action that closes a connection."""

    stream: int
    reset: bool = False


Action = OpenConnection | SendCommand | CloseConnection | RestCall


@dataclass(frozen=True, slots=True)
class Pace:
    """The timing of a replay."""

    speed: float = 0
    """Speed of the replay: 1 preserves the pauses of the capture; 0 removes all pauses (rule 2)."""
    patience_ms: int = 3000
    latency_ms: int = 0
    """Time to wait for a captured frame from the live broker before the call that causes the frame is made."""


@dataclass(slots=True)
class _LiveConnection:
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
        before: Mapping[int, Sequence[RestCall]] | None = None,
        instead: Mapping[int, Sequence[RestCall]] | None = None,
        skipped: Container[int] = (),
        auth: tuple[str, bytes] | None = None,
    ) -> None:
        """Begin at ``now``, in milliseconds since 1970.

        ``before`` and ``instead`` contain calls by the index of the step that shows the operation (rule 5). ``skipped``
        contains indexes of steps to omit. ``auth`` is the method and data for CONNECT.
        """
        self.script, self.ids = script, ids
        ids.segments = SegmentIds(script)
        self.matcher = ResponseMatcher(step for step in script.steps if step.index not in skipped)
        self.not_sent: list[Step] = []
        """Steps that could not be sent because their connection was closed or their ids are unknown."""
        self.refused: Counter[str] = Counter()
        """REST calls that the live broker refused."""
        self._pace, self._auth = pace, auth
        self._before, self._instead = dict(before or {}), dict(instead or {})
        self._lines = [
            step for step in script.steps if step.from_client and step.type != _PONG and step.index not in skipped
        ]
        self._at = 0
        self._connections: dict[int, _LiveConnection] = {}
        self._entry_holders = EntryHolders()
        self._start = now
        self._first_ms = script.steps[0].time_ms if script.steps else 0.0
        self._delay_ms = 0.0
        self._since = now
        """The time when the last step was sent. Waits are measured from this time."""
        self._since_ms = self._first_ms
        """The time of that step in the capture."""

    # -- input -----------------------------------------------------------------------------------------------------

    def receive(self, stream: int, data: bytes) -> list[Action]:
        """Process bytes from the live broker. Return immediate replies."""
        connection, out = self._connections[stream], list[Action]()
        for frame in connection.reader.feed(data):
            if frame.type == _PING:
                out.append(SendCommand(stream, push_frame(pb.CommandPong())))
            elif frame.type not in KEEP_ALIVE:
                self._take(stream, connection, self.ids.segments.captured_frame(stream, frame))
        if connection.reader.error is not None and not connection.lost:
            self.lost(stream)
            out.append(CloseConnection(stream))
        return out

    def _take(self, stream: int, connection: _LiveConnection, frame: Frame) -> None:
        consumer, content = None, b""
        if frame.type == _CONNECTED and frame.command.connected.max_message_size:
            connection.reader.max_frame_size = max(
                connection.reader.max_frame_size, frame.command.connected.max_message_size * 2
            )
        connection.challenges += frame.type == _AUTH_CHALLENGE
        if frame.command.HasField("reachedEndOfTopic"):
            consumer = connection.consumers.get(frame.command.reachedEndOfTopic.consumer_id)
        if frame.command.HasField("message"):
            consumer, content = connection.consumers.get(frame.command.message.consumer_id), self.ids.content(frame)
            if consumer is not None:
                self._entry_holders.give(stream, consumer, frame.command.message)
        pair = self.matcher.take(stream, frame, content, consumer, self.last_sent)
        body = frame.body
        if body is not None and pair.step is not None and pair.step.frame is not None and pair.step.type == frame.type:
            self.ids.map_ids(pair.step.frame.body, body)

    def lost(self, stream: int) -> None:
        """Process the end of a connection that the live broker closed."""
        connection = self._connections[stream]
        if not connection.lost:
            connection.lost = True
            self.matcher.end(stream, self.last_sent)

    @property
    def last_sent(self) -> int:
        """The index of the last step that was sent; -1 if there is none."""
        return self._lines[self._at - 1].index if self._at else -1

    # -- output ----------------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether every step was sent and no response is awaited."""
        return self._at >= len(self._lines) and self.matcher.missing_before(len(self.script.steps)) is None

    @property
    def progress(self) -> float:
        """The fraction of steps that were sent, 0 to 1."""
        return self._at / len(self._lines) if self._lines else 1.0

    def actions(self, now: int) -> list[Action]:
        """Return the actions to execute now.

        If there are none, no action is due before `deadline` unless bytes arrive.
        """
        step = self._next()
        position = step.index if step is not None else len(self.script.steps)
        missing = self.matcher.missing_before(position)
        if missing is not None:
            if missing.index in self._instead:
                if now >= self._expected_at(missing) + self._pace.latency_ms:
                    return [self._live(call) for call in self._instead.pop(missing.index)]
                return []
            if now < self._give_up_at(missing):
                return []
            self.matcher.stop_waiting(position)
        if step is None or now < self._due(step):
            return []
        if step.index in self._before:
            return [self._live(call) for call in self._before.pop(step.index)]
        return self._send(step, now)

    @property
    def deadline(self) -> int | None:
        """The time to call `actions` if no bytes arrive; None if the replay is done."""
        step = self._next()
        missing = self.matcher.missing_before(step.index if step is not None else len(self.script.steps))
        if missing is not None:
            if missing.index in self._instead:
                return self._expected_at(missing) + self._pace.latency_ms
            return self._give_up_at(missing)
        return None if step is None else self._due(step)

    def _live(self, call: RestCall) -> RestCall:
        """Return a call with the live message id in its body, and the live ids of segments in its path."""
        if call.segments:
            return RestCall(call.method, self._live_path(call), call.body)
        if call.position is None:
            return call
        ledger, entry = self.ids.positions.get(call.position, call.position)
        body = {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": -1}
        return RestCall(call.method, call.path, body)

    def _live_path(self, call: RestCall) -> str:
        path, question, query = call.path.partition("?")
        live = [self.ids.segments.live_name(name).rpartition("/")[2] for name in call.segments]
        parts = path.split("/")
        if parts[0] == "segments":  # segments/tenant/namespace/topic/descriptor
            parts[4] = live[0]
        else:
            parts[-len(live) :] = [one.rpartition("-")[2] for one in live]
        return "/".join(parts) + question + query

    def answered(self, call: RestCall, status: int) -> None:
        """Note the status of a REST call. An object that a PUT was to create may exist (409)."""
        if status >= _REFUSED and (call.method, status) != ("PUT", _EXISTS):
            self.refused[f"{call.method} {call.path} (status {status})"] += 1

    def _next(self) -> Step | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _due(self, step: Step) -> int:
        """Return the time when a step is due."""
        if not self._pace.speed:
            return self._since
        return int(self._start + self._delay_ms + (step.time_ms - self._first_ms) / self._pace.speed)

    def _expected_at(self, missing: Step) -> int:
        """Return the time when a response is due: its captured pause after the last step that was sent."""
        pause = missing.time_ms - self._since_ms
        return int(self._since + max(0.0, pause) / (self._pace.speed or 1))

    def _give_up_at(self, missing: Step) -> int:
        return self._expected_at(missing) + self._pace.patience_ms

    def _send(self, step: Step, now: int) -> list[Action]:
        self._at += 1
        self._delay_ms += max(0, now - self._due(step)) if self._pace.speed else 0
        self._since, self._since_ms = now, step.time_ms
        if self.ids.shift_ms:
            self.ids.shift_ms = int(now - step.time_ms)
        connection = self._connections.get(step.stream)
        if connection is None and step.frame is None:
            return []  # the connection was never opened, so all earlier steps on it are skipped
        if connection is not None and connection.lost:
            if step.frame is not None:
                self.not_sent.append(step)
            return []
        if step.frame is None:
            self._connections[step.stream].lost = True
            return [CloseConnection(step.stream, step.reset)]
        out: list[Action] = []
        if connection is None:
            connection = self._connections[step.stream] = _LiveConnection()
            out.append(OpenConnection(step.stream))
        if step.type == _AUTH_RESPONSE:
            if not connection.challenges:
                return out
            connection.challenges -= 1
        data = self._rewritten(step.frame)
        if not data:
            self.not_sent.append(step)
            return out
        if step.type == _SUBSCRIBE and isinstance(step.peer, Consumer):
            connection.consumers[step.peer.id] = step.peer
        if step.type == _REDELIVER and isinstance(step.peer, Consumer):
            split_by_holder = self._entry_holders.split_by_holder(step.stream, step.peer, data)
            return [
                SendCommand(stream, share)
                for stream, share in split_by_holder
                if stream in self._connections and not self._connections[stream].lost
            ]
        return [*out, SendCommand(step.stream, data)]

    def _rewritten(self, frame: Frame) -> bytes:
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
        # A malformed CONNECT lacks required fields; the broker closes the connection, as it did in the capture.
        return join_frame(command.SerializePartialToString())


_REDELIVERY: Final = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number


class EntryHolders:
    """The connection and consumer that last received each live entry of a Shared subscription."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], dict[Position, tuple[int, int]]] = {}

    def give(self, stream: int, consumer: Consumer, message: pb.CommandMessage) -> None:
        """Record that a consumer of this connection received an entry."""
        if consumer.type == "Shared":
            holders = self._last.setdefault((consumer.topic, consumer.subscription), {})
            holders[position_of(message.message_id)] = stream, consumer.id

    def split_by_holder(self, stream: int, peer: Consumer, data: bytes) -> list[tuple[int, bytes]]:
        """Split a REDELIVER with live ids by holder.

        Return each request and the connection on which it must be sent.
        """
        holders = self._last.get((peer.topic, peer.subscription))
        ids = Frame(data, _REDELIVERY).command.redeliverUnacknowledgedMessages.message_ids
        if holders is None or not ids:
            return [(stream, data)]
        split_by_holder: dict[tuple[int, int], list[pb.MessageIdData]] = {}
        for one in ids:
            split_by_holder.setdefault(holders.get(position_of(one), (stream, peer.id)), []).append(one)
        if list(split_by_holder) == [(stream, peer.id)]:
            return [(stream, data)]
        return [
            (other, push_frame(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=number, message_ids=share)))
            for (other, number), share in split_by_holder.items()
        ]
