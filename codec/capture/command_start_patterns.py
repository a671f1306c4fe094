"""Patterns for the start of a command from each side, derived from the table of commands.

Rules of this file
1. Everything is computed from the table once. Unknown types are not included, because a search accepts only known
   types. A frame whose position is certain may have any type.
2. A command starts with field 1 (its type), followed by the field of that type (the body). All known encoders write
   this order.
"""

from __future__ import annotations

import re
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS

HEAD_SIZE: Final = 12
"""Bytes of the shortest frame of a known command: two lengths, the type, and two bytes for the body's tag and
length."""

CLIENT_ONLY: Final = frozenset(row.number for row in COMMANDS.values() if row.sender == "client")
BROKER_ONLY: Final = frozenset(row.number for row in COMMANDS.values() if row.sender == "broker")


def _tag(field: str) -> bytes:
    """Return a body's tag: the field number and wire type 2, as a varint."""
    value = pb.BaseCommand.DESCRIPTOR.fields_by_name[field].number << 3 | 2
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


TAGS: Final[dict[int, bytes]] = {row.number: _tag(row.field) for row in COMMANDS.values()}
"""The bytes between the type and the length of the body, by command type."""


def legal_types(from_client: bool | None) -> frozenset[int]:
    """Return the types that the client, the broker or (None) either side sends."""
    if from_client is None:
        return frozenset(COMMANDS)
    return frozenset(COMMANDS) - (BROKER_ONLY if from_client else CLIENT_ONLY)


def _pattern(from_client: bool | None) -> re.Pattern[bytes]:
    """Return a pattern for two lengths below 2^28 and the start of a command. The caller handles overlaps."""
    legal = sorted(legal_types(from_client))
    heads = b"|".join(re.escape(b"\x08" + bytes([number]) + TAGS[number]) for number in legal)
    return re.compile(rb"[\x00-\x0f].{3}[\x00-\x0f].{3}(?:" + heads + rb")", re.DOTALL)


PATTERNS: Final[dict[bool | None, re.Pattern[bytes]]] = {side: _pattern(side) for side in (True, False, None)}
"""Pattern of a possible frame start, by side (None for either side)."""
