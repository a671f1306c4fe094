"""One pass over the frames of a capture, which resolves ids to names and pairs requests with responses.

Rules of this file
1. Frames are processed in the order of time. `see` returns the facts known at that frame, and never changes earlier
   facts.
2. Ids are unique per connection only. A consumer or producer exists from its SUBSCRIBE or PRODUCER until it is closed.
   After a close by one side its name remains available for later frames.
3. Memory is bounded: there are limits for connections, for producers and consumers per connection, and for open
   requests of all connections. `evicted` counts the dropped objects.
4. SEND, SEND_RECEIPT, MESSAGE, ACK and FLOW make up 99 of 100 frames. Their ids are read without protobuf.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from pcli.codec.observe.connection_updates import EndedPeers, answer, apply_command, put_peer, request_of
from pcli.codec.observe.observer_state import (
    Connection,
    Facts,
    ObservedFrame,
    Opener,
    Producer,
    Request,
    StreamLike,
    open_frame,
)
from pcli.codec.observe.request_pairing import forget_before, open_numbers, open_request, open_requests, open_sends
from pcli.codec.observe.two_pass import AnswerIndex
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.hot import pull_first_id, pull_ids

MAX_CONNECTIONS: Final = 10_000
"""Maximum number of connections. The connection that has been inactive for the longest time is evicted first."""

MAX_PEERS: Final = 10_000
"""Maximum number of producers, and of consumers, per connection; closed producers and consumers are evicted first."""

MAX_OPEN: Final = 200_000
"""Maximum number of open requests and SENDs of all connections. They occupy about 50 MB; the oldest are evicted
first."""


class Observer:
    """An observer of the frames of a capture, one by one."""

    def __init__(
        self,
        *,
        pairing: bool = True,
        answers: AnswerIndex | None = None,
        opener: Opener = open_frame,
        max_connections: int = MAX_CONNECTIONS,
        max_peers: int = MAX_PEERS,
        max_open: int = MAX_OPEN,
    ) -> None:
        """Create an observer without state.

        ``pairing`` enables the pairing of responses with requests. ``answers`` contains the pairs of a first pass, for
        `Facts.answer_number`. ``opener`` is the payload decoder, if it has keys or joins chunks.
        """
        self.evicted = {"connections": 0, "peers": 0, "requests": 0}
        """Numbers of evicted objects by kind."""
        self._pairing = pairing
        self._answers = answers
        self._opener = opener
        self._max_connections, self._max_peers, self._max_open = max_connections, max_peers, max_open
        self._connections: dict[int, Connection] = {}
        self._stream: StreamLike | None = None
        self._connection = Connection(-1)
        self._since_sweep = 0
        # Unanswered requests of connections and producers that have ended.
        self._left: deque[Request] = deque()

    def see(self, frame: ObservedFrame) -> Facts:
        """Return the facts about a frame."""
        facts = Facts(frame, self._opener)
        if frame.stream is not self._stream:
            self._enter(frame.stream)
        step = _HOT_STEPS.get(frame.type)
        if step is not None:
            step[0](self, facts, self._connection, step[1])
        else:
            self._see_other(facts)
        if self._answers is not None:
            facts.answer_number = self._answers.answer_to(frame.number)
        return facts

    def skip(self, stream: StreamLike) -> None:
        """Pass over frames of a connection that are not needed: those of `unneeded_types`, for instance."""
        if stream is not self._stream:
            self._enter(stream)

    def peek(self, frame: ObservedFrame) -> Facts:
        """Return the facts about a SEND, its response, a MESSAGE, an ACK or a FLOW, and change no state.

        They lack what depends on other frequent frames: the request, and a producer that only SENDs have shown.
        """
        facts = Facts(frame, self._opener)
        connection = self._connections.get(frame.stream.number)
        if connection is None:
            return facts
        tag = frame.type << 3 | 2
        if frame.type not in _OF_PRODUCERS:
            self._see_consumer(facts, connection, tag)
            return facts
        producer_id = pull_first_id(frame.data, tag)
        facts.peer = connection.producers.get(
            producer_id if producer_id >= 0 else _slow_ids(facts, "producer_id", "producer_id")[0]
        )
        facts.system = connection.system is True if facts.peer is None else facts.peer.system
        return facts

    def unanswered(self) -> list[Request]:
        """Return the requests without a response so far, in the order of frames. Evicted requests are absent."""
        found = list(self._left)
        for connection in self._connections.values():
            found += open_requests(connection)
        return sorted(found, key=lambda request: request.number)

    def close(self, stream: int) -> None:
        """Drop an ended connection, given by number, but keep its unanswered requests."""
        connection = self._connections.pop(stream, None)
        if connection is not None:
            self._leave(open_requests(connection))
            self._stream = None

    def system_streams(self) -> set[int]:
        """Return the numbers of the known connections of the broker's own client."""
        return {number for number, connection in self._connections.items() if connection.system}

    def _enter(self, stream: StreamLike) -> None:
        connection = self._connections.pop(stream.number, None)
        if connection is None:
            connection = Connection(stream.number)
            if self._answers is not None and stream.number in self._answers.system_streams:
                connection.system = True
            if len(self._connections) >= self._max_connections:
                self.evicted["connections"] += 1
                self.close(next(iter(self._connections)))
        # dict order: the most recently active connection is last
        self._connections[stream.number] = connection
        self._stream, self._connection = stream, connection

    # -- the five frequent commands

    def _see_send(self, facts: Facts, connection: Connection, tag: int) -> None:
        producer_id, sequence_id = pull_ids(facts.frame.data, tag)
        if sequence_id < 0:
            producer_id, sequence_id = _slow_ids(facts, "producer_id", "sequence_id")
        producer = connection.producers.get(producer_id)
        if producer is None:
            if producer_id < 0:
                return
            producer = Producer(producer_id, system=connection.system is True)
            self._forget(connection, put_peer(connection.producers, producer, self._max_peers))
        facts.peer = producer
        facts.system = producer.system
        if self._pairing and sequence_id >= 0:
            frame = facts.frame
            if sequence_id in producer.sends:
                _send_again(producer, sequence_id, (frame.number, frame.time_ns))
            else:
                producer.sends[sequence_id] = (frame.number, frame.time_ns)
            self._since_sweep += 1
            if self._since_sweep > self._max_open >> 1:
                self._sweep()

    def _see_receipt(self, facts: Facts, connection: Connection, tag: int) -> None:
        producer_id, sequence_id = pull_ids(facts.frame.data, tag)
        if sequence_id < 0:
            producer_id, sequence_id = _slow_ids(facts, "producer_id", "sequence_id")
        producer = connection.producers.get(producer_id)
        if producer is None:
            facts.system = connection.system is True
            return
        facts.peer = producer
        facts.system = producer.system
        sent = producer.sends.pop(sequence_id, None)
        if sent is not None:
            facts.request_number = sent[0]
            facts.latency_ns = facts.frame.time_ns - sent[1]
            if producer.again is not None:
                _next_of_same_id(producer, sequence_id)

    def _see_consumer(self, facts: Facts, connection: Connection, tag: int) -> None:
        consumer_id = pull_first_id(facts.frame.data, tag)
        if consumer_id < 0:
            consumer_id = _slow_ids(facts, "consumer_id", "consumer_id")[0]
        consumer = connection.consumers.get(consumer_id)
        if consumer is not None:
            facts.peer = consumer
            facts.system = consumer.system
        elif connection.system:
            facts.system = True

    def _see_ack(self, facts: Facts, connection: Connection, tag: int) -> None:
        self._see_consumer(facts, connection, tag)
        number = facts.command_value("pulsar.ack.request_id") if self._pairing else None
        if number is not None:
            frame = facts.frame
            request = Request(frame.number, frame.time_ns, frame.type, connection.stream, number)
            request.peer, request.system = facts.peer, facts.system
            self._remember(connection, frame.from_client, request)

    # -- other commands, and open requests

    def _see_other(self, facts: Facts) -> None:
        connection = self._connection
        answer(facts, connection)
        self._forget(connection, apply_command(facts, connection, self._max_peers))
        request = request_of(facts, connection) if self._pairing else None
        if request is not None:
            self._remember(connection, facts.frame.from_client, request)

    def _remember(self, connection: Connection, from_client: bool, request: Request) -> None:
        older = open_request(connection, from_client, request)
        if older is not None:
            self._leave([older])
        self._since_sweep += 1
        if self._since_sweep > self._max_open >> 1:
            self._sweep()

    def _forget(self, connection: Connection, ended_peers: EndedPeers) -> None:
        """Keep the open SENDs of replaced or closed producers, and count evicted peers."""
        for producer in ended_peers.producers:
            self._leave(open_sends(connection.stream, producer))
        self.evicted["peers"] += ended_peers.evicted

    def _leave(self, requests: list[Request]) -> None:
        self._left += requests
        while len(self._left) > self._max_open:
            self._left.popleft()
            self.evicted["requests"] += 1

    def _sweep(self) -> None:
        """If there are too many open requests, drop the oldest requests until half of the limit remains."""
        self._since_sweep = 0
        numbers = sorted(number for one in self._connections.values() for number in open_numbers(one))
        if len(numbers) > self._max_open:
            oldest = numbers[-(self._max_open >> 1) :][0]
            self.evicted["requests"] += sum(forget_before(one, oldest) for one in self._connections.values())


def _slow_ids(facts: Facts, first: str, second: str) -> tuple[int, int]:
    """Return two ids of a command with another layout; -1 if absent."""
    body = facts.frame.body
    one, two = (getattr(body, name) if body.HasField(name) else -1 for name in (first, second))
    return one, two


def _send_again(producer: Producer, sequence_id: int, sent: tuple[int, int]) -> None:
    if producer.again is None:
        producer.again = {}
    producer.again.setdefault(sequence_id, deque()).append(sent)


def _next_of_same_id(producer: Producer, sequence_id: int) -> None:
    """Make the next SEND with this id the open SEND: receipts are in the order of SENDs."""
    assert producer.again is not None
    queue = producer.again.get(sequence_id)
    if queue:
        producer.sends[sequence_id] = queue.popleft()
        if not queue:
            del producer.again[sequence_id]


_Step = tuple[Callable[[Observer, Facts, Connection, int], None], int]

_HOT_STEPS: Final[dict[int, _Step]] = {
    BY_NAME[name].number: (step, BY_NAME[name].number << 3 | 2)
    for name, step in (
        ("SEND", Observer._see_send),
        ("SEND_RECEIPT", Observer._see_receipt),
        ("SEND_ERROR", Observer._see_receipt),
        ("MESSAGE", Observer._see_consumer),
        ("ACK", Observer._see_ack),
        ("FLOW", Observer._see_consumer),
    )
}
"""Function and body tag of the commands in rule 4, and of SEND_ERROR, which also answers a SEND."""


_OF_PRODUCERS: Final = frozenset(BY_NAME[name].number for name in ("SEND", "SEND_RECEIPT", "SEND_ERROR"))

_GROUPS: Final = tuple(
    frozenset(BY_NAME[name].number for name in names)
    for names in (("SEND", "SEND_RECEIPT", "SEND_ERROR"), ("ACK", "ACK_RESPONSE"), ("MESSAGE",), ("FLOW",))
)
"""The frequent commands, each with its responses. The facts of other frames do not depend on them; skipped frames only
count towards no limit of the Observer."""


def unneeded_types(may_match: Callable[[int], bool]) -> frozenset[int]:
    """Return the frequent command types that an Observer need not see; ``may_match`` is whether a type is shown."""
    return frozenset().union(*(group for group in _GROUPS if not any(map(may_match, group))))


def answer_index(frames: Iterable[object]) -> AnswerIndex:
    """Return the responses to all requests, from a first pass. Notes are ignored."""
    observer, index = Observer(), AnswerIndex()
    for item in frames:
        if isinstance(item, Frame):
            index.note(observer.see(item))  # type: ignore[arg-type]
    index.system_streams = observer.system_streams()
    return index
