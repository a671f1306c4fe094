"""The recorded broker. It determines the frames to send to live clients from the clients' commands. It does no I/O.

Rules of this file
1. A live client's command is matched to a captured step with the same subject (recorded_conversation.py): preferably a
   step with the same sequence id or name, then a step on the matching connection, then the first step.
2. A response is sent when its request has arrived. A MESSAGE is sent when its consumer has permits, the consumer's
   earlier MESSAGEs were sent, and the steps that it depends on have occurred. Any other frame is sent when every
   earlier client step (except FLOWs, ACKs and queries) has arrived and every earlier frame on its connection was sent.
   Pauses are not replayed.
3. Request, producer, consumer, watcher and sequence ids are the ids of the live client. All other values, for example
   message ids, names and versions, are the captured values. Broker addresses are replaced by the recorded broker's
   address.
4. A PING receives a PONG. A captured query or CONNECT may be repeated and receives its response each time.
5. A command without a captured step is noted. The response is a failed lookup response for a lookup, a SEND_ERROR for a
   SEND, and an ERROR for any other request. All contain NotAllowedError, after which clients do not retry. If an ACK
   requests a response, it receives an ACK_RESPONSE, because clients group ACKs differently.
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
from pcli.replay.player.comparison.client_command_rules import ClientCommandMatcher, report_on
from pcli.replay.player.comparison.report import Report
from pcli.replay.player.player import CloseConnection, SendCommand
from pcli.replay.player.recorded_broker_commands import error_response, permits_of, with_captured_ids, with_live_ids
from pcli.replay.player.response_matching import KEEP_ALIVE, Pair
from pcli.replay.player.script.recorded_conversation import OWNERS, QUERIES, Owners, RecordedConversation, subject_of
from pcli.replay.player.script.script import Script, Step

_PING: Final = BY_NAME["PING"].number
_LIVE_IDS: Final = (*OWNERS, "request_id", "sequence_id")
_SOFT: Final = ("sequence_id", "consumer_name", "producer_name", "message_ids")
_NEAR: Final = 32
"""Number of captured steps to compare. The number is small because steps with the same subject arrive nearly in
order."""
_GROUPED: Final = ("ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES")


@dataclass(slots=True)
class _LiveConnection:
    """A live connection."""

    reader: FrameReader = field(default_factory=FrameReader)
    stream: int = -1
    """The captured connection to which the live connection is matched; -1 if there is none."""


class RecordedBroker:
    """One replay of a recording to live clients."""

    def __init__(self, script: Script, service_url: str) -> None:
        """``service_url`` is the recorded broker's URL for lookup responses."""
        self.script, self._url = script, service_url
        self.matcher = ClientCommandMatcher(script)
        self.notes: list[str] = []
        """One line for each command that is not in the recording."""
        self._recorded = RecordedConversation(script)
        self._connections: dict[int, _LiveConnection] = {}
        self._owners: Owners = {}
        self._where: dict[Step, tuple[int, int]] = {}
        """Live connection and id of each captured producer, consumer or watcher."""
        self._permits: dict[Step, int] = {}
        self._last: dict[Hashable, Step] = {}
        """The last captured step that was matched, by subject."""
        self._responses: list[tuple[int, int, bytes]] = []
        """A heap of responses to send: index, live connection, frame."""
        self._done: set[int] = set()
        """Indexes of captured steps that were received or sent."""

    # -- input -----------------------------------------------------------------------------------------------------

    def open(self, connection: int) -> None:
        """Add a client's connection with the unique number ``connection``."""
        self._connections[connection] = _LiveConnection()

    def receive(self, connection: int, data: bytes) -> list[SendCommand | CloseConnection]:
        """Process bytes from a client. Return the bytes to send to any client now."""
        out: list[SendCommand | CloseConnection] = []
        reader = self._connections[connection].reader
        for frame in reader.feed(data):
            if frame.type == _PING:
                out.append(SendCommand(connection, push_frame(pb.CommandPong())))
            elif frame.type not in KEEP_ALIVE:
                self._take(connection, frame)
                out += self._ready()
        return out if reader.error is None else [*out, CloseConnection(connection)]

    def lost(self, connection: int) -> list[SendCommand | CloseConnection]:
        """Process the end of a connection."""
        stream = self._connections.pop(connection).stream
        ends = self._recorded.open["END", stream]
        if ends:
            self._record(ends.pop(0), stream, None)
        return list(self._ready())

    def _take(self, connection: int, frame: Frame) -> None:
        body, stream = frame.body, self._connections[connection].stream
        owner = self._owner(connection, frame)
        key = subject_of(frame, owner)
        step = self._best_match(self._recorded.open[key], body, stream)
        if name_of(frame.type) == "FLOW" and owner is not None:
            self._permits[owner] += body.messagePermits
        if step is None:
            self._take_unknown(connection, frame, key)
            return
        self._recorded.open[key].remove(step)
        self._last[key] = step
        self._bind(connection, step, body)
        self._record(step, step.stream, frame if step.frame is None else with_captured_ids(frame, step.frame))
        if step in self._recorded.responses:
            self._send_response(connection, body, step)

    def _owner(self, connection: int, frame: Frame) -> Step | None:
        body = frame.body
        names = (name for name in OWNERS if body is not None and name in body.DESCRIPTOR.fields_by_name)
        return next((self._owners.get((connection, name, getattr(body, name))) for name in names), None)

    @staticmethod
    def _best_match(steps: list[Step], body: Any, stream: int) -> Step | None:
        def rank(step: Step) -> tuple[bool, bool, int]:
            assert step.frame is not None
            mine = step.frame.body
            other = any(getattr(mine, name, None) != getattr(body, name, None) for name in _SOFT)
            return other, step.stream != stream, step.index

        return min(steps[:_NEAR], key=rank, default=None)

    def _bind(self, connection: int, step: Step, body: Any) -> None:
        """Match a live connection, producer or consumer to its captured counterpart."""
        mine = self._connections[connection]
        makes = [name for name, maker in OWNERS.items() if maker == step.name]
        if makes or step.name == "CONNECT":
            for other in self._connections.values():
                if other.stream == step.stream:
                    other.stream = mine.stream
            mine.stream = step.stream
        for name in makes:
            number = getattr(body, name)
            self._owners[connection, name, number], self._where[step], self._permits[step] = (
                step,
                (connection, number),
                0,
            )

    def _record(self, step: Step | None, stream: int, frame: Frame | None) -> None:
        if step is not None:
            self._done.add(step.index)
        self.matcher.pairs.append(Pair(step, stream, frame, -1, len(self.matcher.pairs), None))

    def _take_unknown(self, connection: int, frame: Frame, key: Hashable) -> None:
        """Respond to a command without a captured step (rules 4 and 5)."""
        body, name = frame.body, name_of(frame.type)
        self._record(None, self._connections[connection].stream, frame)
        last = self._last.get(key)
        if name in QUERIES and last in self._recorded.responses:
            self._send_response(connection, body, last)
            return
        response = error_response(name, body)
        if response is not None:
            heappush(self._responses, (-1, connection, push_frame(response)))
        if name not in _GROUPED:
            topic = getattr(body, "topic", "")
            self.notes.append(f"not in the recording: {name}{f' for {topic}' if topic else ''}")

    # -- output ----------------------------------------------------------------------------------------------------

    def _send_response(self, connection: int, body: Any, step: Step) -> None:
        response = self._recorded.responses[step]
        assert response.frame is not None
        assert step.frame is not None
        ids = {name: getattr(body, name) for name in _LIVE_IDS if name in body.DESCRIPTOR.fields_by_name}
        if "sequence_id" in ids and response.name == "SEND_RECEIPT":
            highest = response.frame.command.send_receipt.highest_sequence_id
            later = ids["sequence_id"] - step.frame.command.send.sequence_id
            ids["highest_sequence_id"] = highest if highest == MINUS_ONE else (highest + later) & MINUS_ONE
        if response.name == "CONNECTED":
            reader, most = self._connections[connection].reader, response.frame.command.connected.max_message_size
            reader.max_frame_size = max(reader.max_frame_size, 2 * most)
        heappush(self._responses, (response.index, connection, with_live_ids(response.frame, ids, self._url)))

    def _ready(self) -> Iterator[SendCommand | CloseConnection]:
        """Yield all frames that can be sent now, in capture order."""
        while True:
            step = min([*self._messages(), *self._unrequested()], key=lambda one: one.index, default=None)
            if self._responses and (step is None or self._responses[0][0] < step.index):
                index, connection, data = heappop(self._responses)
                self._done.add(index)
                if connection in self._connections:
                    yield SendCommand(connection, data)
            elif step is not None:
                yield from self._send(step)
            else:
                return

    def _messages(self) -> Iterator[Step]:
        for owner, steps in self._recorded.messages.items():
            connection, _ = self._where.get(owner, (-1, 0))
            ready = steps and connection in self._connections and self._permits[owner] > 0
            if ready and all(step.index in self._done for step in self._recorded.needs[steps[0]]):
                yield steps[0]

    def _unrequested(self) -> Iterator[Step]:
        bound = self._recorded.bound
        while bound and bound[0].index in self._done:
            bound.popleft()
        for stream, steps in self._recorded.unrequested.items():
            remaining = self._recorded.remaining[stream]
            while remaining and remaining[0].index in self._done:
                remaining.popleft()
            first = steps[0] if steps and remaining[0] is steps[0] else None
            if first is None or (bound and bound[0].index < first.index):
                continue
            if first.frame is None or self._target(first)[0] in self._connections:
                yield first

    def _target(self, step: Step) -> tuple[int, dict[str, int]]:
        """Return the live connection for a captured step, or -1 if there is none, and the live ids for the frame."""
        owner = self._recorded.owners.get(step)
        if owner is None:
            return next(
                (number for number, connection in self._connections.items() if connection.stream == step.stream), -1
            ), {}
        connection, number = self._where.get(owner, (-1, 0))
        return connection, {name: number for name, maker in OWNERS.items() if maker == owner.name}

    def _send(self, step: Step) -> Iterator[SendCommand | CloseConnection]:
        self._done.add(step.index)
        connection, ids = self._target(step)
        owner = self._recorded.owners.get(step)
        if step.name == "MESSAGE" and owner is not None and step.frame is not None:
            self._recorded.messages[owner].popleft()
            self._permits[owner] -= permits_of(step.frame)
        else:
            self._recorded.unrequested[step.stream].popleft()
        if connection in self._connections:
            yield (
                CloseConnection(connection)
                if step.frame is None
                else SendCommand(connection, with_live_ids(step.frame, ids, self._url))
            )

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def left(self) -> list[Step]:
        """Captured steps of the broker that were not sent."""
        return [
            step
            for step in self.script.steps
            if not step.from_client and step.type not in KEEP_ALIVE and step.index not in self._done
        ]

    @property
    def complete(self) -> bool:
        """Whether every step was received or sent and every client has disconnected."""
        return not self._connections and not self.matcher.missing() and not self.left

    def report(self) -> Report:
        """Compare the commands from the live clients with the captured commands."""
        return report_on(self.matcher, self.script, self.left)
