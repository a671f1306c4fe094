"""What the protocol version of a peer lets it see: the table of the broker's version checks.

Sources: ProtocolVersion of the proto; the checks in ServerCnx, PulsarCommandSenderImpl and Consumer, seen on 4.2.4.
Commands that came with a version of their own have it in the table of commands (``since``); here stands the rest.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.wire.commands import BY_NAME

__all__ = ["BATCHES", "BROKER_ENTRY", "CHECKSUMS", "CLOSE_COMMANDS", "NEWEST", "PINGS", "knows"]

NEWEST: Final = 21
"""The newest ProtocolVersion; CONNECTED answers the smaller of it and the client's."""

PINGS: Final = 1
"""Below, a peer is never pinged."""

BATCHES: Final = 4
"""Below, a batch that is to be delivered closes the connection."""

CLOSE_COMMANDS: Final = 5
"""Below, the broker closes the connection instead of sending CLOSE_PRODUCER or CLOSE_CONSUMER."""

CHECKSUMS: Final = 11
"""Below, the checksum block is cut off what is delivered."""

BROKER_ENTRY: Final = 18
"""From here on a client may see the broker entry metadata, if it says so and the broker exposes it."""


def knows(version: int, command: str) -> bool:
    """Whether a peer of this version knows a command, by name (``REACHED_END_OF_TOPIC``: 9, and so on)."""
    return version >= BY_NAME[command].since
