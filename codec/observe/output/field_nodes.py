"""A frame as a tree of nodes, each with the bytes from which it was decoded, for interactive views.

Rules of this file
1. A node refers to bytes of the frame, or of one of the payloads that were decrypted, decompressed or joined from it.
2. Credentials and payloads are hidden unless requested. All text passes through `printable`.
3. Bytes that are not valid protobuf end a message; the nodes before them are kept.
4. Nodes below a payload are created on demand, because a batch may contain 100,000 messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pcli.codec.observe.decoding.decode_plans import (
    LIST,
    MESSAGE,
    MESSAGES,
    ONE,
    PACKED,
    SKIP,
    Plan,
    Slot,
    command_plan,
    has_secrets,
    part_plan,
)
from pcli.codec.observe.decoding.message_decoder import pull_field
from pcli.codec.observe.decoding.value_kinds import is_secret, kind_of, shown
from pcli.codec.observe.fields.general_fields import problems_of
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.text_format import epoch_text, latency_text, printable, size_text
from pcli.codec.payload import Entry, Message
from pcli.codec.wire.commands import PAYLOAD_TYPES, name_of
from pcli.codec.wire.problems import Problem
from pcli.codec.wire.redact import hidden

_MAX_TEXT: Final = 4096
"""Maximum number of characters of a value in a node."""


@dataclass(slots=True)
class FieldNode:
    """One line of the tree."""

    text: str
    start: int = 0
    end: int = 0
    """The bytes of the node; empty if the value is not part of the frame."""
    below: list[FieldNode] | Callable[[], list[FieldNode]] = field(default_factory=list)
    name: str = ""
    """The name of the field in filters; empty if there is none."""
    data: bytes | None = None
    """The payload that contains the bytes; None for the frame itself."""
    target: int = 0
    """The number of the frame to which the node refers; 0 if none."""

    def children(self) -> list[FieldNode]:
        """Return the nodes below this node."""
        if not isinstance(self.below, list):
            self.below = self.below()
        return self.below

    @property
    def has_children(self) -> bool:
        """Whether there may be nodes below this node."""
        return bool(self.below)


def frame_nodes(facts: Facts, *, secrets: bool = False, payload: bool = False) -> list[FieldNode]:
    """Return the tree of a frame: position, command, broker entry, checksum, metadata, payload, relations, problems."""
    frame, parts = facts.frame, facts.frame.parts
    data, size = frame.data, len(frame.data)
    nodes = [_position(facts)]
    side = "client → broker" if frame.from_client else "broker → client"
    command_end = min(parts.command_end, size)
    command = FieldNode(f"{name_of(frame.type)}  {side}", 0, command_end)
    command.below = [
        FieldNode(f"size of the rest: {frame.length - 4}", 0, 4),
        FieldNode(f"size of the command: {int.from_bytes(data[4:8])}", 4, 8),
        *_message(data, 8, command_end, command_plan(frame.type), secrets=secrets),
    ]
    nodes.append(command)
    if parts.entry_start >= 0:
        below = _message(data, parts.entry_start, parts.entry_end, part_plan("entry"))
        nodes.append(FieldNode("broker entry metadata", parts.entry_start - 6, parts.entry_end, list(below)))
    if parts.checksum is not None:
        text = f"checksum: 0x{parts.checksum:08x} ({frame.checksum or 'cannot be checked'})"
        nodes.append(FieldNode(text, parts.checked_start - 4, parts.checked_start, name="pulsar.checksum"))
    if parts.metadata_start >= 0:
        start, end = parts.metadata_start, parts.metadata_end
        nodes.append(FieldNode("metadata", start - 4, end, list(_message(data, start, end, part_plan("metadata")))))
    if frame.type in PAYLOAD_TYPES and parts.payload_start >= 0:
        nodes.append(_payload(facts, shown_payload=payload))
    nodes += _relations(facts)
    nodes += (FieldNode(f"problem: {printable(one)}", name="pulsar.problem") for one in problems_of(facts))
    return nodes


def _position(facts: Facts) -> FieldNode:
    frame, stream = facts.frame, facts.frame.stream
    packets: tuple[int, ...] = getattr(frame, "packets", (frame.packet,))
    carried = f"packets: {', '.join(map(str, packets[:20]))}{' …' if len(packets) > 20 else ''}"
    rows = [
        FieldNode(f"time: {epoch_text(frame.time_ns)}", name="frame.time_epoch"),
        FieldNode(f"connection: {stream.number}", name="tcp.stream"),
        FieldNode(f"client: {printable(stream.client[0])} port {stream.client[1]}"),
        FieldNode(f"broker: {printable(stream.server[0])} port {stream.server[1]}"),
        FieldNode(carried),
    ]
    if frame.sync != "start":
        rows.append(FieldNode(f"start of the frame: {frame.sync}", name="pulsar.sync"))
    text = f"frame {frame.number}  packet {frame.packet}  {frame.length} bytes"
    return FieldNode(text, 0, len(frame.data), rows)


def _relations(facts: Facts) -> Iterator[FieldNode]:
    if facts.request_number:
        text = f"answers frame {facts.request_number} after {latency_text(facts.latency_ns)}"
        yield FieldNode(text, name="pulsar.answer_to", target=facts.request_number)
    if facts.answer_number:
        text = f"answered in frame {facts.answer_number}"
        yield FieldNode(text, name="pulsar.answer_in", target=facts.answer_number)
    peer = facts.peer
    if peer is not None and (peer.name or peer.topic):
        subscription = getattr(peer, "subscription", None)
        kind = "producer" if subscription is None else "consumer"
        names = [("name", peer.name), ("topic", peer.topic), ("subscription", subscription)]
        below = [FieldNode(f"{word}: {printable(value)}") for word, value in names if value]
        yield FieldNode(f"{kind} {printable(peer.name or peer.id)}", below=below)


# -- protobuf


def _message(data: bytes, start: int, end: int, plan: Plan, *, secrets: bool = True) -> Iterator[FieldNode]:
    """Yield the nodes of the fields in data[start:end]."""
    position, end = start, min(end, len(data))
    while position < end:
        found = pull_field(data, position, end)
        if found is None:
            yield FieldNode(f"{end - position} bytes that are not valid protobuf", position, end)
            return
        tag, value, value_start, stop = found
        slot = plan.slots.get(tag)
        if slot is None or (slot[0] == PACKED and tag & 7 != 2):
            yield _unknown(plan, tag, value, position, stop, secrets=secrets)
        elif slot[0] in (MESSAGE, MESSAGES):
            yield _nested(data, slot, position, value_start, stop, secrets=secrets)
        elif slot[0] in (ONE, LIST):
            yield _scalar(slot, value, position, stop, secrets=secrets)
        elif slot[0] == PACKED:
            yield FieldNode(
                f"{slot[3].name}: {stop - value_start} bytes of packed numbers", position, stop, [], slot[1]
            )
        elif slot[0] == SKIP:
            assert isinstance(value, int)
            yield FieldNode(f"type: {name_of(value)} ({value})", position, stop, [], "pulsar.type")
        position = stop


def _nested(data: bytes, slot: Slot, start: int, value_start: int, stop: int, *, secrets: bool) -> FieldNode:
    _, key, plan, one = slot
    below = list(_message(data, value_start, stop, plan, secrets=secrets))
    text = one.name
    if plan.message.name in ("KeyValue", "KeyLongValue"):
        text = f"{text}: {' = '.join(node.text.partition(': ')[2] for node in below)}"
    return FieldNode(text, start, stop, below, key)


def _scalar(slot: Slot, value: int | bytes, start: int, stop: int, *, secrets: bool) -> FieldNode:
    _, key, convert, one = slot
    raw = convert(value)
    if is_secret(one) and not secrets:
        text = hidden(raw)
    else:
        text = _text(kind_of(one), raw)
    return FieldNode(f"{one.name}: {text}", start, stop, [], key)


def _text(kind: str, raw: Any) -> str:
    convert = shown(kind)
    value = raw if convert is None else convert(raw)
    text = str(value).lower() if isinstance(value, bool) else printable(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _unknown(plan: Plan, tag: int, value: int | bytes, start: int, stop: int, *, secrets: bool) -> FieldNode:
    number = tag >> 3
    if not isinstance(value, bytes):
        text = str(value)
    elif secrets or not (has_secrets(plan.message) or plan.message.name == "BaseCommand"):
        text = _text("bytes", value)
    else:
        text = hidden(value)
    return FieldNode(f"unknown field {number}: {text}", start, stop, [], f"{plan.unknown}{number}")


# -- payloads


def _payload(facts: Facts, *, shown_payload: bool) -> FieldNode:
    parts = facts.frame.parts
    size = parts.payload_end - parts.payload_start
    text = f"payload: {size_text(size)}"
    node = FieldNode(text, parts.payload_start, parts.payload_end, name="pulsar.payload")
    node.below = lambda: _entry(facts, facts.opened, shown_payload=shown_payload)
    return node


def _entry(facts: Facts, entry: Entry | None, *, shown_payload: bool) -> list[FieldNode]:
    """Return a node for each message of an entry, and for each problem."""
    if entry is None:
        return [FieldNode("the payload cannot be opened, because the metadata is missing")]
    nodes: list[FieldNode] = []
    before = 0
    where = _payload_place(facts, entry)
    for place, message in enumerate(entry.messages):
        nodes.append(_entry_message(entry, place, before, where, shown_payload=shown_payload))
        before = message.place[2]
    nodes += (FieldNode(f"problem: {printable(one)}") for one in entry.problems)
    return nodes or [FieldNode("a chunk; the message is complete at its last chunk")]


def _payload_place(facts: Facts, entry: Entry) -> tuple[int, bytes | None]:
    """Return what is added to positions in the entry's bytes, and these bytes unless they are part of the frame."""
    if not entry.messages:
        return 0, None
    parts, data = facts.frame.parts, entry.messages[0].place[0]
    if facts.frame.data[parts.payload_start : parts.payload_end] == data:
        return parts.payload_start, None
    return 0, data


def _entry_message(
    entry: Entry, place: int, before: int, location: tuple[int, bytes | None], *, shown_payload: bool
) -> FieldNode:
    """Return the node of one message. ``before`` is the end of the message before it in a batch."""
    message, (shift, where) = entry.messages[place], location
    start = before if message.index >= 0 else message.place[1]
    node = FieldNode(_heading(message), start + shift, message.place[2] + shift, data=where)
    node.below = lambda: _message_parts(entry, place, before, location, shown_payload=shown_payload)
    return node


def _message_parts(
    entry: Entry, place: int, before: int, location: tuple[int, bytes | None], *, shown_payload: bool
) -> list[FieldNode]:
    """Return the nodes of a message's metadata in the batch, and of its value."""
    message, (shift, where) = entry.messages[place], location
    data, start, end = message.place
    below: list[FieldNode] = []
    if message.single is not None:
        below += _message(data, before + 4, start, part_plan("batch"))
        for node in _all_nodes(below):
            node.start, node.end, node.data = node.start + shift, node.end + shift, where
    if not (message.null_value or message.compacted_out):
        value = entry.values[place] if entry.values else None
        text = _content(message.payload, value) if shown_payload else f"<hidden: {end - start} bytes>"
        below.append(FieldNode(f"value: {text}", start + shift, end + shift, name="pulsar.value", data=where))
        if isinstance(value, Problem):
            below.append(FieldNode(f"problem: {printable(value)}"))
    return below


def _all_nodes(nodes: list[FieldNode]) -> Iterator[FieldNode]:
    for node in nodes:
        yield node
        yield from _all_nodes(node.children())


def _heading(message: Message) -> str:
    text = "message" if message.index < 0 else f"message {message.index}"
    if message.key is not None:
        text += f"  key {printable(message.key)}"
    if message.compacted_out:
        return f"{text}  compacted out"
    return f"{text}  no value" if message.null_value else f"{text}  {size_text(message.size)}"


def _content(payload: bytes, value: str | Problem | None) -> str:
    """Return a value as JSON if a schema decodes it, otherwise as text or hex."""
    if isinstance(value, str):
        return _text("text", value)
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return _text("bytes", payload)
    return _text("text", text)
