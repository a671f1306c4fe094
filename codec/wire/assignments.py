"""Parser for ``TYPE field=value …``. It returns the lossless object that ``lossless`` encodes.

A path is relative to the command's body (``consumer_id=1``, ``message_id.ledgerId=5``); ``metadata.…`` and
``entry.…`` select the blocks after SEND and MESSAGE. A repeated field takes one value per assignment
(``topics=a topics=b``), or a JSON list. A message field takes JSON; a MessageIdData field also takes ``ledger:entry``.
A KeyValue list takes ``properties.color=red``. ``payload=text`` or ``payload=hex:6869`` sets the payload.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import Descriptor

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, PAYLOAD_TYPES
from pcli.codec.wire.constants import MAX_NESTING
from pcli.codec.wire.message_id import MessageId
from pcli.codec.wire.near import near

# Python's notation, in ASCII. No number in the protocol has more digits than the longest double.
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19})")
_FLOAT: Final = re.compile(r"[-+]?([0-9.]{1,400}([eE][-+]?[0-9]{1,4})?|nan|inf)")

_Holder = TypeVar("_Holder", dict[str, Any], list[Any])


def pull_assignments(words: list[str]) -> dict[str, Any]:
    """Return the lossless object of ``[TYPE, "field=value", …]``. Raise LocalError with the invalid word."""
    if not words:
        raise LocalError(
            "the command is missing: write TYPE field=value …, for example FLOW consumer_id=1 messagePermits=100"
        )
    name = words[0].upper()
    row = BY_NAME.get(name)
    if row is None:
        raise LocalError(f"unknown command {words[0]}{near(name, BY_NAME)}")
    wire: dict[str, Any] = {"type": name, row.field: {}}
    blocks: dict[str, Descriptor] = {}
    if row.number in PAYLOAD_TYPES:
        wire |= {"checksum": "good", "metadata": {}, "payload": ""}
        blocks = {"metadata": pb.MessageMetadata.DESCRIPTOR, "entry": pb.BrokerEntryMetadata.DESCRIPTOR}
    body = pb.BaseCommand.DESCRIPTOR.fields_by_name[row.field].message_type
    assert body is not None
    for word in words[1:]:
        path, separator, text = word.partition("=")
        if not separator:
            raise LocalError(f"{word}: write field=value")
        if path.count(".") > MAX_NESTING:
            raise LocalError(f"{path.partition('.')[0]}: more than {MAX_NESTING} nested messages")
        head, _, rest = path.partition(".")
        if head in blocks and rest:
            _assign(_holder(wire, head, {}, word), blocks[head], rest, text, word)
        elif path == "payload" and blocks:
            wire["payload"] = text[4:] if text.startswith("hex:") else _hex(text, word)
        elif path == "checksum" and blocks:
            wire["checksum"] = text
        else:
            _assign(wire[row.field], body, path, text, word)
    return wire


def _assign(place: dict[str, Any], descriptor: Descriptor, path: str, text: str, word: str) -> None:
    head, _, rest = path.partition(".")
    # The descriptors' mapping rejects lone surrogates, which a command line may contain.
    field = descriptor.fields_by_name.get(head) if head.isascii() else None
    if field is None:
        known = near(head, (field.name for field in descriptor.fields))
        raise LocalError(f"{word}: {descriptor.name} has no field {head}{known}")
    inner = field.message_type
    if rest and inner is None:
        raise LocalError(f"{word}: {head} has no parts")
    if rest and inner is not None and field.is_repeated:
        if inner.name not in ("KeyValue", "KeyLongValue"):
            raise LocalError(f"{word}: {head} is a list: give its items as JSON")
        value: Any = {"key": rest, "value": _integer(text, word) if inner.name == "KeyLongValue" else text}
        _holder(place, head, [], word).append(value)
    elif rest and inner is not None:
        _assign(_holder(place, head, {}, word), inner, rest, text, word)
    elif field.is_repeated:
        value = _value(field, text, word)
        _holder(place, head, [], word).extend(value if isinstance(value, list) else [value])
    else:
        place[head] = _value(field, text, word)


def _holder(place: dict[str, Any], head: str, empty: _Holder, word: str) -> _Holder:
    """Return the object or list at ``head``; create it if missing. An earlier JSON value may have a different type."""
    found = place.setdefault(head, empty)
    if not isinstance(found, type(empty)):
        raise LocalError(f"{word}: {head} was given before, and has no parts")
    return found


def _value(field: Any, text: str, word: str) -> Any:
    if text.startswith(("{", "[")) and (field.message_type is not None or field.is_repeated):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:  # also raised for thousands of digits or deep nesting
            raise LocalError(f"{word}: not JSON: {error}") from None
    if field.message_type is not None and field.message_type.name == "MessageIdData":
        place = MessageId.parse(text)
        found = {"ledgerId": place.ledger, "entryId": place.entry, "partition": place.partition}
        found |= {"batch_index": place.batch}
        return {key: number for key, number in found.items() if number != -1 or key in ("ledgerId", "entryId")}
    if field.message_type is not None:
        raise LocalError(f"{word}: {field.message_type.name} is a message: give it as JSON or field by field")
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES) or field.enum_type is not None:
        return text if field.type != field.TYPE_BYTES or not text.startswith("text:") else _hex(text[5:], word)
    return _number(field, text, word)


def _number(field: Any, text: str, word: str) -> Any:
    if field.type == field.TYPE_BOOL:
        if text.lower() not in ("true", "false"):
            raise LocalError(f"{word}: true or false is expected")
        return text.lower() == "true"
    if field.type not in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return _integer(text, word)
    try:
        if _FLOAT.fullmatch(text):
            return float(text)
    except ValueError:
        pass  # the text is only a decimal point, or has more than one decimal point
    raise LocalError(f"{word}: a number is expected")


def _integer(text: str, word: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise LocalError(f"{word}: a number is expected")
    return int(text, 0)


def _hex(text: str, word: str) -> str:
    """Return the text's bytes as hex. Command-line bytes that were not UTF-8 keep their values."""
    try:
        return text.encode(errors="surrogateescape").hex()
    except UnicodeEncodeError:
        raise LocalError(f"{word!a}: half of a surrogate pair") from None
