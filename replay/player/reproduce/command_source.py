"""Python source of the commands and entries of a reproduced conversation.

Rules of this file
1. Message ids that the broker assigned are ``m[0]``, ``m[1]`` … in the order of their first occurrence. Other ids are
   written as numbers.
2. Values that differ between brokers and runs are not compared: versions, timestamps, rates, and strings that contain
   ids or ports. The broker's address is written as ``broker.service_url``.
3. Short payloads are literals. A longer payload becomes zeros of the same size, because a broker does not parse
   payloads. A damaged entry is written byte by byte.
4. Credentials are replaced by a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.payload.batch import split_batch
from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.redact import SECRET_FIELDS, hidden
from pcli.replay.player.id_translation import Position, position_of
from pcli.replay.player.reproduce.python_source import WIDTH, Group, Node, literal, split_literal

_LONG: Final = 80
"""Maximum characters of an inline literal."""
_PAYLOAD: Final = 40
"""Maximum bytes of a payload that is written as a literal."""
_OWN: Final = frozenset({
    "CommandConnected.feature_flags",
    "CommandConnected.server_version",
    "CommandConsumerStatsResponse.address",
    "CommandConsumerStatsResponse.connectedSince",
    "BrokerEntryMetadata.broker_timestamp",
    "SegmentInfoProto.created_at_ms",
    "SegmentInfoProto.sealed_at_ms",
})  # fmt: skip
_RATE: Final = "CommandConsumerStatsResponse.msgRate"
_TOPICS: Final = ("topic", "topics", "new_topics")
_TEXTS: Final = ("message", "error_message")
_PASSING: Final = re.compile(r"\d:\d|:\d{4}|\(\d+,\d+\)|@|\d{10}")
"""The parts of an error text that differ between runs: ids, ports, hash codes, times."""
_ROLLBACK: Final = "CommandSubscribe.start_message_rollback_duration_sec"
_DELIVERY: Final = "MessageMetadata.deliver_at_time"
_NOWHERE: Final = (1 << 63) - 1


class CommandSource:
    """A writer of one test's commands as source code. It collects the names used in the source code."""

    def __init__(self, service_url: str, start_ms: int, received: list[Message]) -> None:
        """``service_url`` is the live broker's URL; ``received`` contains the bodies of all commands received."""
        self._service_url, self._start_ms = service_url, start_ms
        self.ids: dict[Position, int] = {}
        for body in received:
            for data in message_ids(body):
                if 0 <= data.ledgerId < _NOWHERE:
                    self.ids.setdefault(position_of(data), len(self.ids))
        self.used: set[str] = set()
        """Helpers that the source uses: ``ANY``, ``entry``, ``place``, ``clock``, ``start`` (the initial time)."""
        self.long: dict[str | bytes, str] = {}
        """Constants for values that are too long for one line, by value."""
        self.topics: dict[str, str] = {}
        """Topics, with the names of their constants."""
        self.entries: dict[bytes, str] = {}
        """The variable that contains each entry, by the entry's metadata and payload in the frame."""

    # -- commands --------------------------------------------------------------------------------------------------

    def fields(self, body: Message, now_ms: int = 0, *, received: bool = False) -> list[tuple[str, Node]]:
        """Return the fields of a command as keyword arguments. ``now_ms`` is the time at which the command was sent."""
        return [
            (f"{one.name}=", self._field(body.DESCRIPTOR.name, one, value, now_ms, received=received))
            for one, value in body.ListFields()
        ]

    def _field(self, owner: str, one: Any, value: Any, now_ms: int, *, received: bool) -> Node:
        path = f"{owner}.{one.name}"
        if path in SECRET_FIELDS:
            return literal(hidden(value) if isinstance(value, str) else hidden(value).encode())
        if received and self._is_own(path, one.name, value):
            self.used.add("ANY")
            return "ANY"
        if path == _ROLLBACK and value:
            self.used.add("clock")
            return f"int(broker.clock.now) - {now_ms // 1000 - value}"
        if path == _DELIVERY:
            late = value - self._start_ms
            self.used.add("start")
            return f"start + {late}" if late >= 0 else f"start - {-late}"
        if one.is_repeated:
            items = [("", self._value(one, item, received=received)) for item in value]
            return Group("[", items, "]", call=False)
        return self._value(one, value, received=received)

    def _is_own(self, path: str, name: str, value: Any) -> bool:
        passing = name in _TEXTS and isinstance(value, str) and _PASSING.search(value) is not None
        return path in _OWN or path.startswith(_RATE) or passing

    def _value(self, one: Any, value: Any, *, received: bool) -> Node:
        if isinstance(value, pb.MessageIdData):
            return self._id(value)
        if isinstance(value, Message):
            items = [(f'"{name[:-1]}": ', node) for name, node in self.fields(value, received=received)]
            return Group("{", items, "}", call=False)
        if one.enum_type is not None:
            known = one.enum_type.values_by_number.get(value)
            return literal(known.name) if known is not None else str(value)
        if value == self._service_url:
            return "broker.service_url"
        if one.name in _TOPICS and isinstance(value, str):
            return self._topic(value)
        return self.text(value) if isinstance(value, (str, bytes)) else repr(value)

    def _id(self, data: pb.MessageIdData) -> Node:
        found = position_of(data)
        if found not in self.ids:
            self.used.add("place")
        name = f"m[{self.ids[found]}]" if found in self.ids else f"place({found[0]}, {found[1]})"
        rest = [one for one in self.fields(data) if one[0] not in ("ledgerId=", "entryId=")]
        return Group(f"{name}.at(", rest, ")") if rest else name

    def _topic(self, value: str) -> str:
        """Return the constant of a topic, named after its local name."""
        if value not in self.topics:
            name = re.sub(r"\W+", "_", value.rpartition("/")[2], flags=re.ASCII).strip("_").upper()[:40]
            name = name if name[:1].isalpha() else f"TOPIC_{name}".rstrip("_")
            taken = {*self.topics.values(), "ANY"}
            self.topics[value] = name if name not in taken else f"{name}_{len(taken)}"
        return self.topics[value]

    def text(self, value: str | bytes) -> str:
        """Return a literal, or the name of the constant that contains the value."""
        if len(value) <= _LONG and len(literal(value)) <= _LONG:
            return literal(value)
        return self.long.setdefault(value, f"LONG_{len(self.long) + 1}")

    def admin_body(self, body: object) -> Node:
        """Return the source of a REST call's body."""
        if not isinstance(body, dict):
            return self.text(body) if isinstance(body, str) else repr(body)
        found = signed(body.get("ledgerId", -1)), signed(body.get("entryId", -1))
        if found in self.ids:
            rest = [(f"{name}=", repr(value)) for name, value in body.items() if name not in ("ledgerId", "entryId")]
            return Group(f"m[{self.ids[found]}].at(", rest, ")")
        return Group("{", [(f'"{name}": ', self._plain(value)) for name, value in body.items()], "}", call=False)

    def _plain(self, value: object) -> Node:
        if isinstance(value, (list, tuple)):
            return Group("[", [("", self._plain(one)) for one in value], "]", call=False)
        if isinstance(value, dict):
            items = [(f"{literal(str(name))}: ", self._plain(one)) for name, one in value.items()]
            return Group("{", items, "}", call=False)
        return self.text(value) if isinstance(value, (str, bytes)) else repr(value)

    # -- entries ---------------------------------------------------------------------------------------------------

    def entry(self, frame: Frame) -> Node:
        """Return the source of the headers and payload of a SEND."""
        metadata, payload = frame.metadata, frame.payload
        if metadata is None or payload is None or frame.checksum == "bad":
            return self.text(frame.data[frame.parts.command_end :])
        self.used.add("entry")
        items: list[tuple[str, Node]] = [("", _payload(payload))]
        if frame.checksum == "none":
            items.append(("checksum=", "False"))
        return Group("entry(", [*items, *self.fields(metadata)], ")")

    def describe_entry(self, frame: Frame) -> str:
        """Return a description of an entry if its payload is not written as a literal, or else an empty string."""
        metadata, payload = frame.metadata, frame.payload
        if metadata is None or payload is None or not _is_long(payload):
            return ""
        kind = pb.CompressionType.Name(metadata.compression) if metadata.compression else ""
        inside = [kind, "encrypted" if metadata.encryption_keys else "", _batch(metadata, payload)]
        words = [f"{len(payload)} bytes", *filter(None, inside), f"sha256 {sha256(payload).hexdigest()[:12]}"]
        return ", ".join(words)

    def constants(self) -> Iterator[str]:
        """Yield the lines that define the constants."""
        named: list[tuple[str | bytes, str]] = [*self.topics.items(), *self.long.items()]
        for value, name in named:
            line = f"{name} = {literal(value)}"
            yield from [line] if len(line) <= WIDTH else [f"{name} = (", *_in_pieces(value), ")"]


def _in_pieces(value: str | bytes) -> list[str]:
    """Return the indented lines of a literal: one line if it fits."""
    fits = len(literal(value)) <= WIDTH - 4
    return [f"    {piece}" for piece in split_literal(value, WIDTH - 4 if fits else 100)]


def _is_long(payload: bytes) -> bool:
    return len(payload) > _PAYLOAD or len(literal(payload)) > _LONG


def _payload(payload: bytes) -> str:
    return f"bytes({len(payload)})" if _is_long(payload) else literal(payload)


def _batch(metadata: pb.MessageMetadata, payload: bytes) -> str:
    """Describe a batch by its number of messages and its first message. Return an empty string if it is not a batch."""
    if not metadata.HasField("num_messages_in_batch"):
        return ""
    count = metadata.num_messages_in_batch
    text = f"a batch of {count}"
    if not metadata.compression and not metadata.encryption_keys:
        for _, start, end in split_batch(payload, count)[0][:1]:
            first = literal(payload[start:end])
            text += f", first message {first if len(first) < 30 else first[:29] + '…'}"
    return text


def message_ids(body: Message) -> Iterator[pb.MessageIdData]:
    """Yield the message ids in a command and in the messages that it contains."""
    for one, value in body.ListFields():
        if one.message_type is None:
            continue
        for item in value if one.is_repeated else (value,):
            if isinstance(item, pb.MessageIdData):
                yield item
            yield from message_ids(item)
