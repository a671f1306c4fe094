"""Id fields by meaning (request id, topic, message id …): their position in each command, and values from other frames.

The paths are the ``ids`` of COMMANDS. A value that the frame lacks is taken from the producer or consumer of the frame,
or from the request that the frame answers. Each meaning and command type has one reader, created on demand, so no
search is needed for each frame.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from pcli.codec.observe.command_ids import id_readers
from pcli.codec.observe.decoding.value_kinds import Values
from pcli.codec.observe.fields.field import Getter
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS, PAYLOAD_TYPES
from pcli.codec.wire.message_id import MessageId, signed
from pcli.codec.wire.topic_name import full_name

MEANINGS: Final[dict[str, tuple[str, str]]] = {
    "request_id": ("number", "id of a request, repeated in its response"),
    "producer_id": ("number", "id of a producer on its connection"),
    "consumer_id": ("number", "id of a consumer on its connection"),
    "sequence_id": ("number", "sequence id of an entry; for a batch, the id of its first message"),
    "message_id": ("text", "ledger:entry, followed by :partition and :batch if set; a list in ACK and REDELIVER"),
    "topic": ("text", "full name of the topic in the frame, or of its producer, consumer or request"),
    "subscription": ("text", "subscription in the frame, or the subscription of its consumer or request"),
    "producer_name": ("text", "name of the producer; for a MESSAGE, the name of its publisher"),
    "consumer_name": ("text", "name of the consumer"),
    "key": ("text", "key of the message on the wire; a list for a batch"),
    "error": ("enum", "error with which the broker refused the request"),
}
"""Every meaning, with the kind and description of its values."""


@lru_cache(1024)
def id_reader(meaning: str, number: int) -> Getter | None:
    """Return the getter of this meaning for frames of this command type, or None if they lack the value."""
    if meaning == "key":
        return _key if number in PAYLOAD_TYPES else None
    own = _own(meaning, number)
    learned = _LEARNED.get(meaning)
    if own is None or learned is None:
        return own or learned

    def either(facts: Facts) -> Any:
        value = own(facts)
        return learned(facts) if value is None else value

    return either


def _own(meaning: str, number: int) -> Getter | None:
    """Return the getter that reads the command's fields, or None."""
    row = COMMANDS.get(number)
    if row is None or meaning not in row.ids:
        return None
    path = row.ids[meaning]
    if meaning == "message_id":
        return _own_message_id(number, path)
    if meaning == "error":
        return lambda facts: facts.error[0] or None
    key, read_body = f"pulsar.{row.field}.{path}", id_readers(number)[meaning]

    def scalar(facts: Facts) -> Any:
        return facts.command_value(key)

    def other(facts: Facts) -> Any:
        return read_body(facts.frame.body)

    read = scalar if key in _SCALARS else other
    if meaning != "topic":
        return read

    def topic(facts: Facts) -> Any:
        value = read(facts)
        return full_name(value) if isinstance(value, str) else value and [full_name(one) for one in value]

    return topic


_SCALARS: Final = frozenset(
    f"pulsar.{row.field}.{field.name}"
    for row in COMMANDS.values()
    for field in getattr(pb.BaseCommand(), row.field).DESCRIPTOR.fields
    if not field.is_repeated and field.message_type is None
)
"""The keys of the commands' fields that have one value."""


def _own_message_id(number: int, path: str) -> Getter:
    """Return the getter of the message id in this field of a command, or of the list of its message ids."""
    body = pb.BaseCommand.DESCRIPTOR.fields_by_number[number]
    assert body.message_type is not None
    key = f"pulsar.{body.name}.{path}"
    if body.message_type.fields_by_name[path].is_repeated:
        return lambda facts: (
            [text for one in facts.command.get(key, ()) if (text := message_id_text(one)) is not None] or None
        )
    return lambda facts: message_id_text(facts.command, f"{key}.")


def message_id_text(values: Values, prefix: str = "") -> str | None:
    """Return the message id whose fields have this prefix, or None if its ledger or entry is missing."""
    ledger, entry = values.get(f"{prefix}ledgerId"), values.get(f"{prefix}entryId")
    if ledger is None or entry is None:
        return None
    partition, batch = values.get(f"{prefix}partition", -1), values.get(f"{prefix}batch_index", -1)
    if partition == batch == -1:
        return f"{signed(ledger)}:{signed(entry)}"
    return str(MessageId(signed(ledger), signed(entry), partition, batch))


def _key(facts: Facts) -> Any:
    """Return the key or keys. The metadata of a batch contains only the key of the first message."""
    values = facts.metadata
    if "pulsar.metadata.num_messages_in_batch" not in values:
        return values.get("pulsar.metadata.partition_key")
    batch = facts.batch
    if not batch:
        return values.get("pulsar.metadata.partition_key")
    return [one["partition_key"] for one in batch if "partition_key" in one] or None


def _topic(facts: Facts) -> Any:
    if facts.peer is not None and facts.peer.topic:
        return facts.peer.topic
    return (facts.request.topic or None) if facts.request is not None else None


def _subscription(facts: Facts) -> Any:
    if isinstance(facts.peer, Consumer):
        return facts.peer.subscription or None
    return (facts.request.subscription or None) if facts.request is not None else None


def _producer_name(facts: Facts) -> Any:
    peer = facts.peer
    if isinstance(peer, Producer) and peer.name:
        return peer.name
    return facts.metadata.get("pulsar.metadata.producer_name") if facts.frame.type in PAYLOAD_TYPES else None


def _consumer_name(facts: Facts) -> Any:
    return (facts.peer.name or None) if isinstance(facts.peer, Consumer) else None


def _producer_id(facts: Facts) -> Any:
    return facts.peer.id if isinstance(facts.peer, Producer) else None


def _consumer_id(facts: Facts) -> Any:
    return facts.peer.id if isinstance(facts.peer, Consumer) else None


_LEARNED: Final[dict[str, Getter]] = {
    "consumer_id": _consumer_id,
    "consumer_name": _consumer_name,
    "producer_id": _producer_id,
    "producer_name": _producer_name,
    "subscription": _subscription,
    "topic": _topic,
}
"""Getters that take the value from the producer, the consumer or the request."""
