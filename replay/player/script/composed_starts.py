"""Handshakes that are composed for connections that began before the capture.

Rules of this file
1. A composed CONNECT equals another CONNECT from the same address, or has the highest protocol version and the feature
   flags that the frames of the connection require.
2. A producer is composed if the capture proves its topic: the ledger of its receipts belongs to the topic of another
   producer or consumer, or a later PRODUCER with the same name was successful after the producer's last frame, and no
   other producer from before the capture has this name. The name is that of its messages.
3. A consumer is composed if it received messages of a topic, and if a SUBSCRIBE from the same address to this topic has
   the same consumer id after the consumer was closed or its connection has ended: a client that subscribes again keeps
   the id. No other SUBSCRIBE to this topic from this address may have the id, and the subscription must be durable. The
   composed FLOW grants the messages that were delivered beyond the captured FLOWs.
4. All frames of other producers and consumers, and responses to requests before the capture, are omitted.
5. Acknowledgements and redelivery requests for messages that were delivered before the capture are omitted with their
   responses, and receipts of earlier SENDs.
6. Sessions and watches of Pulsar 5.0, and registrations of consumers at a controller, are not composed, because the
   capture does not contain the layout, assignment or list of topics at its start. Their frames are omitted.
7. Composed frames have negative numbers and the time of the first captured frame. Their responses are awaited but not
   compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.capture import CapturedFrame
from pcli.codec.capture.frames import RESYNC, START, Stream, StreamEnd
from pcli.codec.observe import Facts, ObservedFrame
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import BY_NAME, COMMANDS, name_of
from pcli.codec.wire.frame import pull_type
from pcli.codec.wire.message_id import signed
from pcli.replay.player.id_translation import position_of

_CONNECT: Final = BY_NAME["CONNECT"].number
_REQUESTS: Final = 1 << 62
"""The first request id of composed commands."""

_FIRST: Final = -(1 << 40)
"""The number of the first composed frame."""

_VERSION: Final = max(pb.ProtocolVersion.values())
_KEEP_ALIVE: Final = frozenset(BY_NAME[name].number for name in ("PING", "PONG"))


_EARLIER_MESSAGES: Final = "frames about messages that were sent or delivered before the capture"
_EARLIER_REQUESTS: Final = "responses to requests from before the capture"
_EARLIER_SESSIONS: Final = "frames of sessions, watches and registrations of Pulsar 5.0 from before the capture"
_UNKNOWN_NAMES: Final = "frames of producers and consumers from before the capture whose names it does not show"


@dataclass(slots=True)
class ComposedStarts:
    """The composed frames of a capture."""

    frames: dict[int, list[CapturedFrame]] = field(default_factory=dict)
    """The frames at the start of each connection; none if only its TCP handshake was not captured."""
    omitted: set[int] = field(default_factory=set)
    """Numbers of the captured frames that are omitted."""
    texts: dict[int, list[str]] = field(default_factory=dict)
    """What was composed for each connection, and from which frame it follows."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of omitted frames by reason."""


def compose_starts(seen: Sequence[Facts], ends: Mapping[int, StreamEnd]) -> ComposedStarts:
    """Return the starts of the connections that began before the capture.

    ``seen`` contains all frames in order, and ``ends`` the ends of connections.
    """
    found, numbers = ComposedStarts(), count(_FIRST)
    streams: dict[int, list[Facts]] = defaultdict(list)
    for facts in seen:
        streams[facts.frame.stream.number].append(facts)
    known = _Known(seen, ends)
    for frames in streams.values():
        if any(facts.system for facts in frames):
            continue  # the broker's internal client
        if _begins_with_connect(frames):
            found.frames[frames[0].frame.stream.number] = []
        elif _began_before(frames):
            _Start(found, known, frames, numbers, seen[0].frame.time_ns).compose()
    return found


def _begins_with_connect(frames: Sequence[Facts]) -> bool:
    """Return whether only the TCP handshake of a connection was not captured."""
    first = frames[0].frame
    return _is_midstream(first) and first.from_client and first.type == _CONNECT


def _began_before(frames: Sequence[Facts]) -> bool:
    """Return whether a connection began before the capture and contains a command that can be replayed."""
    first = frames[0].frame
    commands = [one for one in frames if one.frame.from_client and one.frame.type not in _KEEP_ALIVE]
    whole = isinstance(first, CapturedFrame) and not first.capture_problems and not first.missing
    return _is_midstream(first) and whole and bool(commands)


def _is_midstream(first: ObservedFrame) -> bool:
    """Return whether the capture begins in the middle of a connection; ``first`` is its first frame."""
    return first.sync == RESYNC and isinstance(first.stream, Stream) and first.stream.midstream


class _Known:
    """What the capture proves about names."""

    def __init__(self, seen: Sequence[Facts], ends: Mapping[int, StreamEnd]) -> None:
        self.ends = ends
        """The ends of connections."""
        self.connects: dict[str, Facts] = {}
        """The first CONNECT from each address."""
        self.ledgers: dict[int, set[str]] = defaultdict(set)
        """The topics of each ledger."""
        self.producers: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """The successful PRODUCERs of each producer name: number of the response, and topic."""
        self.unknown: dict[str, set[tuple[int, int]]] = defaultdict(set)
        """The producers without a known topic of each producer name: connection and id."""
        self.subscribes: dict[tuple[str, int], list[Facts]] = defaultdict(list)
        """The SUBSCRIBEs from an address by consumer id."""
        for facts in seen:
            frame = facts.frame
            host, topic = frame.stream.client[0], facts.peer.topic if facts.peer is not None else ""
            match name_of(frame.type):
                case "CONNECT" if _body(facts).IsInitialized():
                    self.connects.setdefault(host, facts)
                case "PRODUCER_SUCCESS" if topic and facts.peer is not None and facts.peer.name:
                    self.producers[facts.peer.name].append((frame.number, topic))
                case "SEND" if not topic:
                    self.unknown[_producer_name(facts)].add((frame.stream.number, _body(facts).producer_id))
                case "SUBSCRIBE" if _body(facts).IsInitialized():
                    self.subscribes[host, _body(facts).consumer_id].append(facts)
                case "SEND_RECEIPT" | "MESSAGE" if topic:
                    self.ledgers[_ledger(facts)].add(topic)


class _Start:
    """The start of one connection."""

    def __init__(
        self, found: ComposedStarts, known: _Known, frames: list[Facts], numbers: Iterator[int], time_ns: int
    ) -> None:
        self._found, self._known, self._frames, self._numbers = found, known, frames, numbers
        self._time_ns = time_ns
        self._stream: Stream = frames[0].frame.stream  # type: ignore[assignment]  # a capture has whole streams
        self._requests = count(_REQUESTS)
        self._composed: list[CapturedFrame] = []
        self._omitted: set[int] = set()
        self._left_out: Counter[str] = Counter()
        self._texts: list[str] = []

    def compose(self) -> None:
        """Compose the start, unless nothing else of the connection can be replayed."""
        self._connect()
        for (side, owner), frames in self._opened_before().items():
            if side not in _CLASSIC:
                self._omit(frames, _EARLIER_SESSIONS)
            elif (self._producer if side == "producer_id" else self._consumer)(owner, frames):
                self._omit(_about_earlier_messages(frames), _EARLIER_MESSAGES)
            else:
                self._omit(frames, _UNKNOWN_NAMES)
        late = [one for one in self._frames if _is_late_response(one)]
        self._omit([one for one in late if one.frame.number not in self._omitted], _EARLIER_REQUESTS)
        if any(one.frame.number not in self._omitted and one.frame.type not in _KEEP_ALIVE for one in self._frames):
            self._found.frames[self._stream.number] = self._composed
            self._found.texts[self._stream.number] = self._texts
            self._found.omitted |= self._omitted
            self._found.left_out += self._left_out

    def _omit(self, frames: list[Facts], reason: str) -> None:
        if frames:
            self._omitted |= {one.frame.number for one in frames}
            self._left_out[reason] += len(frames)

    def _opened_before(self) -> dict[tuple[str, int], list[Facts]]:
        """Return the frames of what was opened before the capture until it is reopened, by id space and id."""
        found: dict[tuple[str, int], list[Facts]] = defaultdict(list)
        opened: set[tuple[str, int]] = set()
        asked: dict[int, tuple[str, int]] = {}
        for facts in self._frames:
            owner = _owner(facts)
            if owner is None and facts.request is not None:
                owner = asked.get(facts.request.number)
            if owner is None:
                continue
            if name_of(facts.frame.type) in _OPENING:
                opened.add(owner)
            if owner not in opened:
                found[owner].append(facts)
                asked[facts.frame.number] = owner
        return found

    # -- frames

    def _add(self, body: Message, *, from_client: bool) -> None:
        data = push_frame(body)
        kind = pull_type(data, 8, 8 + int.from_bytes(data[4:8], "big"))
        number = next(self._numbers)
        self._composed.append(CapturedFrame(data, kind, number, 0, self._time_ns, self._stream, from_client, 0, START))

    def _request(self, body: Message, response: Message) -> None:
        for one, from_client in ((body, True), (response, False)):
            one.request_id = next(self._requests) if from_client else body.request_id  # type: ignore[attr-defined]
            self._add(one, from_client=from_client)

    def _connect(self) -> None:
        known = self._known.connects.get(self._stream.client[0])
        connect = pb.CommandConnect(client_version="pcli-replay", protocol_version=_VERSION)
        source = f"protocol version {_VERSION}; no CONNECT from {self._stream.client[0]} was captured"
        if known is not None:
            connect.CopyFrom(_body(known))
            source = f"as in frame {known.frame.number}"
        else:
            self._set_features(connect)
        self._add(connect, from_client=True)
        self._add(pb.CommandConnected(server_version="", protocol_version=connect.protocol_version), from_client=False)
        self._note(f"CONNECT ({source})")

    def _set_features(self, connect: pb.CommandConnect) -> None:
        names = {COMMANDS[one.frame.type].feature for one in self._frames if one.frame.type in COMMANDS}
        if any(getattr(one.frame, "broker_entry", None) is not None for one in self._frames):
            names.add("supports_broker_entry_metadata")
        for name in names & set(pb.FeatureFlags.DESCRIPTOR.fields_by_name):
            setattr(connect.feature_flags, name, True)

    def _lookup(self, topic: str) -> None:
        self._request(pb.CommandLookupTopic(topic=topic), pb.CommandLookupTopicResponse())

    def _producer(self, producer_id: int, frames: list[Facts]) -> bool:
        """Compose a producer; return False if its topic is unknown."""
        name = next(filter(None, map(_producer_name, frames)), "")
        proved = self._topics(one for one in frames if name_of(one.frame.type) == "SEND_RECEIPT")
        source = "by the ledger of its receipts"
        if not proved and name and len(self._known.unknown[name]) == 1:
            later = [one for one in self._known.producers[name] if one[0] > frames[-1].frame.number]
            proved = {topic for _, topic in later}
            source = f"frame {later[0][0]}" if later else ""
        if len(proved) != 1:
            return False
        topic = proved.pop()
        self._lookup(topic)
        producer = pb.CommandProducer(topic=topic, producer_id=producer_id)
        if name:
            producer.producer_name = name
        self._request(producer, pb.CommandProducerSuccess(producer_name=name))
        self._note(f"PRODUCER {producer_id}: {topic}, name {name or '(assigned by the broker)'} ({source})")
        return True

    def _consumer(self, consumer_id: int, frames: list[Facts]) -> bool:
        """Compose a consumer; return False if its subscription is unknown."""
        by_ledger = self._topics(one for one in frames if name_of(one.frame.type) == "MESSAGE")
        same = [
            one
            for one in self._known.subscribes.get((self._stream.client[0], consumer_id), ())
            if _peer_topic(one) in by_ledger
        ]
        later = [one for one in same if self._has_ended(frames, one)]
        names = {(_body(one).subscription, _body(one).subType, _body(one).durable) for one in later}
        if len(by_ledger) != 1 or len(names) != 1 or len(later) < len(same) or not _body(later[0]).durable:
            return False
        subscribe = pb.CommandSubscribe()
        subscribe.CopyFrom(_body(later[0]))
        for name in ("start_message_id", "start_message_rollback_duration_sec", "consumer_epoch"):
            subscribe.ClearField(name)  # they describe the position at the time of that SUBSCRIBE
        self._lookup(subscribe.topic)
        self._request(subscribe, pb.CommandSuccess())
        permits = _missing_permits(frames)
        if permits:
            self._add(pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits), from_client=True)
        kind = pb.CommandSubscribe.SubType.Name(subscribe.subType)
        text = f"{subscribe.topic}, subscription {subscribe.subscription}, {kind}, {permits} permits"
        self._note(f"SUBSCRIBE {consumer_id}: {text} (frame {later[0].frame.number})")
        return True

    def _has_ended(self, frames: list[Facts], subscribe: Facts) -> bool:
        """Return whether a consumer was closed, or its connection has ended, before a SUBSCRIBE."""
        closed = [one.frame.number for one in frames if name_of(one.frame.type) == "CLOSE_CONSUMER"]
        end, frame = self._known.ends.get(self._stream.number), subscribe.frame
        ended = end is not None and isinstance(frame, CapturedFrame) and end.packet < frame.packet
        return ended or any(number < frame.number for number in closed)

    def _topics(self, frames: Iterator[Facts]) -> set[str]:
        """Return the topics to which the ledgers of these frames belong."""
        return {topic for one in frames for topic in self._known.ledgers.get(_ledger(one), ())}

    def _note(self, text: str) -> None:
        self._texts.append(text)


def _body(facts: Facts) -> Any:
    frame = facts.frame
    assert isinstance(frame, CapturedFrame)
    return frame.body


def _ledger(facts: Facts) -> int:
    return signed(_body(facts).message_id.ledgerId)


def _producer_name(facts: Facts) -> str:
    """Return the producer name in the metadata of a SEND."""
    frame = facts.frame
    metadata = frame.metadata if isinstance(frame, CapturedFrame) and name_of(frame.type) == "SEND" else None
    return "" if metadata is None else str(metadata.producer_name)


def _peer_topic(facts: Facts) -> str:
    return facts.peer.topic if facts.peer is not None else ""


_CLASSIC: Final = ("producer_id", "consumer_id")
_OPENING: Final = (
    *("PRODUCER", "SUBSCRIBE", "SCALABLE_TOPIC_LOOKUP", "SCALABLE_TOPIC_SUBSCRIBE"),
    *("WATCH_SCALABLE_TOPICS", "WATCH_TC_ASSIGNMENTS"),
)


def _owner(facts: Facts) -> tuple[str, int] | None:
    """Return the id space and the id of the frame's producer, consumer, session or watch."""
    body, command = _body(facts), name_of(facts.frame.type)
    spaces = (one for one in ("SCALABLE_TOPIC_", "WATCH_SCALABLE_", "WATCH_TC_") if command.startswith(one))
    for name in (*_CLASSIC, "session_id", "watch_id"):
        if body is not None and name in body.DESCRIPTOR.fields_by_name:
            return next(spaces, "") + name, getattr(body, name)
    return None


_RESPONSES: Final = frozenset(name for row in COMMANDS.values() for name in row.answers)


def _is_late_response(facts: Facts) -> bool:
    """Return whether a frame is a response whose request was not captured."""
    body, name = _body(facts), name_of(facts.frame.type)
    has_id = body is not None and "request_id" in body.DESCRIPTOR.fields_by_name and body.HasField("request_id")
    is_response = name in _RESPONSES and (has_id or name == "CONNECTED")
    return is_response and not facts.frame.from_client and facts.request is None


def _about_earlier_messages(frames: list[Facts]) -> list[Facts]:
    """Return requests about earlier messages with their responses, and receipts of earlier SENDs."""
    delivered: set[tuple[int, int]] = set()
    found: list[Facts] = []
    omitted: set[int] = set()
    for facts in frames:
        body, name = _body(facts), name_of(facts.frame.type)
        if name in ("SEND_RECEIPT", "SEND_ERROR") and not facts.request_number:
            found.append(facts)
        elif name == "MESSAGE":
            delivered.add(position_of(body.message_id))
        elif name == "ACK" and delivered.isdisjoint(map(position_of, body.message_id)):
            found.append(facts)
            omitted.add(facts.frame.number)
        elif name == "REDELIVER_UNACKNOWLEDGED_MESSAGES" and body.message_ids:
            if delivered.isdisjoint(map(position_of, body.message_ids)):
                found.append(facts)
        elif facts.request is not None and facts.request.number in omitted:
            found.append(facts)
    return found


def _missing_permits(frames: list[Facts]) -> int:
    """Return the permits that the consumer must have had before the capture."""
    balance = lowest = 0
    for facts in frames:
        name = name_of(facts.frame.type)
        if name == "FLOW":
            balance += _body(facts).messagePermits
        elif name == "MESSAGE":
            metadata = facts.frame.metadata if isinstance(facts.frame, CapturedFrame) else None
            balance -= 1 if metadata is None else max(1, metadata.num_messages_in_batch)
        lowest = min(lowest, balance)
    return -lowest
