"""The features that depend on a peer's protocol version, according to the broker's checks.

Sources: ProtocolVersion of the proto; the checks in ServerCnx, PulsarCommandSenderImpl and Consumer, observed on 4.2.4.
The versions that introduced commands are in the table of commands (``since``); this module contains the rest.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.wire.commands import BY_NAME

NEWEST: Final = 21
"""The newest ProtocolVersion. CONNECTED contains the lower of this version and the client's version."""

PINGS: Final = 1
"""Lowest version with PING. The broker sends no PING to an older peer."""

BATCHES: Final = 4
"""Lowest version with batches. Dispatching a batch to an older client closes its connection."""

CLOSE_COMMANDS: Final = 5
"""Lowest version with CLOSE_PRODUCER and CLOSE_CONSUMER. For an older client the broker closes the connection."""

CHECKSUMS: Final = 11
"""Lowest version with checksums. For an older client the broker removes the checksum block from deliveries."""

BROKER_ENTRY: Final = 18
"""Lowest version that may receive broker entry metadata, if the client sets its flag and the broker exposes it."""


def supports_command(version: int, command: str) -> bool:
    """Whether this protocol version includes a command, given by name, such as ``REACHED_END_OF_TOPIC`` (version 9)."""
    return version >= BY_NAME[command].since
