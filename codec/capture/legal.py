"""What the table of commands says about bytes: how the commands of one side begin.

Rules of this file
1. Everything is worked out of the table once. The rows of types that nobody knows are not here: a frame whose place is
   certain may have any type, one that is searched for may not.
2. A command begins with its type, field 1, and the body, the field of the type: so every known encoder writes it.
"""

from __future__ import annotations

import re
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS

__all__ = ["BROKER_ONLY", "CLIENT_ONLY", "HEAD_SIZE", "PATTERNS", "TAGS", "legal_types"]

HEAD_SIZE: Final = 12
"""Two lengths, the type, and at least two bytes of the body's tag and length: the shortest frame of a known command."""

CLIENT_ONLY: Final = frozenset(row.number for row in COMMANDS.values() if row.sender == "client")
BROKER_ONLY: Final = frozenset(row.number for row in COMMANDS.values() if row.sender == "broker")


def _tag(field: str) -> bytes:
    """The tag of a body: its field number and wire type 2, a varint."""
    value = pb.BaseCommand.DESCRIPTOR.fields_by_name[field].number << 3 | 2
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


TAGS: Final[dict[int, bytes]] = {row.number: _tag(row.field) for row in COMMANDS.values()}
"""The bytes between type and length of the body, by command type."""


def legal_types(from_client: bool | None) -> frozenset[int]:
    """The types that this side sends; None: either side."""
    if from_client is None:
        return frozenset(COMMANDS)
    return frozenset(COMMANDS) - (BROKER_ONLY if from_client else CLIENT_ONLY)


def _pattern(from_client: bool | None) -> re.Pattern[bytes]:
    """Two lengths below 2^28, then the beginning of a command. Overlapping matches are found one by one."""
    legal = sorted(legal_types(from_client))
    heads = b"|".join(re.escape(b"\x08" + bytes([number]) + TAGS[number]) for number in legal)
    return re.compile(rb"[\x00-\x0f].{3}[\x00-\x0f].{3}(?:" + heads + rb")", re.DOTALL)


PATTERNS: Final[dict[bool | None, re.Pattern[bytes]]] = {side: _pattern(side) for side in (True, False, None)}
"""By side (None: either): where a frame may begin."""
