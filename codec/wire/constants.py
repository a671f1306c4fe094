"""The numbers of the protocol, with the reason for each.

Sizes are in bytes. Sources: the broker classes Commands and FrameDecoderUtil, docs "Binary protocol".
"""

from __future__ import annotations

from typing import Final

CHECKSUM_MAGIC: Final = 0x0E01
"""The magic number that precedes the CRC-32C of metadata and payload."""

BROKER_ENTRY_MAGIC: Final = 0x0E02
"""The magic number that precedes the broker entry metadata: u16 magic, u32 size, BrokerEntryMetadata."""

DEFAULT_MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
"""The default of ``maxMessageSize`` in broker.conf. CONNECTED contains the actual value."""

FRAME_OVERHEAD: Final = 10 * 1024
"""Bytes for command and metadata in addition to the largest message, Commands.MESSAGE_SIZE_FRAME_PADDING."""

MAX_FRAME_SIZE: Final = DEFAULT_MAX_MESSAGE_SIZE + FRAME_OVERHEAD
"""The largest frame, length prefix included. It is checked before buffering. Otherwise a reader would wait for 352 MiB
after a TLS ClientHello, because the first bytes, read as a length, are 369,295,616."""

MINUS_ONE: Final = 2**64 - 1
"""-1 in an unsigned field, for example in the message id of a receipt for a duplicate."""

MAX_NESTING: Final = 100
"""Maximum depth of nested messages. It is the default limit of protobuf parsers, which reject deeper messages."""

DEFAULT_PORT: Final = 6650
"""``brokerServicePort`` of broker.conf: the binary protocol without TLS."""

DEFAULT_TLS_PORT: Final = 6651
"""``brokerServicePortTls`` with the value that the documentation suggests: the binary protocol over TLS."""
