"""Id fields by meaning (request id, topic, message id …): their position in each command, and values from other frames.

The paths are the ``ids`` of COMMANDS. A value that the frame lacks is taken from the producer or consumer of the frame,
or from the request that the frame answers. Each meaning and command type has one reader, created on demand, so no
search is needed for each frame.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from pcli.codec.observe.decoding.value_kinds import Values
from pcli.codec.observe.fields.field import Getter
from pcli.codec.observe.observer_state import Consumer, Facts, Producer
from pcli.codec.wire.commands import BY_NAME, COMMANDS, PAYLOAD_TYPES
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.message_id import signed
from pcli.codec.wire.topic_name import full_name

__all__ = ["MEANINGS", "id_reader"]

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
    key = f"pulsar.{row.field}.{row.ids[meaning]}"
    if meaning == "message_id":
        return _own_message_id(key, number)
    place = _HOT_PLACES.get((row.name, meaning))
    if place is not None:
        return _hot_number(place, key)
    above, _, last = key.rpartition(".")

    def get(facts: Facts) -> Any:
        values = facts.command
        value = values.get(key)
        if value is None and isinstance(values.get(above), list):
            value = [one[last] for one in values[above] if last in one] or None
        if meaning != "topic" or value is None:
            return value
        return full_name(value) if isinstance(value, str) else [full_name(topic) for topic in value]

    return get


_HOT_PLACES: Final = {
    ("SEND", "producer_id"): 0,
    ("SEND", "sequence_id"): 1,
    ("SEND_RECEIPT", "producer_id"): 0,
    ("SEND_RECEIPT", "sequence_id"): 1,
    ("MESSAGE", "consumer_id"): 0,
    ("ACK", "consumer_id"): 0,
    ("FLOW", "consumer_id"): 0,
}
"""Index of the value in the tuples of the hot scanner."""


def _hot_number(place: int, key: str) -> Getter:
    def get(facts: Facts) -> Any:
        hot = facts.hot
        if hot is None:
            return facts.command.get(key)
        return -1 if hot[place] == MINUS_ONE else hot[place]

    return get


def _own_message_id(key: str, number: int) -> Getter:
    """Return the getter of message ids. A single id consists of adjacent fields; several ids are a list of objects."""
    names = [f"{key}.{part}" for part in ("ledgerId", "entryId", "partition", "batch_index")]
    parts = ["ledgerId", "entryId", "partition", "batch_index"]

    def get(facts: Facts) -> Any:
        hot = facts.hot
        if hot is not None and number != _RECEIPT:
            # The scanner omits the partition of a receipt, and does not decode a SEND that contains a message id.
            if number == _MESSAGE:
                return _text(hot[1], hot[2], hot[3], -1)
            return [_text(*one) for one in hot[2]] or None if number == _ACK else None
        values = facts.command
        found = values.get(key)
        if isinstance(found, list):
            return [text for text in (_id_text(one, parts) for one in found) if text is not None]
        return _id_text(values, names)

    return get


_MESSAGE: Final = BY_NAME["MESSAGE"].number
_RECEIPT: Final = BY_NAME["SEND_RECEIPT"].number
_ACK: Final = BY_NAME["ACK"].number


def _id_text(values: Values, names: list[str]) -> str | None:
    ledger, entry = values.get(names[0]), values.get(names[1])
    if ledger is None or entry is None:
        return None
    return _text(ledger, entry, values.get(names[2], -1), values.get(names[3], -1))


def _text(ledger: int, entry: int, partition: int, batch: int) -> str:
    """Format a message id like str(MessageId), without creating a MessageId."""
    if ledger >> 63 or entry >> 63:
        ledger, entry = signed(ledger) if ledger > 0 else ledger, signed(entry) if entry > 0 else entry
    if batch != -1:
        return f"{ledger}:{entry}:{partition}:{batch}"
    return f"{ledger}:{entry}" if partition == -1 else f"{ledger}:{entry}:{partition}"


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
