"""The numbers of the protocol, each with its reason.

Sizes are bytes. Sources: the classes Commands and FrameDecoderUtil of the broker, docs "Binary protocol".
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BROKER_ENTRY_MAGIC",
    "CHECKSUM_MAGIC",
    "DEEPEST",
    "DEFAULT_MAX_MESSAGE_SIZE",
    "DEFAULT_PORT",
    "DEFAULT_TLS_PORT",
    "FRAME_OVERHEAD",
    "MAX_FRAME_SIZE",
    "MINUS_ONE",
]

CHECKSUM_MAGIC: Final = 0x0E01
"""Stands before the CRC-32C of metadata and payload."""

BROKER_ENTRY_MAGIC: Final = 0x0E02
"""Stands before the broker entry metadata: u16 magic, u32 size, BrokerEntryMetadata."""

DEFAULT_MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
"""``maxMessageSize`` of broker.conf; CONNECTED announces the real one."""

FRAME_OVERHEAD: Final = 10 * 1024
"""Room for command and metadata above the largest message, Commands.MESSAGE_SIZE_FRAME_PADDING."""

MAX_FRAME_SIZE: Final = DEFAULT_MAX_MESSAGE_SIZE + FRAME_OVERHEAD
"""The largest frame with its own length prefix. Why it is checked before buffering: the first bytes of a
TLS hello read as a length are 369,295,616, and nobody should wait for 352 MiB that never come."""

MINUS_ONE: Final = 2**64 - 1
"""-1 in an unsigned field, as in the ids of a receipt for a duplicate."""

DEEPEST: Final = 100
"""Messages inside each other. Protobuf parsers stop there by default, so nobody could read what is deeper."""

DEFAULT_PORT: Final = 6650
"""``brokerServicePort`` of broker.conf: the binary protocol in the clear."""

DEFAULT_TLS_PORT: Final = 6651
"""``brokerServicePortTls``, as the documentation suggests it: the same behind TLS."""
