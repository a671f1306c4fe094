"""Lossless conversion between a frame and JSON: `decode -T wire` writes this JSON and `encode` reads it.

SEND and MESSAGE have all these keys; other commands have only the first two::

    {"type": "SEND", "send": {"producer_id": 1, "sequence_id": 5, …},
     "entry": {…}, "checksum": "good" | "1a2b3c4d", "metadata": {…}, "payload": "68656c6c6f"}

Rules of this file
1. Keys are proto names, enum values are names, bytes are lower-case hex, and -1 in an unsigned field is -1. Nothing is
   redacted: the lossless form contains credentials and payload.
2. ``checksum`` is "good" if the CRC-32C is correct, the stored number in hex if it is wrong, and absent if there is no
   checksum block. For "good" the encoder computes the CRC-32C again, so an edited frame has a correct checksum. For
   SEND and MESSAGE, the encoder requires only one of the four keys after the command: missing metadata is empty. Other
   commands have none of these keys.
3. Unknown fields are kept as the hex of their bytes under the key ``unknown`` of the object that contains them.
4. Protobuf allows several encodings of a message: different field orders, long varints, invalid UTF-8. If encoding the
   object does not reproduce the original bytes, the original bytes are kept under ``bytes`` (``{"command": hex, …}``).
   The encoder uses these bytes unless the object was edited.
5. The JSON is strict: non-finite doubles are the strings ``inf``, ``-inf`` and ``nan:`` with 16 hex digits.
6. A type that no known version has is ``UNKNOWN_<number>``, and the type field is not repeated in ``unknown``.
   ``NO_TYPE`` is a command without a type.
7. A frame with inconsistent lengths, or a frame that the capture truncated, is ``{"type": …, "raw": hex}``.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_entry
from pcli.codec.wire.commands import BY_NAME, COMMANDS, NO_TYPE, PAYLOAD_TYPES, name_of
from pcli.codec.wire.constants import MAX_NESTING
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.hot import push_varint
from pcli.codec.wire.near import near

_UNSIGNED: Final = {
    FieldDescriptor.TYPE_UINT64: 64,
    FieldDescriptor.TYPE_FIXED64: 64,
    FieldDescriptor.TYPE_UINT32: 32,
    FieldDescriptor.TYPE_FIXED32: 32,
}
_FLOATING: Final = (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT)
_NUMBER_OF_UNKNOWN: Final = re.compile(r"UNKNOWN_([0-9]{1,20})")
_NAN: Final = re.compile(r"nan:[0-9a-f]{16}")
_double = Struct(">d")
_ALL_ONES: Final = 2**64 - 1
_NONE: Final[dict[str, Any]] = {}

# The blocks of an entry: the key in the JSON object and the class of the message.
_BLOCKS: Final[tuple[tuple[str, Callable[[], Message]], ...]] = (
    ("entry", pb.BrokerEntryMetadata),
    ("metadata", pb.MessageMetadata),
)


def pull_wire_json(frame: Frame) -> dict[str, Any]:
    """Return the lossless object of a frame."""
    out: dict[str, Any] = {"type": name_of(frame.type)}
    parts = frame.parts
    if frame.missing or any(problem.kind in _MALFORMED for problem in parts.problems):
        return {**out, "raw": frame.data.hex()}
    command = frame.data[parts.command_start : parts.command_end]
    exact: dict[str, str] = {}
    body = _block(pb.BaseCommand(), command, "command", exact, _unknown_type(frame.type))
    row = COMMANDS.get(frame.type)
    if row.field not in body if row is not None else "type" in body:
        # Encoding would replace a missing body with an empty body. A command with an unknown type may contain a second,
        # known type.
        exact["command"] = command.hex()
    out |= {key: value for key, value in body.items() if key != "type"}
    if parts.metadata_start >= 0:
        if parts.entry_start >= 0:
            entry = frame.data[parts.entry_start : parts.entry_end]
            out["entry"] = _block(pb.BrokerEntryMetadata(), entry, "entry", exact)
        if parts.checksum is not None:
            out["checksum"] = "good" if frame.checksum == "good" else f"{parts.checksum:08x}"
        metadata = frame.data[parts.metadata_start : parts.metadata_end]
        out["metadata"] = _block(pb.MessageMetadata(), metadata, "metadata", exact)
        out["payload"] = frame.data[parts.payload_start : parts.payload_end].hex()
    return {**out, "bytes": exact} if exact else out


_MALFORMED: Final = frozenset({"length", "trailing", "broker-entry", "metadata", "cut"})


def push_wire_json(wire: dict[str, Any]) -> bytes:
    """Encode a frame from its lossless object. Raise LocalError with the path of an invalid value."""
    if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
        raise LocalError('a frame must be a JSON object with a "type"')
    if "raw" in wire:
        return _bytes(wire["raw"], "raw")
    exact = wire.get("bytes") or {}
    if not isinstance(exact, dict):
        raise LocalError('"bytes" must be an object of hex strings')
    number = _number_of(wire["type"])
    row = COMMANDS.get(number)
    body = {key: value for key, value in wire.items() if key not in _AROUND}
    if row is not None:
        body = {"type": row.name, row.field: {}, **body}
    defaults: dict[str, Any] = {row.field: {}} if row is not None else {}
    command = _packed(pb.BaseCommand(), body, "command", exact, defaults, _unknown_type(number))
    present = [key for key in _ENTRY_KEYS if key in wire]
    if present and number not in PAYLOAD_TYPES:
        raise LocalError(f"{present[0]}: not allowed for {wire['type']}; only SEND and MESSAGE have a payload")
    return join_frame(command, _entry(wire, exact) if present else b"")


_ENTRY_KEYS: Final = ("entry", "checksum", "metadata", "payload")
_AROUND: Final = frozenset({"type", "bytes", *_ENTRY_KEYS})


def _number_of(name: str) -> int:
    """Return the number of a command type from the name that ``name_of`` returns, or -1 for NO_TYPE."""
    row = BY_NAME.get(name)
    if row is not None:
        return row.number
    if name == NO_TYPE:
        return -1
    unknown = _NUMBER_OF_UNKNOWN.fullmatch(name)
    number = int(unknown.group(1)) if unknown is not None else _ALL_ONES + 1
    if number > _ALL_ONES:
        raise LocalError(f"type: unknown command {_shown(name)}{near(name, BY_NAME)}")
    return number


def _unknown_type(number: int) -> bytes:
    """Return the encoded type field, which comes first, if the generated code lacks the type; otherwise no bytes."""
    return b"" if number in COMMANDS or number < 0 else b"\x08" + push_varint(number)


def _entry(wire: dict[str, Any], exact: dict[str, Any]) -> bytes:
    packed = {key: _packed(make(), wire.get(key, {}), key, exact) if key in wire else None for key, make in _BLOCKS}
    payload = _bytes(wire.get("payload", ""), "payload")
    checksum = wire.get("checksum")
    entry = push_entry(packed["metadata"] or b"", payload, checksum=checksum is not None, broker_entry=packed["entry"])
    if checksum in (None, "good"):
        return entry
    stored = _bytes(checksum, "checksum")
    if len(stored) != 4:
        raise LocalError('checksum: "good" or eight hex digits are expected')
    place = 8 + len(packed["entry"]) if packed["entry"] is not None else 2
    return entry[:place] + stored + entry[place + 4 :]


def _block(message: Message, data: bytes, name: str, exact: dict[str, str], prefix: bytes = b"") -> dict[str, Any]:
    """Return one message as an object. If encoding it does not reproduce the bytes, add them to ``exact``."""
    try:
        message.MergeFromString(data.removeprefix(prefix))
        out = _object(message)
        again = _packed(type(message)(), out, name, {}, prefix=prefix)
    except (DecodeError, LocalError):
        exact[name] = data.hex()
        return _object(message)
    if again != data:
        exact[name] = data.hex()
    return out


def _packed(
    message: Message,
    value: Any,
    name: str,
    exact: dict[str, Any],
    defaults: dict[str, Any] = _NONE,
    prefix: bytes = b"",
) -> bytes:
    """Return the original bytes of one message if its object was not edited; otherwise encode the object."""
    if not isinstance(value, dict):
        raise LocalError(f"{name}: an object is expected, not {_shown(value)}")
    if name in exact:
        came = _bytes(exact[name], f"bytes.{name}")
        # The comparison ignores the type: protobuf uses the last type of a command; pull_type uses the first.
        if {**defaults, **_says(message, came.removeprefix(prefix)), "type": ""} == {**value, "type": ""}:
            return came
    message_ = type(message)()
    _fill(message_, value, name)
    return prefix + message_.SerializePartialToString()


def _says(message: Message, data: bytes) -> dict[str, Any]:
    """Return the object that the bytes encode. After a parse error it contains only the fields before the error."""
    came = type(message)()
    with suppress(DecodeError):  # the written object contained the fields before the error
        came.MergeFromString(data)
    return _object(came)


def _object(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field, value in message.ListFields():
        out[field.name] = [_value(field, item) for item in value] if field.is_repeated else _value(field, value)
    unknown = _unknown_bytes(message)
    if unknown:
        out["unknown"] = unknown.hex()
    return out


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _object(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    if isinstance(value, bytes):
        # protobuf returns a string field as bytes if it is not valid UTF-8.
        return value.hex() if field.type == FieldDescriptor.TYPE_BYTES else value.decode(errors="backslashreplace")
    if field.type in _FLOATING and not math.isfinite(value):
        return f"nan:{_double.pack(value).hex()}" if math.isnan(value) else str(value)
    if value == _ALL_ONES and field.type in _UNSIGNED:
        return -1
    return value


def _unknown_bytes(message: Message) -> bytes:
    """Serialise the unknown fields of this message, but not of its nested messages."""
    if not len(UnknownFieldSet(message)):
        return b""
    copy = type(message)()
    copy.CopyFrom(message)
    for field, _ in message.ListFields():
        copy.ClearField(field.name)
    return copy.SerializePartialToString()


def _fill(message: Message, value: Any, path: str, depth: int = 1) -> None:
    if not isinstance(value, dict):
        raise LocalError(f"{path}: an object is expected, not {_shown(value)}")
    if depth > MAX_NESTING:
        raise LocalError(f"{path}: more than {MAX_NESTING} nested messages")
    message.SetInParent()
    for key, item in value.items():
        here = f"{path}.{key}"
        if key == "unknown":
            _merge_unknown(message, _bytes(item, here), here)
            continue
        # The descriptors' mapping rejects lone surrogates, which JSON may contain.
        field = message.DESCRIPTOR.fields_by_name.get(key) if key.isascii() else None
        if field is None:
            known = near(key, (field.name for field in message.DESCRIPTOR.fields))
            raise LocalError(f"{here}: {message.DESCRIPTOR.name} has no such field{known}")
        if field.is_repeated != isinstance(item, list):
            raise LocalError(f"{here}: {'a list' if field.is_repeated else 'a single value'} is expected")
        for one in item if field.is_repeated else (item,):
            _set(message, field, one, here, depth)


def _merge_unknown(message: Message, data: bytes, path: str) -> None:
    try:
        message.MergeFromString(data)
    except DecodeError:
        raise LocalError(f"{path}: not valid protobuf fields") from None


def _set(message: Message, field: Any, value: Any, path: str, depth: int) -> None:
    place = getattr(message, field.name)
    if field.message_type is not None:
        _fill(place.add() if field.is_repeated else place, value, path, depth + 1)
        return
    scalar = _scalar(field, value, path)
    try:
        if field.is_repeated:
            place.append(scalar)
        else:
            setattr(message, field.name, scalar)
    except (TypeError, ValueError, OverflowError):
        raise LocalError(f"{path}: {_shown(value)} is not a value of this field") from None


def _scalar(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _bytes(value, path)
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value) if value.isascii() else None
        if known is None:
            raise LocalError(f"{path}: the value must be one of {', '.join(field.enum_type.values_by_name)}")
        return known.number
    if field.type in _FLOATING and isinstance(value, str):
        return _no_number(value, path)
    if value == -1 and field.type in _UNSIGNED:
        return 2 ** _UNSIGNED[field.type] - 1
    return value


def _no_number(text: str, path: str) -> float:
    """Parse the text of a double that JSON cannot represent as a number."""
    if text in ("inf", "-inf", "nan"):
        return float(text)
    value: float = _double.unpack(bytes.fromhex(text[4:]))[0] if _NAN.fullmatch(text) else 0.0
    if not math.isnan(value):
        raise LocalError(f"{path}: a number is expected, or inf, -inf, nan, nan: with 16 hex digits")
    return value


def _shown(value: Any) -> str:
    """Return a short form of any value for an error message."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _bytes(value: Any, path: str) -> bytes:
    try:
        return binascii.unhexlify(value)
    except (TypeError, ValueError):
        raise LocalError(f"{path}: hex is expected, not {_shown(value)}") from None
