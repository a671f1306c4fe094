"""The fields that have columns, and the conditions under which the columns contain a complete command.

Rules of this file
1. ``complete`` can be true only for the commands in LISTED. For other commands, the columns contain only the ids.
2. ``complete`` is true if the command consists of its type and one body, every field of the command has a column, all
   required fields are present, and no number equals the value that its column uses for an absent field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pcli.codec.observe.decoding.value_kinds import Values
from pcli.codec.observe.tracking.entry_metadata import FIELD
from pcli.codec.wire.commands import BY_NAME, COMMANDS


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """The column that contains a metadata field."""

    column: str
    text: bool = False
    """Whether the field is bytes, stored as ``column`` with the suffixes _start and _end."""


_LISTED: Final[dict[str, dict[str, str]]] = {
    "SEND": {
        "producer_id": "owner!", "sequence_id": "sequence!", "num_messages": "messages",
        "highest_sequence_id": "highest", "txnid_most_bits": "txn_most", "txnid_least_bits": "txn_least",
    },
    "SEND_RECEIPT": {
        "producer_id": "owner!", "sequence_id": "sequence!", "highest_sequence_id": "highest",
        "message_id.ledgerId": "ledger!", "message_id.entryId": "entry!", "message_id.partition": "partition",
    },
    "MESSAGE": {
        "consumer_id": "owner!", "message_id.ledgerId": "ledger!", "message_id.entryId": "entry!",
        "message_id.partition": "partition", "redelivery_count": "redelivery", "consumer_epoch": "epoch",
    },
    "ACK": {
        "consumer_id": "owner!", "ack_type": "ack_type!", "request_id": "request",
        "txnid_most_bits": "txn_most", "txnid_least_bits": "txn_least",
    },
    "FLOW": {"consumer_id": "owner!", "messagePermits": "messages!"},
    "ACK_RESPONSE": {
        "consumer_id": "owner!", "request_id": "request",
        "txnid_most_bits": "txn_most", "txnid_least_bits": "txn_least",
    },
    "PING": {},
    "PONG": {},
}  # fmt: skip
"""The column of each field, for the commands that columns can represent; ``!`` marks a required field."""

_OTHERS: Final = {"SEND_ERROR": {"sequence_id": "sequence"}}
"""Columns of other commands besides owner and request."""

AMBIGUOUS: Final = frozenset(
    {
        "pulsar.send.highest_sequence_id",
        "pulsar.ack.request_id",
        "pulsar.ackResponse.request_id",
        "pulsar.message.consumer_epoch",
        *(
            f"pulsar.{field}.txnid_{half}_bits"
            for field in ("send", "ack", "ackResponse")
            for half in ("most", "least")
        ),
    }
)
"""Optional 64-bit numbers for which -1 and absence are stored as the same value. In a receipt, both have the same
meaning."""


def _owner(number: int) -> str:
    """Return the name of the id in the column owner: producer_id, consumer_id, or an empty string."""
    return next((name for name in ("producer_id", "consumer_id") if name in COMMANDS[number].ids), "")


OWNERS: Final[dict[str, list[int]]] = {
    name: [number for number in COMMANDS if _owner(number) == name] for name in ("producer_id", "consumer_id")
}
"""The commands whose owner is a producer, and the commands whose owner is a consumer."""


def _columns(number: int) -> dict[str, str]:
    row = COMMANDS[number]
    known = _LISTED.get(row.name) or _OTHERS.get(row.name, {})
    owner = _owner(number)
    found = {name: column.rstrip("!") for name, column in known.items()}
    if owner:
        found.setdefault(row.ids[owner], "owner")
    if "request_id" in row.ids:
        found.setdefault(row.ids["request_id"], "request")
    return {f"pulsar.{row.field}.{name}": column for name, column in found.items()}


NUMBERS: Final[dict[int, dict[str, str]]] = {number: _columns(number) for number in COMMANDS}
"""For each command number, a mapping from the keys of observe's values to columns."""

NEEDED: Final[dict[int, set[str]]] = {
    BY_NAME[name].number: {
        f"pulsar.{BY_NAME[name].field}.{field}" for field, column in fields.items() if column.endswith("!")
    }
    for name, fields in _LISTED.items()
}

COVERED_TYPES: Final = frozenset(NEEDED)
"""Numbers of the commands that columns can represent."""

_ID_FIELDS: Final = {"ledgerId", "entryId", "partition", "batch_index", "ack_set"}


def is_covered(type_: int, values: Values) -> bool:
    """Return whether the columns contain the complete command whose ``values`` observe.walk returned."""
    needed = NEEDED.get(type_)
    if needed is None or not needed <= values.keys():
        return False
    return all(_is_plain(type_, key, value) for key, value in values.items()) and _pairs(type_, values)


def _is_plain(type_: int, key: str, value: Any) -> bool:
    column = NUMBERS[type_].get(key)
    if column == "ack_type":
        return value in ("Individual", "Cumulative")
    if column is not None:
        return not (value == -1 and key in AMBIGUOUS) and not (column == "messages" and value < 0)
    if key == "pulsar.ack.message_id":
        return all(one.keys() <= _ID_FIELDS and "ledgerId" in one and "entryId" in one for one in value)
    return key == "pulsar.message.ack_set" or (key in ("pulsar.ping", "pulsar.pong") and not value)


def _pairs(type_: int, values: Values) -> bool:
    """Return whether a transaction id has both of its numbers, and whether a PING or PONG has its body."""
    if type_ in (BY_NAME["PING"].number, BY_NAME["PONG"].number):
        return bool(values)
    field = COMMANDS[type_].field
    return (f"pulsar.{field}.txnid_most_bits" in values) == (f"pulsar.{field}.txnid_least_bits" in values)


OF_METADATA: Final[dict[int, MetadataColumn]] = {
    FIELD["producer_name"]: MetadataColumn("name", text=True),
    FIELD["sequence_id"]: MetadataColumn("metadata_sequence"),
    FIELD["publish_time"]: MetadataColumn("publish_ms"),
    FIELD["num_messages_in_batch"]: MetadataColumn("batch"),
    FIELD["deliver_at_time"]: MetadataColumn("deliver_at_ms"),
    FIELD["marker_type"]: MetadataColumn("marker"),
    FIELD["txnid_least_bits"]: MetadataColumn("metadata_least"),
    FIELD["txnid_most_bits"]: MetadataColumn("metadata_most"),
    FIELD["highest_sequence_id"]: MetadataColumn("metadata_highest"),
    FIELD["uuid"]: MetadataColumn("uuid", text=True),
    FIELD["num_chunks_from_msg"]: MetadataColumn("chunks"),
    FIELD["chunk_id"]: MetadataColumn("chunk"),
}
"""Columns by field number of the metadata, without the two keys, because only one key is stored."""
