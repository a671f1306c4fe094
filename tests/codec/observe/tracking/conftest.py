"""Producers and their broker, frame by frame, with a tracker; connections with a ConnectionTracker."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from pcli.codec.capture import (
    CapturedFrame,
    Conversation,
    Note,
    PcapngWriter,
    ReadOptions,
    Stream,
    StreamEnd,
    TcpRecorder,
    read_capture,
)  # fmt: skip
from pcli.codec.observe import Observer
from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
from pcli.codec.observe.tracking.records.connection_records import (
    CaptureRecord,
    ConnectionRecord,
    ExchangeRecord,
    HostRecord,
)
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.constants import MINUS_ONE

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
START = 1_700_000_000_000
BROKER = ("10.0.0.2", 6650)
TOPIC = "persistent://public/default/t"


class Producing:
    """A conversation about producers; each frame is a millisecond after the previous one."""

    def __init__(self, conversation: Any) -> None:
        self.conversation = conversation
        self.conversation.now = START * MILLISECOND
        self.lives: list[Lifecycle] = []
        self.done: list[tuple[str, Any]] = []
        self.tracker = Tracker(on_lifecycle=self.lives.append, on_done=lambda *one: self.done.append(one))
        self.entry = -1
        """The last stored entry."""

    def client(self, body: Message, entry: bytes = b"", stream: int = 0) -> int:
        """Send a command from the client. Return the number of the frame."""
        return self._see(self.conversation.client(body, entry, stream))

    def broker(self, body: Message, stream: int = 0) -> int:
        """Send a command from the broker."""
        return self._see(self.conversation.broker(body, b"", stream))

    def _see(self, facts: Any) -> int:
        self.tracker.see(facts)
        return int(facts.frame.number)

    def wait(self, seconds: float) -> None:
        self.conversation.now += round(seconds * 1e9)

    @property
    def now(self) -> int:
        """Time of the next frame, milliseconds since 1970."""
        return int(self.conversation.now // MILLISECOND) + 1

    def asks(self, name: str = "p", stream: int = 0, producer_id: int = 1, topic: str = TOPIC, **fields: Any) -> int:
        body = pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=producer_id, **fields)
        if name:
            body.producer_name = name
        return self.client(body, stream=stream)

    def is_taken(self, name: str = "p", stream: int = 0, producer_id: int = 1, ready: bool = True) -> int:
        body = pb.CommandProducerSuccess(request_id=producer_id, producer_name=name, producer_ready=ready)
        return self.broker(body, stream)

    def is_refused(self, error: str, message: str = "no", stream: int = 0, request_id: int = 1) -> int:
        code = pb.ServerError.Value(error)
        return self.broker(pb.CommandError(request_id=request_id, error=code, message=message), stream)

    def opens(self, name: str = "p", stream: int = 0, producer_id: int = 1, **fields: Any) -> None:
        self.asks(name, stream, producer_id, **fields)
        self.is_taken(name, stream, producer_id)

    def sends(
        self,
        sequence_id: int,
        *,
        stream: int = 0,
        producer_id: int = 1,
        published: int = 0,
        payload: bytes = b"hello",
        messages: int = 0,
        highest: int = 0,
        txn: tuple[int, int] | None = None,
        **metadata: Any,
    ) -> int:
        """Send a message, or a batch of that many; ``published``: publish time in ms, by default now."""
        send = pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, num_messages=messages or 1)
        about = {"producer_name": "p", "sequence_id": sequence_id, "publish_time": published or self.now} | metadata
        if messages:
            about["num_messages_in_batch"] = messages
        if highest:
            send.highest_sequence_id = highest
        if txn is not None:
            send.txnid_most_bits, send.txnid_least_bits = txn
        send.is_chunk = "chunk_id" in metadata
        return self.client(send, push_entry(pb.MessageMetadata(**about), payload), stream)

    def receipt(self, sequence_id: int, *, stream: int = 0, entry: int | None = None, producer_id: int = 1) -> int:
        """Store the message, by default as the next entry of ledger 7."""
        if entry is None:
            entry = self.entry = self.entry + 1
        body = pb.CommandSendReceipt(producer_id=producer_id, sequence_id=sequence_id)
        body.message_id.ledgerId, body.message_id.entryId = 7, entry
        return self.broker(body, stream)

    def duplicate(self, sequence_id: int, *, stream: int = 0) -> int:
        body = pb.CommandSendReceipt(producer_id=1, sequence_id=sequence_id)
        body.message_id.ledgerId = body.message_id.entryId = MINUS_ONE
        return self.broker(body, stream)

    def error(self, sequence_id: int, error: str, *, stream: int = 0) -> int:
        code = pb.ServerError.Value(error)
        body = pb.CommandSendError(producer_id=1, sequence_id=sequence_id, error=code, message="no")
        return self.broker(body, stream)

    def ends(self, stream: int = 0, *, from_client: bool = False, reset: bool = False) -> None:
        """End the TCP connection."""
        place = (len(self.conversation.frames), self.conversation.now)
        seen = {"from_client": from_client, "reset": reset, "refused": False, "silent": False}
        self.tracker.ended(StreamEnd(self.conversation.streams[stream], *place, **seen))
        self.conversation.observer.close(stream)

    def records(self, group: str = "producer") -> list[Any]:
        return [record for name, record in self.tracker.records(self.conversation.now) if name == group]

    def record(self, name: str = "p") -> Any:
        """Return the record of the producer with that name."""
        [found] = [one for one in self.records() if one.name == name]
        return found

    def finish(self) -> None:
        self.tracker.finish()

    def states(self) -> list[tuple[int, str]]:
        """Return the sequence id and state of every completed lifecycle, by sequence id."""
        return sorted((life.sequence_id, life.state) for life in self.lives)


@pytest.fixture
def producing(conversation: Any) -> Producing:
    return Producing(conversation)


class Wire:
    """Connections by number with their records; time passes by `wait`, and a millisecond per frame."""

    def __init__(self, conversation: Any) -> None:
        self.conversation = conversation
        self.ends: list[tuple[int, str, int, int]] = []
        self.done: list[tuple[str, Any]] = []
        self.capture = CaptureRecord()
        self.connections = ConnectionTracker(
            self.capture, on_end=lambda *end: self.ends.append(end), on_done=lambda *one: self.done.append(one)
        )
        self.counted: list[bool] = []
        """Return whether `see` counts the frame for other trackers."""

    def open(
        self, number: int, client: tuple[str, int] = ("", 0), server: tuple[str, int] = BROKER, **more: Any
    ) -> Stream:
        """Open a TCP connection, with both SYNs captured unless it began before the capture."""
        client = client if client[0] else ("10.0.0.1", 40_000 + number)
        stream = Stream(number, client, server, midstream=more.get("midstream", False))
        stream.opening = more.get("opening", (1, 2))
        stream.kind = more.get("kind", "pulsar")
        self.conversation.streams[number] = stream
        return stream

    def client(self, body: Any, entry: bytes = b"", on: int = 0, **capture: Any) -> Any:
        return self._said(self.conversation.client, body, entry, on, capture)

    def broker(self, body: Any, entry: bytes = b"", on: int = 0, **capture: Any) -> Any:
        return self._said(self.conversation.broker, body, entry, on, capture)

    def _said(self, say: Any, body: Any, entry: bytes, on: int, capture: dict[str, Any]) -> Any:
        if on not in self.conversation.streams:
            self.open(on)
        facts = say(body, entry, on, **capture)
        self.counted.append(self.connections.see(facts))
        return facts

    def hello(self, on: int = 0, answer: bool = True, max_message_size: int = 5_242_880, **fields: Any) -> None:
        """Send CONNECT and CONNECTED."""
        self.client(pb.CommandConnect(**{"client_version": "a client", "protocol_version": 21} | fields), on=on)
        if answer:
            said = {"server_version": "a broker", "protocol_version": 21, "max_message_size": max_message_size}
            self.broker(pb.CommandConnected(**said), on=on)

    def wait(self, seconds: float) -> None:
        self.conversation.now += round(seconds * SECOND)

    def end(self, on: int = 0, *, client: bool = True, reset: bool = False, at_ns: int = 0, **how: Any) -> None:
        """End the TCP connection, now or with a first FIN at an earlier time."""
        stream = self.conversation.streams[on] if on in self.conversation.streams else self.open(on)
        seen = {"refused": False, "silent": False} | how
        self.conversation.now += MILLISECOND
        at_ns = at_ns or self.conversation.now
        self.connections.ended(StreamEnd(stream, 99, at_ns, from_client=client, reset=reset, **seen))

    def note(self, kind: str, on: int | None = 0, **more: Any) -> int:
        """Add a note about a stream, or about none."""
        stream = (
            None if on is None else self.conversation.streams.get(on) or self.open(on, kind=more.pop("of", "pulsar"))
        )
        return self.connections.note(Note(kind, f"a note on {kind}", 50, stream, **more))

    def finish(self) -> None:
        self.connections.finish(self.capture.last_ns)

    def connection(self, on: int = 0) -> ConnectionRecord:
        return next(
            one for _, one in self.connections.records() if isinstance(one, ConnectionRecord) and one.stream == on
        )

    def exchange(self, type_: str, on: int = 0) -> ExchangeRecord:
        records = [one for _, one in self.connections.records(self.capture.last_ns) if isinstance(one, ExchangeRecord)]
        return next(one for one in records if (one.stream, one.type) == (on, type_))

    def host(self) -> HostRecord:
        return next(one for _, one in self.connections.records() if isinstance(one, HostRecord))


@pytest.fixture
def wire(conversation: Any) -> Wire:
    return Wire(conversation)


@pytest.fixture
def say() -> Callable[..., Any]:
    """Bodies of commands by their short names, with ids of 1 by default."""
    required = {
        "Subscribe": {"topic": "t", "subscription": "s", "subType": 0, "consumer_id": 1, "request_id": 1},
        "Producer": {"topic": "t", "producer_id": 1, "request_id": 1},
        "ProducerSuccess": {"request_id": 1, "producer_name": "p"},
        "Success": {"request_id": 1},
        "Error": {"request_id": 1, "error": 0, "message": "no"},
        "CloseConsumer": {"consumer_id": 1, "request_id": 1},
        "LookupTopic": {"topic": "t", "request_id": 1},
        "LookupTopicResponse": {"request_id": 1, "response": 1},
    }

    def make(name: str, **fields: Any) -> Any:
        return getattr(pb, f"Command{name}")(**required.get(name, {}) | fields)

    return make


class Recorded:
    """The records that a ConnectionTracker creates from a file of connections with these bytes, a second apart."""

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.recorder = TcpRecorder(PcapngWriter(self.file))
        self.talks: dict[int, Conversation] = {}
        self.now = 0

    def open(self, number: int, client: tuple[str, int], server: tuple[str, int]) -> None:
        self.talks[number] = self.recorder.open(client, server, self._time())

    def say(self, number: int, data: Any, *, client: bool) -> None:
        whole = data if isinstance(data, bytes) else push_frame(data)
        self.recorder.data(self.talks[number], whole, self._time(), from_client=client)

    def end(self, number: int, *, client: bool, reset: bool = False) -> None:
        self.recorder.close(self.talks[number], self._time(), from_client=client, reset=reset)

    def _time(self) -> int:
        self.now += SECOND
        return self.now

    def connections(self) -> dict[int, ConnectionRecord]:
        """Return the records by stream number."""
        self.file.seek(0)
        capture, observer = CaptureRecord(), Observer()
        links = ConnectionTracker(capture, on_end=lambda *_: None)
        for item in read_capture([("", self.file)], ReadOptions(ends=True)):
            if isinstance(item, CapturedFrame):
                links.see(observer.see(item))
            elif isinstance(item, StreamEnd):
                links.ended(item)
            else:
                links.note(item)
        links.finish(capture.last_ns)
        return {one.stream: one for _, one in links.records() if isinstance(one, ConnectionRecord)}


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()
