"""The general fields of the packet, the frame and the conversation, in the order of JSON.

Each row contains the name, kind, source, help and getter of a field. The row ``pulsar.*`` represents the id fields
(id_readers.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from pcli.codec.observe.decoding.decode_plans import part_plan
from pcli.codec.observe.decoding.message_layouts import layout_of
from pcli.codec.observe.decoding.value_kinds import NotText, UnknownName, Values, nine_decimals
from pcli.codec.observe.fields.field import Field, Getter, enum_words
from pcli.codec.observe.fields.id_readers import MEANINGS, id_reader
from pcli.codec.observe.observer_state import Facts, open_frame
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS, NO_TYPE, PAYLOAD_TYPES, name_of
from pcli.codec.wire.problems import KINDS, Problem


def problems_of(facts: Facts) -> list[Problem]:
    """Return all problems with a frame: in the capture, in the frame, in its payload, and with its direction."""
    if _is_clean(facts):
        return _payload_problems(facts)
    frame = facts.frame
    found = [*frame.capture_problems, *frame.problems]
    row = COMMANDS.get(frame.type)
    found += _strange(facts)
    if row is not None and not (row.client_may_send if frame.from_client else row.broker_may_send):
        found.append(Problem("direction", f"{row.name} from the {'client' if frame.from_client else 'broker'}"))
    return list(dict.fromkeys([*found, *_payload_problems(facts)]))


def _payload_problems(facts: Facts) -> list[Problem]:
    """Return the problems inside a payload. The truncation of a frame is not repeated here."""
    if facts.frame.type not in PAYLOAD_TYPES:
        return []
    layout = facts.metadata_layout
    plain = _WITH_INSIDE.isdisjoint(facts.metadata if layout is None else layout.keys)
    # An opener other than open_frame applies schemas, so even uncompressed single messages are opened.
    if plain and facts.opener is open_frame:
        return []
    found = [] if plain else _own_chunk_problems(facts)
    opened = None if facts.frame.missing else facts.opened
    if opened is not None:
        found += [*opened.problems, *opened.misread]
    return list(dict.fromkeys(found))


def _own_chunk_problems(facts: Facts) -> list[Problem]:
    """Return the contradictions in the metadata of a single chunk, independent of the other chunks."""
    metadata, payload = facts.frame.metadata, facts.frame.payload
    if metadata is None or _OF_CHUNKS.isdisjoint(facts.metadata):
        return []
    from pcli.codec.payload.chunks import chunk_problems

    # Encryption makes a chunk larger than the size in the metadata.
    size = 0 if payload is None or metadata.encryption_keys else len(payload)
    return chunk_problems(metadata, size)


_OF_CHUNKS: Final = frozenset({"pulsar.metadata.chunk_id", "pulsar.metadata.num_chunks_from_msg"})


_WITH_INSIDE: Final = frozenset({
    "pulsar.metadata.num_messages_in_batch",
    "pulsar.metadata.compression",
    "pulsar.metadata.encryption_keys",
    *_OF_CHUNKS,
})  # fmt: skip


def _is_clean(facts: Facts) -> bool:
    """Whether a frame certainly has no problem; False if uncertain. A message with a layout has no unknown fields."""
    frame = facts.frame
    row = COMMANDS.get(frame.type)
    if row is None or frame.capture_problems:
        return False
    if not (row.client_may_send if frame.from_client else row.broker_may_send):
        return False
    parts, command = frame.parts, facts.command_layout
    if parts.problems or command is None or not command.complete:
        return False
    if row.number not in PAYLOAD_TYPES:
        return True
    metadata = facts.metadata_layout
    if metadata is None or not metadata.complete:
        return False
    if parts.entry_start >= 0:
        entry = layout_of(_ENTRY, frame.data, parts.entry_start, parts.entry_end)
        if entry is None or not entry.complete:
            return False
    return frame.checksum != "bad"


_ENTRY: Final = part_plan("entry")


def _strange(facts: Facts) -> Iterator[Problem]:
    """Yield problems that only the decoded values show: unknown fields, and strings that are not valid UTF-8."""
    for values in (facts.command, facts.metadata, facts.entry):
        yield from _strange_values(values, "")


_NESTED_ID: Final = "first_chunk_message_id.unknown.7"
"""The key of a message id whose field is known but is not expanded again (decode_plans.py)."""


def _strange_values(values: Values, above: str) -> Iterator[Problem]:
    for key, value in values.items():
        if type(value) is NotText:
            yield Problem("utf8", above + key)
        elif "unknown." in key and not key.endswith(_NESTED_ID):
            yield Problem("unknown-field", above + key)
        elif type(value) is UnknownName:
            yield Problem("unknown-field", f"{above}{key} = {value}")
        elif type(value) is list:
            for one in value:
                if type(one) is dict:
                    yield from _strange_values(one, f"{above}{key}.")
                elif type(one) is NotText:
                    yield Problem("utf8", above + key)


HEADING: Final = (
    "frame.number", "frame.time_epoch", "tcp.stream", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "pulsar.number",
    "pulsar.type", "pulsar.from", "pulsar.length", "pulsar.sync",
)  # fmt: skip
"""The fields that every frame has. `heading` returns their values."""


def heading(facts: Facts) -> dict[str, Any]:
    """Return the fields of HEADING in display form. Separate getters would take three times as long."""
    frame = facts.frame
    stream = frame.stream
    if frame.from_client:
        side, source, target = "client", stream.client, stream.server
    else:
        side, source, target = "broker", stream.server, stream.client
    return {
        "frame.number": frame.packet,
        "frame.time_epoch": nine_decimals(frame.time_ns),
        "tcp.stream": stream.number,
        "ip.src": source[0],
        "ip.dst": target[0],
        "tcp.srcport": source[1],
        "tcp.dstport": target[1],
        "pulsar.number": frame.number,
        "pulsar.type": name_of(frame.type),
        "pulsar.from": side,
        "pulsar.length": frame.length,
        "pulsar.sync": frame.sync,
    }


def _problem(facts: Facts) -> Any:
    return list(dict.fromkeys(problem.kind for problem in problems_of(facts))) or None


def _detail(facts: Facts) -> Any:
    return [str(problem) for problem in problems_of(facts)] or None


def _source(facts: Facts) -> tuple[str, int]:
    return facts.frame.stream.client if facts.frame.from_client else facts.frame.stream.server


def _target(facts: Facts) -> tuple[str, int]:
    return facts.frame.stream.server if facts.frame.from_client else facts.frame.stream.client


def _missing(facts: Facts) -> Any:
    """Return the number of missing bytes, or None. The faster check for problems comes first."""
    return (facts.frame.missing or None) if facts.frame.parts.problems else None


def _payload_size(facts: Facts) -> Any:
    parts = facts.frame.parts
    return None if parts.payload_start < 0 else parts.payload_end - parts.payload_start


def _opened(facts: Facts) -> Any:
    """Return the payload of a single message; None if it cannot be opened, or if it is a chunk other than the last."""
    frame = facts.frame
    if _WITH_INSIDE.isdisjoint(facts.metadata):
        # If the metadata is malformed, the compression and encryption of the payload are unknown.
        unsure = facts.broken and any(problem.kind == "metadata" for problem in frame.problems)
        return None if frame.missing or unsure else frame.payload
    opened = facts.opened
    return None if opened is None else opened.payload


def _value(facts: Facts) -> Any:
    """Return the value as JSON text, decoded with the schema. For a batch, return a list with ``null`` for failures."""
    opened = None if facts.opener is open_frame else facts.opened
    if opened is None or not opened.values or (opened.decoder is not None and not opened.decoder.reads):
        return None
    texts = [value if isinstance(value, str) else "null" for value in opened.values]
    if opened.messages[0].single is not None:
        return texts
    return texts[0] if isinstance(opened.values[0], str) else None


_Row = tuple[str, str, str, str, Getter]

_GENERAL: Final[tuple[_Row, ...]] = (
    (
        "frame.number",
        "number",
        "capture",
        "number of the packet in which the frame ends, from 1",
        lambda f: f.frame.packet,
    ),
    (
        "frame.time_epoch",
        "time",
        "capture",
        "capture time of the packet in which the frame ends",
        lambda f: f.frame.time_ns,
    ),
    ("tcp.stream", "number", "capture", "TCP connection, from 0", lambda f: f.frame.stream.number),
    ("ip.src", "address", "capture", "address of the sender", lambda f: _source(f)[0]),
    ("ip.dst", "address", "capture", "address of the receiver", lambda f: _target(f)[0]),
    ("tcp.srcport", "number", "capture", "port of the sender", lambda f: _source(f)[1]),
    ("tcp.dstport", "number", "capture", "port of the receiver", lambda f: _target(f)[1]),
    (
        "ip.addr",
        "list of address",
        "both sides",
        "addresses of sender and receiver",
        lambda f: [_source(f)[0], _target(f)[0]],
    ),
    (
        "tcp.port",
        "list of number",
        "both sides",
        "ports of sender and receiver",
        lambda f: [_source(f)[1], _target(f)[1]],
    ),
    ("pulsar.number", "number", "frame", "number of the frame across all inputs, from 1", lambda f: f.frame.number),
    ("pulsar.type", "enum", "BaseCommand.type = 1", "command type", lambda f: name_of(f.frame.type)),
    (
        "pulsar.from",
        "enum",
        "frame",
        "sender: client or broker",
        lambda f: "client" if f.frame.from_client else "broker",
    ),
    ("pulsar.length", "number", "frame", "bytes of the frame, including the length prefix", lambda f: f.frame.length),
    (
        "pulsar.sync",
        "enum",
        "capture",
        "how the start of the frame was found; resync can be wrong",
        lambda f: f.frame.sync,
    ),
    ("pulsar.missing", "number", "frame", "bytes of the frame that are missing from the capture", _missing),
    ("pulsar.problem", "list of enum", "frame", "kinds of problems", _problem),
    ("pulsar.problem.detail", "list of text", "frame", "descriptions of the problems", _detail),
    (
        "pulsar.checksum",
        "enum",
        "payload",
        "result of the CRC-32C check: none, good or bad",
        lambda f: f.frame.checksum,
    ),
    ("pulsar.system", "bool", "conversation", "true for traffic of the broker's internal client", lambda f: f.system),
    ("pulsar.answer_to", "number", "conversation", "pulsar.number of the request", lambda f: f.request_number or None),
    (
        "pulsar.latency",
        "duration",
        "conversation",
        "time since the request",
        lambda f: f.latency_ns if f.request_number else None,
    ),
    (
        "pulsar.answer_in",
        "number",
        "conversation",
        "pulsar.number of the response; only with two passes (-2)",
        lambda f: f.answer_number or None,
    ),
    ("pulsar.*", "", "", "", lambda _: None),
    ("pulsar.payload", "bytes", "payload", "payload as transmitted", lambda f: f.frame.payload),
    ("pulsar.opened", "bytes", "payload", "payload of a single message: decrypted, decompressed, reassembled", _opened),
    ("pulsar.value", "text", "payload", "value decoded with the schema, as JSON text; a list for a batch", _value),
    ("pulsar.payload_size", "number", "payload", "bytes of the payload as transmitted", _payload_size),
)

PAYLOADS: Final = ("pulsar.payload", "pulsar.opened", "pulsar.value")
"""The fields that contain application data, hidden unless requested."""

_WORDS: Final = {
    "pulsar.type": (*enum_words(pb.BaseCommand.Type.DESCRIPTOR), (NO_TYPE, -1)),
    "pulsar.from": (("client", 0), ("broker", 1)),
    "pulsar.sync": (("start", 0), ("anchored", 1), ("resync", 2)),
    "pulsar.checksum": (("none", 0), ("good", 1), ("bad", 2)),
    "pulsar.problem": tuple((kind, place) for place, kind in enumerate(KINDS)),
}


@cache
def general_fields() -> dict[str, Field]:
    """Return the general fields by name, in order."""
    fields: dict[str, Field] = {}
    for row in _GENERAL:
        made = [_id_field(meaning) for meaning in MEANINGS] if row[0] == "pulsar.*" else [_field(row)]
        fields.update((one.name, one) for one in made)
    return fields


def _field(row: _Row) -> Field:
    name, kind, source, text, getter = row
    return Field(
        name,
        kind,
        source,
        text,
        (lambda number: getter if number in PAYLOAD_TYPES else None) if source == "payload" else lambda _: getter,
        words=_WORDS.get(name, ()),
        secret=name in PAYLOADS,
        listed=source != "both sides",
    )


def _id_field(meaning: str) -> Field:
    kind, text = MEANINGS[meaning]
    paths = [f"{row.field}.{row.ids[meaning]}" for row in COMMANDS.values() if meaning in row.ids]
    return Field(
        f"pulsar.{meaning}",
        kind,
        ", ".join(paths) if paths else "metadata.partition_key",
        text,
        lambda number: id_reader(meaning, number),
        words=enum_words(pb.ServerError.DESCRIPTOR) if kind == "enum" else (),
    )
