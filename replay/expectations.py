"""Expected values in a conversation test (message ids that the broker assigns, entries) and their comparison.

Rules of this file
1. A nested message is written as a dict, and an enum value is written as its name. An expected dict must have exactly
   the fields that were received, each with its value or ``ANY``.
2. The first comparison of an `Id` assigns the message id to it. Two Ids of one list never have the same message id.
3. Ledger and entry ids are signed: -1 is written as -1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed

_UNSIGNED: Final = (1 << 64) - 1


@dataclass(eq=False, slots=True)
class Id:
    """The ledger and entry id of a message. It is assigned in the first comparison."""

    others: list[Id] = field(default_factory=list, repr=False)
    """Ids that must differ from this Id."""
    place: tuple[int, int] | None = None
    """The ledger and entry id; None before the first comparison."""

    def at(self, **rest: Any) -> _At:
        """Return the id with further fields of MessageIdData: ``m1.at(partition=0, batch_index=2)``."""
        return _At(self, rest)

    def stands_for(self, found: tuple[int, int]) -> bool:
        """Return whether the ids are equal.

        An unassigned Id is first set to the id unless a different Id already has that id.
        """
        if self.place is None and not any(other.place == found for other in self.others):
            self.place = found
        return self.place == found


@dataclass(frozen=True, slots=True)
class _At:
    id: Id
    rest: dict[str, Any]


def ids(count: int) -> list[Id]:
    """Return unassigned Ids for this many different messages."""
    found: list[Id] = []
    found += [Id(found) for _ in range(count)]
    return found


def place(ledger: int, entry: int) -> Id:
    """Return the Id with these ledger and entry ids: ``place(-1, -1)`` is the earliest position."""
    return Id(place=(ledger, entry))


def entry(payload: bytes, *, checksum: bool = True, **metadata: Any) -> bytes:
    """Return the headers and payload of a SEND; ``metadata`` contains fields of MessageMetadata."""
    return push_entry(pb.MessageMetadata(**metadata), payload, checksum=checksum)


def plain(message: Message) -> dict[str, Any]:
    """Return the present fields: enum values as names, nested messages as dicts, and message ids as signed numbers."""
    return {one.name: _plain(one, value) for one, value in message.ListFields()}


def _plain(one: Any, value: Any) -> Any:
    if one.is_repeated:
        return [_plain_one(one, item) for item in value]
    return _plain_one(one, value)


def _plain_one(one: Any, value: Any) -> Any:
    if one.enum_type is not None:
        known = one.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    if isinstance(value, Message):
        return plain(value)
    return signed(value) if one.name in ("ledgerId", "entryId") else value


def to_protobuf(value: Any) -> Any:
    """Return a value for protobuf, with Ids as numbers. Raises AssertionError if an Id is unassigned."""
    if isinstance(value, Id):
        value = value.at()
    if isinstance(value, _At):
        assert value.id.place is not None, "this id has not been received yet"
        ledger, entry = (number & _UNSIGNED for number in value.id.place)
        return {"ledgerId": ledger, "entryId": entry, **value.rest}
    if isinstance(value, dict):
        return {key: to_protobuf(one) for key, one in value.items()}
    return [to_protobuf(one) for one in value] if isinstance(value, list) else value


def same(expected: Any, found: Any) -> bool:
    """Return whether a received value matches the expected value. Unassigned Ids are assigned."""
    if isinstance(expected, Id):
        expected = expected.at()
    if isinstance(expected, _At) and isinstance(found, dict):
        rest = dict(found)
        received = rest.pop("ledgerId", 0), rest.pop("entryId", 0)
        return same(expected.rest, rest) and expected.id.stands_for(received)
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same(value, found[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    return bool(expected == found)


def check_entry(found: Frame, wanted: bytes) -> None:
    """Raise AssertionError if the metadata, payload or checksum of a MESSAGE differs from an entry that was sent."""
    command = pb.CommandMessage(consumer_id=0, message_id=pb.MessageIdData(ledgerId=0, entryId=0))
    sent = Frame(push_frame(command, wanted), found.type)
    expected, received = ((one.metadata, one.payload, one.checksum) for one in (sent, found))
    assert expected == received, f"expected the entry {expected}\n   received the entry {received}"
