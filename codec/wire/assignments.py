"""A frame from words: ``TYPE field=value …`` as the lossless object that ``lossless`` encodes.

A path is relative to the command's body (``consumer_id=1``, ``message_id.ledgerId=5``); ``metadata.…`` and
``entry.…`` reach the blocks behind SEND and MESSAGE. A repeated field takes one value a time, given again for more
(``topics=a topics=b``), or a JSON list. A message takes JSON, a MessageIdData also ``ledger:entry``. A map-like list
of KeyValue takes ``properties.color=red``. The payload is ``payload=text``, or ``payload=hex:6869``.
"""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.descriptor import Descriptor

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, PAYLOAD_TYPES
from pcli.codec.wire.message_id import MessageId

__all__ = ["pull_assignments"]


def pull_assignments(words: list[str]) -> dict[str, Any]:
    """The lossless object of ``[TYPE, "field=value", …]``; LocalError names the word that is wrong."""
    if not words:
        raise LocalError("which command? Write TYPE field=value …, e.g. FLOW consumer_id=1 messagePermits=100")
    name = words[0].upper()
    row = BY_NAME.get(name)
    if row is None:
        raise LocalError(f"there is no command {words[0]}{_near(name, list(BY_NAME))}")
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
        head, _, rest = path.partition(".")
        if head in blocks and rest:
            _assign(wire.setdefault(head, {}), blocks[head], rest, text, word)
        elif path == "payload" and blocks:
            wire["payload"] = text[4:] if text.startswith("hex:") else text.encode().hex()
        elif path == "checksum" and blocks:
            wire["checksum"] = text
        else:
            _assign(wire[row.field], body, path, text, word)
    return wire


def _assign(place: dict[str, Any], descriptor: Descriptor, path: str, text: str, word: str) -> None:
    head, _, rest = path.partition(".")
    field = descriptor.fields_by_name.get(head)
    if field is None:
        near = _near(head, [known.name for known in descriptor.fields])
        raise LocalError(f"{word}: {descriptor.name} has no field {head}{near}")
    inner = field.message_type
    if rest and inner is None:
        raise LocalError(f"{word}: {head} has no parts")
    if rest and inner is not None and field.is_repeated:
        if inner.name not in ("KeyValue", "KeyLongValue"):
            raise LocalError(f"{word}: {head} is a list: give its items as JSON")
        value: Any = {"key": rest, "value": int(text) if inner.name == "KeyLongValue" and text.isdigit() else text}
        place.setdefault(head, []).append(value)
    elif rest and inner is not None:
        _assign(place.setdefault(head, {}), inner, rest, text, word)
    elif field.is_repeated:
        value = _value(field, text, word)
        place.setdefault(head, []).extend(value if isinstance(value, list) else [value])
    else:
        place[head] = _value(field, text, word)


def _value(field: Any, text: str, word: str) -> Any:
    if text.startswith(("{", "[")) and (field.message_type is not None or field.is_repeated):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise LocalError(f"{word}: no JSON: {error}") from None
    if field.message_type is not None and field.message_type.name == "MessageIdData":
        place = MessageId.parse(text)
        found = {"ledgerId": place.ledger, "entryId": place.entry, "partition": place.partition}
        found |= {"batch_index": place.batch}
        return {key: number for key, number in found.items() if number != -1 or key in ("ledgerId", "entryId")}
    if field.message_type is not None:
        raise LocalError(f"{word}: {field.message_type.name} is a message: give it as JSON or field by field")
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES) or field.enum_type is not None:
        return text if field.type != field.TYPE_BYTES or not text.startswith("text:") else text[5:].encode().hex()
    return _number(field, text, word)


def _number(field: Any, text: str, word: str) -> Any:
    if field.type == field.TYPE_BOOL:
        if text.lower() not in ("true", "false"):
            raise LocalError(f"{word}: true or false is expected")
        return text.lower() == "true"
    try:
        return float(text) if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT) else int(text, 0)
    except ValueError:
        raise LocalError(f"{word}: a number is expected") from None


def _near(word: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, 3)
    return f"; near: {', '.join(near)}" if near else ""
