"""Messages that clients received in the capture but no replayed client sent. They are published before the replay.

Rules of this file
1. These messages existed before the capture, or were sent on a connection that is not replayed. MESSAGE contains their
   metadata, payload and message id. They are published byte for byte in the order of their ids.
2. They are published on a separate connection, whose script contains the receipts that the captured broker must have
   sent. Their live ids are therefore mapped in the same way as all other ids. The receipts are not compared.
3. A durable subscription that received a seed message is created first, at the earliest position. Messages that a
   reader of a compacted topic received are omitted: no client published them in that form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.capture.frames import START, CapturedFrame, Stream
from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.scalable import SegmentName
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import pull_type
from pcli.codec.wire.message_id import MessageId
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.player.id_translation import Position, position_of
from pcli.replay.player.script.script import SEED_STREAM, CapturedConnection, Rename, RestCall, Script, Step, topic_path

_NAME: Final = "pcli-replay"
_OPENING: Final = ("PRODUCER", "SUBSCRIBE")
_LATEST: Final = pb.CommandSubscribe.Latest


def seed(script: Script, rename: Rename = str) -> list[RestCall]:
    """Insert the seed messages at the start of the script. Return the calls that create their subscriptions."""
    found = _unsent(script)
    if not found:
        return []
    first = script.steps[0]
    script.connections[SEED_STREAM] = CapturedConnection(
        SEED_STREAM, ("pcli", 0), script.connections[first.stream].server
    )
    stream = Stream(SEED_STREAM, ("pcli", 0), script.connections[first.stream].server, midstream=False)
    frames = list(_conversation(found, _schemas(script)))
    steps = [
        Step(0, SEED_STREAM, first.time_ms, from_client, _framed(data, stream, first.time_ms, from_client=from_client))
        for from_client, data in frames
    ]
    script.steps = [*steps, *script.steps]
    for index, step in enumerate(script.steps):
        step.index = index
    return list(_subscriptions(script, found, rename))


def _unsent(script: Script) -> dict[str, dict[Position, CapturedFrame]]:
    """Return the deliveries on persistent topics that no client sent, by topic and sorted message id."""
    sent = {step.content for step in script.steps if step.name == "SEND"}
    compacted = {
        step.peer
        for step in script.steps
        if step.name == "SUBSCRIBE" and step.frame is not None and step.frame.command.subscribe.read_compacted
    }
    found: dict[str, dict[Position, CapturedFrame]] = {}
    for step in script.steps:
        peer, frame = step.peer, step.frame
        if step.name != "MESSAGE" or frame is None or not isinstance(peer, Consumer) or peer in compacted:
            continue
        if peer.topic and TopicName.parse(peer.topic).persistent and step.content not in sent:
            found.setdefault(peer.topic, {})[position_of(frame.command.message.message_id)] = frame
    topics = sorted(found, key=_segment)  # a segment exists after its parents
    return {topic: dict(sorted(found[topic].items())) for topic in topics}


def _segment(topic: str) -> int:
    """Return the id of a segment; -1 for another topic."""
    name = SegmentName.parse(topic)
    return -1 if name is None else name.id


def _schemas(script: Script) -> dict[str, pb.Schema]:
    """Return the schema of the first successful producer or consumer of each topic.

    A broker refuses a consumer with a schema on a topic that has messages but no schema.
    """
    requests = {step.frame.number: step for step in script.steps if step.frame is not None and step.name in _OPENING}
    found: dict[str, pb.Schema] = {}
    for step in script.steps:
        request = requests.get(step.request.number) if step.request is not None and step.name != "ERROR" else None
        if request is not None and request.frame is not None:
            schema = request.frame.body.schema
            if request.frame.body.HasField("schema") and schema.type != pb.Schema.AutoConsume:
                found.setdefault(request.topic, schema)
    return found


def _conversation(
    found: dict[str, dict[Position, CapturedFrame]], schemas: dict[str, pb.Schema]
) -> Iterator[tuple[bool, bytes]]:
    """Yield the frames of both sides, and whether the client sends the frame."""
    yield True, push_frame(pb.CommandConnect(client_version=_NAME, protocol_version=21))
    yield False, push_frame(pb.CommandConnected(server_version="", protocol_version=21))
    for number, (topic, entries) in enumerate(found.items()):
        request = 2 * number
        yield True, push_frame(pb.CommandLookupTopic(topic=topic, request_id=request))
        yield False, push_frame(pb.CommandLookupTopicResponse(request_id=request))
        producer = pb.CommandProducer(
            topic=topic, producer_id=number, request_id=request + 1, schema=schemas.get(topic)
        )
        yield True, push_frame(producer)
        yield False, push_frame(pb.CommandProducerSuccess(request_id=request + 1, producer_name=_NAME))
        for sequence, (position, frame) in enumerate(entries.items()):
            yield True, _send(number, sequence, frame)
            receipt = pb.CommandSendReceipt(producer_id=number, sequence_id=sequence)
            receipt.message_id.CopyFrom(MessageId(*position).proto())
            yield False, push_frame(receipt)


def _send(producer: int, sequence: int, frame: CapturedFrame) -> bytes:
    metadata = frame.metadata or pb.MessageMetadata()
    command = pb.CommandSend(producer_id=producer, sequence_id=sequence)
    command.num_messages = max(1, metadata.num_messages_in_batch)
    command.is_chunk = metadata.num_chunks_from_msg > 1
    if not command.is_chunk:
        command.ClearField("is_chunk")
    return push_frame(command, push_entry(metadata, frame.payload or b""))


def _framed(data: bytes, stream: Stream, time_ms: float, *, from_client: bool) -> CapturedFrame:
    command_end = 8 + int.from_bytes(data[4:8], "big")
    kind = pull_type(data, 8, command_end)
    return CapturedFrame(data, kind, 0, 0, int(time_ms * 1_000_000), stream, from_client, 0, START)


def _subscriptions(
    script: Script, found: dict[str, dict[Position, CapturedFrame]], rename: Rename
) -> Iterator[RestCall]:
    """Yield calls for durable subscriptions that received a seed message but would start at the latest message."""
    made: set[tuple[str, str]] = set()
    for step in script.steps:
        peer, frame = step.peer, step.frame
        if step.name != "SUBSCRIBE" or frame is None or not isinstance(peer, Consumer) or peer.topic not in found:
            continue
        subscribe = frame.command.subscribe
        key = peer.topic, peer.subscription
        late = subscribe.durable and subscribe.initialPosition == _LATEST
        if late and key not in made and _received(script, peer, found[peer.topic]):
            made.add(key)
            path = topic_path(rename(peer.topic))
            yield RestCall("PUT", path)
            yield RestCall("PUT", f"{path}/subscription/{peer.subscription}", {"ledgerId": -1, "entryId": -1})


def _received(script: Script, peer: Consumer, entries: dict[Position, CapturedFrame]) -> bool:
    return any(
        step.name == "MESSAGE"
        and step.peer is peer
        and step.frame is not None
        and position_of(step.frame.command.message.message_id) in entries
        for step in script.steps
    )
