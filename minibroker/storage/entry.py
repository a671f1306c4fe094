"""A stored entry and the metadata that dispatchers use.

Rules of this file
1. The bytes are stored and sent as the producer sent them. Only a broker entry block before them may be removed.
2. The metadata is parsed once, on first use, and shared by all subscriptions. Ordinary metadata is only recognized. If
   metadata does not parse or lacks a required field, the entry is `broken`: the broker acknowledges it and does not
   deliver it (AbstractBaseDispatcher).
3. The key of an entry is the key in its metadata. For a batch this is the key of the batch (Commands.resolveStickyKey).
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from pcli.codec.proto import pb
from pcli.codec.wire.constants import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC
from pcli.codec.wire.hashes import murmur3_31, partition_key_bytes

_u16 = Struct(">H").unpack_from
_u32 = Struct(">I").unpack_from

_head = Struct(">HII").unpack_from
_HEAD: Final = 10
_metadata = pb.MessageMetadata.FromString

_NAME: Final = 0x0A
"""The tag of the first field of the metadata, the name of the producer."""
_ordinary = re.compile(
    rb"\x10V\x18V(?:\x40V)?(?:\x48V)?(?:\x58([\x00-\x7f]))?(?:\xc0\x01V)?".replace(
        b"V", rb"[\x80-\xff]{0,8}[\x00-\x7f]"
    )
).fullmatch
"""Recognizes metadata of which only the number of messages concerns the broker, after the name of the producer: the
sequence id, the publish time, the compression, the uncompressed size, the number of messages below 128, and the highest
sequence id."""

_NO_KEY: Final = b"NONE_KEY"


class Entry:
    """One entry of a topic."""

    __slots__ = (
        "_hash",
        "_metadata",
        "block",
        "broken",
        "chunked",
        "data",
        "deliver_at",
        "entry_id",
        "ledger_id",
        "marker",
        "messages",
        "offset",
        "parsed",
        "plain",
    )

    def __init__(self, offset: int, ledger_id: int, entry_id: int, data: bytes) -> None:
        self.offset = offset
        """Number of the entry in the topic, across all ledgers."""
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.data = data
        """The stored bytes: [broker entry block] [checksum block] metadata payload."""
        self.parsed = False

    def parse(self) -> None:
        """Parse the metadata once. The attributes below exist only afterwards."""
        self.parsed = True
        self._hash = -1
        self._metadata: pb.MessageMetadata | None = None
        data = self.data
        self.block = 0
        """Position of the first byte that the producer sent."""
        start = end = -1
        found = None
        if len(data) >= _HEAD:
            # Fast check for the usual form: a checksum block, then the metadata.
            magic, _, size = _head(data)
            if magic == CHECKSUM_MAGIC and _HEAD + size <= len(data):
                start, end = _HEAD, _HEAD + size
                if size > 2 and data[_HEAD] == _NAME and data[_HEAD + 1] < 128:
                    found = _ordinary(data, _HEAD + 2 + data[_HEAD + 1], end)
        if start < 0:
            self.block = block_start(data)
            start, end = metadata_bounds(data, self.block)
        self.broken = False
        self.messages = 1
        """Number of messages in the entry; 1 if it is broken."""
        self.deliver_at = 0
        """Delivery time in ms since 1970, or 0 for immediate delivery."""
        self.marker = False
        self.chunked = False
        self.plain = False
        """Whether the entry can be delivered at once: it is neither broken nor a marker, and has no delivery time."""
        if found is not None:
            self.plain = True
            if found[1]:
                self.messages = found[1][0]
            return
        try:
            if start < 0:
                raise DecodeError
            metadata = _metadata(data[start:end])
            if not metadata.IsInitialized():
                raise DecodeError
        except DecodeError:
            self.broken = True
            return
        self._metadata = metadata
        self.messages = max(0, metadata.num_messages_in_batch)
        self.marker = metadata.HasField("marker_type")
        self.chunked = metadata.HasField("uuid")
        self.deliver_at = metadata.deliver_at_time
        self.plain = not (self.marker or self.deliver_at)

    @property
    def metadata(self) -> pb.MessageMetadata | None:
        """The metadata; None if the entry is broken."""
        if self._metadata is None and not self.broken:
            start, end = metadata_bounds(self.data, self.block)
            self._metadata = _metadata(self.data[start:end])
        return self._metadata

    @property
    def hash(self) -> int:
        """Murmur3 hash of the key, 31 bits. The consumer selectors reduce it to their range."""
        if not self.parsed:
            self.parse()
        if self._hash < 0:
            self._hash = murmur3_31(_NO_KEY if self.metadata is None else sticky_key(self.metadata))
        return self._hash

    @property
    def entry_hash(self) -> int:
        """The hash that selects an entry bucket; only its lower 16 bits count."""
        key_hash = self.hash
        if self.metadata is not None and self.metadata.HasField("entry_hash_min"):
            return self.metadata.entry_hash_min
        return key_hash


def sticky_key(metadata: pb.MessageMetadata) -> bytes:
    """Return the bytes hashed for Key_Shared: ordering key, partition key, or producer name and sequence id."""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        key = metadata.partition_key
        text = key if isinstance(key, str) else _text(key)
        return partition_key_bytes(text.encode(), base64_encoded=metadata.partition_key_b64_encoded)
    if metadata.HasField("producer_name") and metadata.HasField("sequence_id"):
        return f"{_text(metadata.producer_name)}-{metadata.sequence_id}".encode()
    return _NO_KEY


def _text(value: str | bytes) -> str:
    """Return a text as Java decodes it. Protobuf returns invalid UTF-8 as bytes; invalid bytes are replaced."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def block_start(data: bytes) -> int:
    """Return the start of the producer's block, after the broker entry block if there is one."""
    if len(data) >= 6 and _u16(data, 0)[0] == BROKER_ENTRY_MAGIC:
        return 6 + int(_u32(data, 2)[0])
    return 0


def metadata_bounds(data: bytes, start: int = 0) -> tuple[int, int]:
    """Return the start and end of the metadata in a block at ``start``, or (-1, -1) if the block is too short."""
    if len(data) >= start + 6 and _u16(data, start)[0] == CHECKSUM_MAGIC:
        start += 6
    if len(data) < start + 4:
        return -1, -1
    end = start + 4 + int(_u32(data, start)[0])
    return (start + 4, end) if end <= len(data) else (-1, -1)
