"""What a test says of a conversation: ids that the broker will give, entries, and when an answer is the expected one.

Rules of this file
1. A message inside a command is a dict, a value of an enumeration its name. An expected dict must have exactly the
   fields that were heard, each with its value or ``ANY``.
2. An `Id` is learned where it is heard first. Two of them are never the same message.
3. Ledgers and entries are signed: -1 is -1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed

__all__ = ["Id", "check_entry", "entry", "ids", "place", "plain", "said", "same"]

_UNSIGNED: Final = (1 << 64) - 1


@dataclass(eq=False, slots=True)
class Id:
    """The ledger and entry of a message, learned where it is heard first."""

    others: list[Id] = field(default_factory=list, repr=False)
    """Ids that are other messages: no two are one."""
    place: tuple[int, int] | None = None
    """None: it was not heard yet."""

    def at(self, **rest: Any) -> _At:
        """With the other fields of MessageIdData: ``m1.at(partition=0, batch_index=2)``."""
        return _At(self, rest)

    def stands_for(self, found: tuple[int, int]) -> bool:
        """Whether this is the message; a new id becomes it, unless another is."""
        if self.place is None and not any(other.place == found for other in self.others):
            self.place = found
        return self.place == found


@dataclass(frozen=True, slots=True)
class _At:
    id: Id
    rest: dict[str, Any]


def ids(count: int) -> list[Id]:
    """So many messages whose ids the broker will give."""
    found: list[Id] = []
    found += [Id(found) for _ in range(count)]
    return found


def place(ledger: int, entry: int) -> Id:
    """A message id by its numbers: ``place(-1, -1)`` is earliest."""
    return Id(place=(ledger, entry))


def entry(payload: bytes, *, checksum: bool = True, **metadata: Any) -> bytes:
    """What stands behind SEND: metadata, by the fields of MessageMetadata, and payload."""
    return push_entry(pb.MessageMetadata(**metadata), payload, checksum=checksum)


def plain(message: Message) -> dict[str, Any]:
    """The fields that are set, enumerations by name, messages as dicts, ids of messages signed."""
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


def said(value: Any) -> Any:
    """A value as protobuf takes it: ids by their numbers. AssertionError: one has not been heard yet."""
    if isinstance(value, Id):
        value = value.at()
    if isinstance(value, _At):
        assert value.id.place is not None, "this id has not been heard yet"
        ledger, entry = (number & _UNSIGNED for number in value.id.place)
        return {"ledgerId": ledger, "entryId": entry, **value.rest}
    if isinstance(value, dict):
        return {key: said(one) for key, one in value.items()}
    return [said(one) for one in value] if isinstance(value, list) else value


def same(expected: Any, found: Any) -> bool:
    """Whether what was heard is what was expected; ids that are new are learned."""
    if isinstance(expected, Id):
        expected = expected.at()
    if isinstance(expected, _At) and isinstance(found, dict):
        rest = dict(found)
        heard = rest.pop("ledgerId", 0), rest.pop("entryId", 0)
        return same(expected.rest, rest) and expected.id.stands_for(heard)
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same(value, found[key]) for key, value in expected.items())
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    return bool(expected == found)


def check_entry(found: Frame, wanted: bytes) -> None:
    """AssertionError: metadata, payload or checksum are not those of an entry that was sent."""
    command = pb.CommandMessage(consumer_id=0, message_id=pb.MessageIdData(ledgerId=0, entryId=0))
    sent = Frame(push_frame(command, wanted), found.type)
    expected, heard = ((one.metadata, one.payload, one.checksum) for one in (sent, found))
    assert expected == heard, f"expected the entry {expected}\n   heard the entry {heard}"
