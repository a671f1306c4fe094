"""Handwritten conversations, scenes with clients and a mini-broker, and the frames of real captures."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from pcli.codec.capture import (
    CapturedFrame,
    Packet,
    PcapngWriter,
    ReadOptions,
    Stream,
    TcpRecorder,
    read_capture,
    read_packets,
)
from pcli.codec.capture.frames import StreamEnd
from pcli.codec.capture.ip import pull_ip
from pcli.codec.capture.link import LINKS
from pcli.codec.faults import Fault, Faults, Injector, Step
from pcli.codec.observe import Facts, Observer
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.compression import compress
from pcli.codec.proto import pb
from pcli.codec.session import ClientSession
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem
from pcli.codec.wire.reader import FrameReader
from pcli.minibroker.broker import Broker
from pcli.minibroker.settings import Settings

MILLISECOND = 1_000_000
START = 1_700_000_000_000
TOPIC = "persistent://public/default/t"


class Conversation:
    """A conversation whose client and broker methods observe each frame at once; frames are a millisecond apart."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.observer = Observer() if observer is None else observer
        self.now = 0
        self.frames: list[CapturedFrame] = []
        self.streams: dict[int, Stream] = {}

    def client(self, body: Message | bytes, entry: bytes = b"", stream: int = 0, **capture: Any) -> Facts:
        return self.say(body, entry, stream, from_client=True, **capture)

    def broker(self, body: Message | bytes, entry: bytes = b"", stream: int = 0, **capture: Any) -> Facts:
        return self.say(body, entry, stream, from_client=False, **capture)

    def say(
        self,
        body: Message | bytes,
        entry: bytes,
        stream: int,
        *,
        from_client: bool,
        sync: str = "start",
        problems: tuple[Problem, ...] = (),
    ) -> Facts:
        data = body if isinstance(body, bytes) else push_frame(body, entry)
        self.now += MILLISECOND
        if stream not in self.streams:
            self.streams[stream] = Stream(stream, ("10.0.0.1", 40_000 + stream), ("10.0.0.2", 6650), midstream=False)
        number = len(self.frames) + 1
        place = (number, number + 100, self.now, self.streams[stream], from_client, 0, sync, problems)
        frame = CapturedFrame(data, Frame.of(data).type, *place)
        self.frames.append(frame)
        return self.observer.see(frame)


@pytest.fixture
def conversation() -> Conversation:
    return Conversation()


@pytest.fixture
def talk_to() -> Callable[[Observer], Conversation]:
    return Conversation


class Actor:
    """A client in a scene. The broker processes each of its frames in a separate turn."""

    def __init__(self, scene: Scene, stream: Stream, connection: Any) -> None:
        self.scene = scene
        self.stream = stream
        self.connection = connection
        self.session = ClientSession()
        self.readers = {True: FrameReader(), False: FrameReader()}
        """Bytes of both directions, as a tap receives them."""
        self.heard: list[Any] = []
        """Bodies of received commands that were not returned yet."""
        self.messages: list[Any] = []
        """Every CommandMessage received, in order."""
        self.closed = False

    def __call__(self, *bodies: Message, entry: bytes = b"") -> list[Any]:
        """Send these commands, and return the bodies of the commands received in response."""
        for body in bodies:
            self.session.send(body, entry)
            self.scene.say(self)
        heard, self.heard = self.heard, []
        return heard

    def hear(self, data: bytes) -> None:
        bodies = [event.body for event in self.session.receive(data)]
        self.heard += bodies
        self.messages += [body for body in bodies if isinstance(body, pb.CommandMessage)]

    def producer(self, topic: str = TOPIC, producer_id: int = 1, **fields: Any) -> list[Any]:
        self(pb.CommandLookupTopic(topic=topic))
        return self(pb.CommandProducer(topic=topic, producer_id=producer_id, **{"producer_name": "p"} | fields))

    def subscribe(self, topic: str = TOPIC, consumer_id: int = 1, kind: str = "Exclusive", **fields: Any) -> list[Any]:
        self(pb.CommandLookupTopic(topic=topic))
        fields = {"subscription": "s", "consumer_name": f"c{consumer_id}"} | fields
        sub_type = pb.CommandSubscribe.SubType.Value(kind)
        return self(pb.CommandSubscribe(topic=topic, consumer_id=consumer_id, subType=sub_type, **fields))

    def publish(
        self, sequence_id: int, batch: int = 0, producer_id: int = 1, payload: bytes = b"", **metadata: Any
    ) -> list[Any]:
        """Send a message, or a batch of that many."""
        about = {"producer_name": "p", "sequence_id": sequence_id, "publish_time": self.scene.now} | metadata
        txn = {name: value for name, value in metadata.items() if name.startswith("txnid")}
        send = pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, num_messages=max(batch, 1), **txn)
        payload = payload or b"m-%d" % sequence_id
        if batch:
            about["num_messages_in_batch"] = batch
            send.highest_sequence_id = sequence_id + batch - 1
            payload = join_batch((pb.SingleMessageMetadata(), payload) for _ in range(batch))
        send.is_chunk = "chunk_id" in metadata
        return self(send, entry=push_entry(pb.MessageMetadata(**about), payload))

    def publish_keys(self, sequence_id: int, *keys: str, compression: int = 0) -> list[Any]:
        """Send a batch with a message for each key, as the Java client does without key-based batching."""
        batch = join_batch((pb.SingleMessageMetadata(partition_key=key), b"m") for key in keys)
        about = {"partition_key": keys[0], "num_messages_in_batch": len(keys), "uncompressed_size": len(batch)}
        about |= {"producer_name": "p", "sequence_id": sequence_id, "publish_time": self.scene.now}
        entry = push_entry(pb.MessageMetadata(**about, compression=compression), compress(compression, batch))
        return self(pb.CommandSend(producer_id=1, sequence_id=sequence_id, num_messages=len(keys)), entry=entry)

    def flow(self, permits: int = 1000, consumer_id: int = 1) -> list[Any]:
        return self(pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))

    def ack(self, *places: Any, consumer_id: int = 1, kind: str = "Individual", **fields: Any) -> list[Any]:
        """Acknowledge these MessageIdData."""
        ack_type = pb.CommandAck.AckType.Value(kind)
        return self(pb.CommandAck(consumer_id=consumer_id, ack_type=ack_type, message_id=places, **fields))

    def redeliver(self, *places: Any, consumer_id: int = 1, **fields: Any) -> list[Any]:
        """Request redelivery of these messages, or of all."""
        ask = pb.CommandRedeliverUnacknowledgedMessages
        return self(ask(consumer_id=consumer_id, message_ids=places, **fields))

    def cut(self, *, reset: bool = False) -> None:
        """Close the connection from the client's side."""
        self.scene.end(self, from_client=True, reset=reset)


class Scene:
    """The core of the mini-broker, its clients, and a tracker that processes each frame. Time does not pass by itself.

    The capture is taken on the client's side (``tap`` "client") or on the broker's side; faults act between the two.
    """

    def __init__(self, tap: str = "client", **settings: Any) -> None:
        from pcli.codec.observe.tracking.tracker import Tracker

        self.now = START
        """Milliseconds since 1970."""
        self.broker = Broker(Settings(**settings), service_url="pulsar://127.0.0.1:6650", now=START)
        self.faults = Faults()
        self.lives: list[Any] = []
        """Lifecycles passed to the callback."""
        self.observer = Observer()
        self.tracker = Tracker(on_lifecycle=self.lives.append)
        self.frames: list[CapturedFrame] = []
        self.after: Callable[[], None] | None = None
        """Function called after every turn of the broker."""
        self._tap_at_client = tap == "client"
        self._injector = Injector(self.faults, LiveFrames())
        self._actors: dict[Any, Actor] = {}
        self._late: list[tuple[int, Actor, Step]] = []
        self._ticks = 0
        self._events: list[tuple[str, Stream, int, bool, Any]] = []
        """Events of the capture: open, data or end, with stream, time, side, and the bytes or whether it is a reset."""

    def fault(self, text: str) -> Fault:
        """Add a fault by its text: ``drop times=1 on pulsar.type == 'FLOW'``."""
        return self.faults.add(Fault.parse(text))

    def actor(self, host: str = "10.0.0.1", **connect: Any) -> Actor:
        """Return a client after its handshake."""
        number = len(self._actors)
        stream = Stream(number, (host, 40_000 + number), ("10.0.0.2", 6650), midstream=False)
        stream.kind = "pulsar"
        connection = self.broker.connect(stream.client, self.now)
        actor = self._actors[connection] = Actor(self, stream, connection)
        self._injector.open(number, stream.client, stream.server)
        self._events.append(("opened", stream, self._time(), True, b""))
        actor.session.connect(**connect)
        self.say(actor)
        actor.heard.clear()
        return actor

    def say(self, actor: Actor) -> None:
        """Deliver the actor's output to the broker, and all resulting frames."""
        self._carry(actor, actor.session.output(), from_client=True)
        self._settle()

    def wait(self, milliseconds: int) -> None:
        """Let time pass, timer by timer."""
        end = self.now + milliseconds
        while (due := self._next_due()) is not None and due <= end:
            self._pass_to(max(self.now, due))
            self.broker.advance(self.now)
            late, self._late = self._late, []
            for due_ns, actor, step in late:
                self._arrive(actor, due_ns, step)
            self._settle()
        self._pass_to(end)

    def end(self, actor: Actor, *, from_client: bool, reset: bool = False) -> None:
        """End a connection."""
        if actor.closed:
            return
        actor.closed = True
        self._events.append(("ended", actor.stream, self._time(), from_client, reset))
        self._injector.close(actor.stream.number)
        seen = {"from_client": from_client, "reset": reset, "refused": False, "silent": False}
        self.tracker.ended(StreamEnd(actor.stream, len(self.frames), self._time(), **seen))
        self.disconnect(actor)

    def disconnect(self, actor: Actor) -> None:
        """End a connection at the broker only."""
        self.broker.disconnected(actor.connection, self.now)
        self._settle()

    def unload(self, topic: str = TOPIC) -> None:
        """Let the broker close all producers and consumers of a topic."""
        self.broker.begin_turn(self.now)
        if topic in self.broker.topics:
            self.broker.unload(self.broker.topics[topic])
        self.broker.finish_turn()
        self._settle()

    def reset_cursor(self, entry: int, name: str = "s", topic: str = TOPIC) -> None:
        """Let an administrator reset the cursor of a subscription to an entry."""
        self.broker.begin_turn(self.now)
        self.broker.topics[topic].subscriptions[name].reset(entry)
        self.broker.finish_turn()
        self._settle()

    def finish(self) -> None:
        """End the capture."""
        self.tracker.finish()

    def write(self, path: Path) -> Path:
        """Return the same frames and ends as a capture file."""
        talks: dict[int, Any] = {}
        with path.open("wb") as file:
            recorder = TcpRecorder(PcapngWriter(file))
            for kind, stream, time_ns, from_client, what in self._events:
                if kind == "opened":
                    talks[stream.number] = recorder.open(stream.client, stream.server, time_ns)
                elif kind == "data":
                    recorder.data(talks[stream.number], what, time_ns, from_client=from_client)
                else:
                    recorder.close(talks[stream.number], time_ns, from_client=from_client, reset=what)
        return path

    def _settle(self) -> None:
        """Deliver until no side has output; this ends the turn."""
        while pieces := self.broker.drain():
            for connection, data in pieces:
                self._carry(self._actors[connection], data, from_client=False)
            self.broker.finish_turn()
            for connection, actor in self._actors.items():
                if connection.closing:
                    self.end(actor, from_client=False)
                if answer := actor.session.output():  # a PONG
                    self._carry(actor, answer, from_client=True)
        for failure in self.broker.failures:
            raise failure
        if self.after is not None:
            self.after()

    def _carry(self, actor: Actor, data: bytes, *, from_client: bool) -> None:
        """Pass bytes from one side to the tap, if it is on that side, and to the faults."""
        if actor.closed or not data:
            return
        if self._tap_at_client == from_client:
            self._see(actor, data, from_client=from_client)
        for step in self._injector.feed(actor.stream.number, data, self._time(), from_client=from_client):
            self._arrive(actor, step.due_ns, step)

    def _arrive(self, actor: Actor, due_ns: int, step: Step) -> None:
        """Deliver bytes to the other side, now or later."""
        if due_ns > self._time():
            self._late.append((due_ns, actor, step))
        elif step.cut:
            self.end(actor, from_client=not step.to_broker, reset=True)
        elif step.to_broker:
            for frame in FrameReader().feed(bytes(step.data)):
                if not actor.closed:
                    if not self._tap_at_client:
                        self._see(actor, frame.data, from_client=True)
                    self.broker.receive(actor.connection, frame.data, self.now)
                    self._settle()
        elif not actor.closed:
            if self._tap_at_client:
                self._see(actor, bytes(step.data), from_client=False)
            actor.hear(bytes(step.data))

    def _see(self, actor: Actor, data: bytes, *, from_client: bool) -> None:
        for frame in actor.readers[from_client].feed(data):
            self._ticks += 1
            time_ns, number = self._time(), len(self.frames) + 1
            place = (number, number, time_ns, actor.stream, from_client, 0, "start")
            self.frames.append(CapturedFrame(frame.data, frame.type, *place))
            self._events.append(("data", actor.stream, time_ns, from_client, frame.data))
            self.tracker.see(self.observer.see(self.frames[-1]))

    def _time(self) -> int:
        """Return the current time in nanoseconds; frames of one millisecond are a microsecond apart."""
        return self.now * MILLISECOND + self._ticks * 1000

    def _pass_to(self, now: int) -> None:
        if now > self.now:
            self.now, self._ticks = now, 0

    def _next_due(self) -> int | None:
        times = [-(-due_ns // MILLISECOND) for due_ns, _, _ in self._late]
        return min(times + [one for one in [self.broker.deadline] if one is not None], default=None)


@pytest.fixture
def make_scene() -> Callable[..., Scene]:
    """Creates a scene; the parameters are ``tap`` and settings of the broker."""
    return Scene


@pytest.fixture
def diagnose(tmp_path: Path) -> Callable[..., Any]:
    """Diagnose a scene from its capture file; ``only`` selects rules."""
    from pcli.codec.observe.diagnosis import Diagnosis
    from pcli.codec.observe.tracking.tracker import process_events

    def of(scene: Scene, only: tuple[str, ...] = ()) -> Diagnosis:
        diagnosis, recording = Diagnosis(only), io.BytesIO(scene.write(tmp_path / "scene.pcapng").read_bytes())
        process_events(read_capture([("", recording)], ReadOptions(ends=True)), diagnosis)
        return diagnosis

    return of


def _unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _frames(path: Path) -> list[CapturedFrame]:
    file = io.BytesIO(_unpacked(path))
    return [item for item in read_capture([(path.name, file)]) if isinstance(item, CapturedFrame)]


class Corpus:
    """Captures by name (``java/txn-commit``) with their truth files, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._frames: dict[str, list[CapturedFrame]] = {}

    def path(self, name: str) -> Path:
        return next(path for path in self.folder.glob(f"{name}.pcap*"))

    def frames(self, name: str) -> list[CapturedFrame]:
        if name not in self._frames:
            self._frames[name] = _frames(self.path(name))
        return self._frames[name]

    def data(self, name: str) -> bytes:
        """Return the decompressed file."""
        return _unpacked(self.path(name))

    def facts(self, name: str) -> list[Facts]:
        observer = Observer()
        return [observer.see(frame) for frame in self.frames(name)]

    def truth(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.truth.json").read_text())

    def names(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*/*.truth.json")):
            name = f"{path.parent.name}/{path.name.removesuffix('.truth.json')}"
            if list(self.folder.glob(f"{name}.pcap*")):
                yield name


@pytest.fixture(scope="session")
def small(small_captures: Path) -> Corpus:
    """The committed captures."""
    return Corpus(small_captures)


@pytest.fixture(scope="session")
def corpus(captures: Path) -> Corpus:
    """All captures."""
    return Corpus(captures)


# -- captures with missing data ----------------------------------------------------------------------------------------


def _variants(data: bytes, seed: int = 0) -> dict[str, bytes]:
    """Yield incomplete variants of a capture (``data``), by what they lack."""
    packets = [one for one in read_packets([("", io.BytesIO(data))]) if isinstance(one, Packet)]
    frames = [one for one in read_capture([("", io.BytesIO(data))]) if isinstance(one, CapturedFrame)]
    servers = {one.stream.server[1] for one in frames}
    dice = random.Random(seed)
    size, step = len(packets), dice.randrange(5, 40)
    start = dice.randrange(step)
    holes = [one for number, one in enumerate(packets) if number % step != start]
    snap = dice.randrange(90, 160)
    kept = {
        "begins late": packets[dice.randrange(size // 8, size // 2) :],
        "ends early": packets[: dice.randrange(size // 2, size - size // 8)],
        "has holes": holes,
        "only from the client": [one for one in packets if _source_port(one) not in servers],
        "only from the broker": [one for one in packets if _source_port(one) in servers],
        "is cut": [replace(one, data=one.data[:snap]) for one in packets],
    }
    return {name: _written(some) for name, some in kept.items()}


def _source_port(packet: Packet) -> int:
    """Return the size of the TCP payload; 0 if there is none."""
    end = len(packet.data)
    place = LINKS[packet.link](packet.data, 0, end)
    inner = None if place is None else pull_ip(packet.data, *place, end, packet.wire_length)
    return 0 if inner is None else int.from_bytes(inner.data[inner.start : inner.start + 2], "big")


def _written(packets: list[Packet]) -> bytes:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for packet in packets:
        writer.packet(packet)
    return file.getvalue()


@pytest.fixture(scope="session")
def variants() -> Callable[..., dict[str, bytes]]:
    """Creates the variants of a capture from its bytes and a seed."""
    return _variants
