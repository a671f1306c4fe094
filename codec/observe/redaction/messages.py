"""Redaction of protobuf messages by a table that specifies the treatment of each string and bytes field.

Rules of this file
1. Numbers, enums and booleans are kept, because a diagnosis needs ids, sequence numbers, permits and times. Text and
   bytes fields are treated as the table specifies for the field name. A field that is not in the table becomes filler,
   so a field of a later version reveals nothing until it is added to the table.
2. Fields that are unknown to the generated code are dropped.
3. The names of properties that client libraries set for dead letters and schemas are kept, because rules read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from pcli.codec.observe.redaction.free_text import redact_text, redact_version
from pcli.codec.observe.redaction.name_pseudonyms import Names
from pcli.codec.wire.texts import as_text

_TABLE: Final = """
topic        | topic topics partitions new_topics deleted_topics added removed resolved_topic_name segment_topic
topic        | legacy_topic_name
namespace    | namespace
pattern      | topics_pattern
subscription | subscription initial_subscription_name
consumer     | consumer_name consumerName
producer     | producer_name producerName
cluster      | replicated_from replicate_to
url          | brokerServiceUrl brokerServiceUrlTls broker_service_url broker_service_url_tls broker_url broker_url_tls
url          | controller_broker_url controller_broker_url_tls proxy_to_broker_url
url          | assignedBrokerServiceUrl assignedBrokerServiceUrlTls
listener     | advertised_listener_name
role         | original_principal
method       | auth_method_name original_auth_method
version      | client_version server_version proxy_version
text         | message error_message address
key          | partition_key ordering_key
hash         | topics_hash current_hash
uuid         | uuid
schema       | name schema_data
lock         | EncryptionKeys.key
property     | KeyLongValue.key
filler       | auth_data original_auth_data encryption_param schema_id encryption_algo EncryptionKeys.value
kept         | schema_version connectedSince type
"""

FIELDS: Final[dict[str, str]] = {
    name: row.partition("|")[0].strip() for row in _TABLE.strip().splitlines() for name in row.partition("|")[2].split()
}
"""Treatment by field name, with the name of the message as a prefix where the field name is ambiguous."""

_METHODS: Final = frozenset({"", "none", "token", "tls", "basic", "sasl", "athenz", "oauth2", "OAUTH2"})
"""Standard authentication methods."""

_NUMBERS: Final = re.compile(r"[\d:,()-]{1,100}|true|false|INLINE|SEPARATED")

_PROPERTIES: Final[dict[str, str]] = {
    "REAL_TOPIC": "topic",
    "RETRY_TOPIC": "topic",
    "REAL_SUBSCRIPTION": "subscription",
    **dict.fromkeys(
        ("ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_IDY_TIME", "RECONSUMETIMES", "DELAY_TIME", "CompactedTopicLedger",
         "kv.encoding.type", "__alwaysAllowNull", "__jsr310ConversionEnabled"),
        "number",
    ),
}  # fmt: skip
"""Properties that client libraries set, with the kind of their values."""

_LOCAL: Final = "__local__"
"""The value of replicate_to that means "no other cluster"."""


def redact_message(message: Message, names: Names) -> None:
    """Remove application data from a protobuf message in place."""
    message.DiscardUnknownFields()
    _walk(message, names)


def _walk(message: Message, names: Names) -> None:
    if message.DESCRIPTOR.name == "KeyValue":
        _property(message, names)
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else (value,):
                _walk(one, names)
        elif field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            if field.is_repeated:
                value[:] = [_redacted(message, field, one, names) for one in value]
            else:
                setattr(message, field.name, _redacted(message, field, value, names))


def _redacted(message: Any, field: FieldDescriptor, value: str | bytes, names: Names) -> str | bytes:
    """Return the redacted value of a field, with the same type."""
    if not value:
        return value
    kind = FIELDS.get(f"{message.DESCRIPTOR.name}.{field.name}") or FIELDS.get(field.name, "filler")
    in_text = field.type == FieldDescriptor.TYPE_STRING
    if kind == "kept":
        return value
    if kind == "key":
        if isinstance(value, bytes) and not in_text:
            return names.key(value)
        return names.key_text(as_text(value), base64=message.partition_key_b64_encoded)
    if kind == "filler":
        return "x" * len(value) if in_text else b"x" * len(value)
    text = as_text(value)
    special = _SPECIAL.get(kind)
    out = names.name(kind, text) if special is None else special(names, text)
    return out if in_text else out.encode()


def _method(names: Names, text: str) -> str:
    return text if text in _METHODS else names.name("method", text)


def _cluster(names: Names, text: str) -> str:
    return text if text == _LOCAL else names.name("cluster", text)


_SPECIAL: Final[dict[str, Callable[[Names, str], str]]] = {
    "topic": Names.topic,
    "namespace": Names.namespace,
    "pattern": Names.pattern,
    "subscription": Names.subscription,
    "producer": Names.producer,
    "url": Names.url,
    "cluster": _cluster,
    "method": _method,
    "text": lambda names, text: redact_text(text, names),
    "version": lambda _, text: redact_version(text),
    "number": lambda names, text: text if _NUMBERS.fullmatch(text) else names.name("value", text),
}
"""Functions that create pseudonyms of these kinds. For other kinds, `Names.name` creates them."""


def _property(pair: Any, names: Names) -> None:
    key, value = as_text(pair.key), as_text(pair.value)
    kind = _PROPERTIES.get(key)
    pair.key = key if kind is not None else names.name("property", key)
    special = _SPECIAL.get(kind or "")
    pair.value = names.name("value", value) if special is None else special(names, value)
