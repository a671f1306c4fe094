"""The frames of the engine, compared with those of the V5 Java client in a capture, which is also the broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import read_capture
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import COMMANDS, name_of
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader
from pcli.replay.client.actions import Connect, Write
from pcli.replay.client.engine import Engine
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from pcli.replay.service_url import ServiceUrl

START = 1_700_000_000_000
STRING = pb.Schema(name="String", type=pb.Schema.Type.String, schema_data=b"")


def command_of(frame: Any) -> tuple[str, Any]:
    return name_of(frame.type), getattr(frame.command, COMMANDS[frame.type].field)


def without_request(body: Any) -> Any:
    copy = type(body)()
    copy.CopyFrom(body)
    if "request_id" in copy.DESCRIPTOR.fields_by_name:
        copy.request_id = 0
    return copy


class Recording:
    """The conversation about the scalable topic in a capture."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            frames = [one for one in read_capture([(path.name, file)]) if isinstance(one, Frame)]
        topic = next(one for one in frames if name_of(one.type) == "SCALABLE_TOPIC_LOOKUP")
        self.frames = [one for one in frames if one.stream.number == topic.stream.number]  # type: ignore[attr-defined]

    def of(self, *names: str, from_client: bool = True) -> list[Any]:
        """Return the frames of these types that one side sent."""
        return [one for one in self.frames if name_of(one.type) in names and one.from_client == from_client]

    def responses(self, frame: Any) -> Iterator[Any]:
        """Yield the broker's responses to a frame of the client, up to the next frame like it."""
        name, body = command_of(frame)
        key = "session_id" if name == "SCALABLE_TOPIC_LOOKUP" else "request_id"
        if not hasattr(body, key):
            return
        for other in self.frames[self.frames.index(frame) :]:
            response = command_of(other)[1]
            if not other.from_client and getattr(response, key, None) == getattr(body, key):
                yield response
                return


class Playback:
    """An engine whose broker sends the responses of a recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.engine = Engine(ServiceUrl.parse("pulsar://a:1"), ClientSettings(), now=START, random=lambda: 0.0)
        self.sent: list[Any] = []
        """All frames of the engine."""
        ignored = ("CONNECT", "TC_CLIENT_CONNECT_REQUEST", "SEND", "ACK", "PONG", "PING")
        self.expected = [one for one in recording.frames if one.from_client and name_of(one.type) not in ignored]
        """The frames that the engine must send, in this order."""
        self._ignored = ignored
        self._reader = FrameReader()

    def step(self, milliseconds: int = 0) -> None:
        """Advance the time, and exchange frames until both sides are silent."""
        self.engine.advance(self.engine.now + milliseconds)
        while actions := self.engine.take():
            for action in actions:
                if isinstance(action, Connect):
                    self.engine.connected(action.connection, self.engine.now)
                elif isinstance(action, Write):
                    for frame in self._reader.feed(action.data):
                        self.sent.append(frame)
                        answer = b"".join(self._answer(frame))
                        self.engine.received(action.connection, answer, self.engine.now)

    def _answer(self, frame: Any) -> Iterator[bytes]:
        name, body = command_of(frame)
        if name == "CONNECT":
            flags = pb.FeatureFlags(supports_scalable_topics=True)
            yield push_frame(pb.CommandConnected(server_version="5", protocol_version=21, feature_flags=flags))
        elif name == "SEND":
            yield from self._stored(body)
        elif name not in self._ignored:
            recorded = self.expected.pop(0)
            assert without_request(body) == without_request(command_of(recorded)[1]), name
            for response in self.recording.responses(recorded):
                copy = without_request(response)
                if hasattr(copy, "request_id"):
                    copy.request_id = body.request_id
                yield push_frame(copy)

    def _stored(self, body: pb.CommandSend) -> Iterator[bytes]:
        """Yield the receipt of an entry, and its deliveries."""
        for receipt in self.recording.of("SEND_RECEIPT", from_client=False):
            found = command_of(receipt)[1]
            if (found.producer_id, found.sequence_id) == (body.producer_id, body.sequence_id):
                yield receipt.data
                place = found.message_id.ledgerId, found.message_id.entryId
                for message in self.recording.of("MESSAGE", from_client=False):
                    delivered = command_of(message)[1].message_id
                    if (delivered.ledgerId, delivered.entryId) == place:
                        yield message.data


def entries(frames: list[Any]) -> dict[int, list[Any]]:
    """Return the SENDs by producer: command, metadata without name and time, and payload."""
    found = defaultdict(list)
    for frame in frames:
        name, body = command_of(frame)
        if name == "SEND":
            metadata = frame.metadata
            metadata.producer_name, metadata.publish_time = "", 0
            found[body.producer_id].append((body, metadata, bytes(frame.payload)))
    return found


def acked(frames: list[Any]) -> dict[int, list[Any]]:
    """Return the acknowledged ids by consumer; of cumulative acknowledgements the last."""
    found = defaultdict(list)
    for frame in frames:
        name, body = command_of(frame)
        if name == "ACK":
            ids = [(one.ledgerId, one.entryId) for one in body.message_id]
            if body.ack_type == pb.CommandAck.Cumulative:
                found[body.consumer_id] = ids
            else:
                found[body.consumer_id] = sorted([*found[body.consumer_id], *ids])
    return found


@pytest.fixture
def playback(captures_5: Path) -> Playback:
    return Playback(Recording(captures_5 / "healthy.pcap"))


def test_producer_and_consumers_send_the_frames_of_the_java_client(playback: Playback) -> None:
    engine, topic, made = playback.engine, "topic://public/default/bas2", []
    for kind, subscription, name in (("stream", "st", "s1"), ("queue", "qu", "q1")):
        settings = ConsumerSettings(
            topicNames=(topic,), subscriptionName=subscription, consumerName=name, scalableType=kind, schema=STRING,  # type: ignore[arg-type]
            subscriptionInitialPosition="Earliest",
        )  # fmt: skip
        engine.subscribe(settings, made.append)
        playback.step()
    engine.produce(topic, ProducerSettings(schema=STRING), made.append)
    playback.step()
    stream, queue, producer = made

    for number in range(26):
        key = f"k{number}" if number < 20 else None
        producer.send(OutgoingMessage(f"v{number}".encode() if key else b"n%d" % (number - 20), key=key))
        playback.step()
        producer.trigger_flush()
        playback.step()

    # Messages that the Java client sent together are sent together here.
    flushes: dict[int, list[int]] = {0: [1, 8, 8, 22], 1: [2, 4, 15]}
    for number in range(60):
        key = f"k{number % 10}" if number < 30 else None
        producer.send(OutgoingMessage(b"a%d" % number if key else b"u%d" % (number - 30), key=key))
        for segment, counts in flushes.items():
            if counts and producer.producers[segment].waiting == counts[0]:
                counts.pop(0)
                producer.producers[segment].trigger_flush()
                playback.step()

    for consumer in (stream, queue):
        while (message := consumer.receive()) is not None:
            consumer.acknowledge(message.id)
    playback.step(100)
    recorded = playback.recording.of("SEND", "ACK")
    assert entries(playback.sent) == entries(recorded)
    assert acked(playback.sent) == acked(recorded)

    for one in (producer, stream, queue):
        one.close(lambda _: None)
        playback.step()
    assert playback.expected == []
