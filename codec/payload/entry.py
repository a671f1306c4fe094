"""Opening of an entry: from the payload of a SEND or MESSAGE to the application's messages.

Rules of this file
1. The steps are those of the Java client (ConsumerImpl.messageReceived): decrypt, join chunks, decompress, split
   the batch. If a step fails, opening ends with a Problem; nothing is raised.
2. An entry that cannot be opened still has one message: the payload as transmitted, with the entry's key and
   properties, as a consumer without the private key receives it. ``state`` distinguishes the two cases.
3. For a plain entry, which contains one unmodified message, only the metadata is checked and nothing is copied. Reading
   the keys in a batch does not copy its payloads.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Final

from pcli.codec.payload.batch import MAX_BATCH, BatchMessage, split_batch
from pcli.codec.payload.chunks import ChunkJoiner, is_chunk
from pcli.codec.payload.compression import MAX_UNCOMPRESSED, compression_kind, decompress
from pcli.codec.payload.encryption import PrivateKeys, is_encrypted
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem
from pcli.codec.wire.texts import as_text

if TYPE_CHECKING:
    from pcli.codec.payload.schemas import Decoder

OPEN: Final = "open"
"""Opened: the entry has the application's messages. If a batch is truncated or damaged, the entry has only its complete
messages."""

CHUNK: Final = "chunk"
"""A chunk of a larger message that ends in a later entry. The entry has no messages."""

SEALED: Final = "sealed"
"""Not decrypted: the entry has one message with the ciphertext as payload. If no private keys are given, this is not a
Problem."""

CLOSED: Final = "closed"
"""Not opened, for the reason in ``problems``: the entry has one message with the transmitted payload."""

_GROWTH: Final = 64
_MAX_JOINED: Final = 256 * 1024 * 1024
"""Limits on the decompressed size of a chunked message: a multiple of its compressed size, and a maximum in bytes. The
limit for single messages would be too small, because clients do not limit chunked messages."""


class Message:
    """One message in an entry. The payload is copied from the entry on access."""

    __slots__ = ("_data", "_end", "_source", "_start", "index", "metadata")

    def __init__(
        self, metadata: pb.MessageMetadata, data: bytes, index: int = -1, piece: BatchMessage | None = None
    ) -> None:
        self.metadata = metadata
        """The entry's metadata; for a chunked message, the metadata of the last chunk."""
        self.index = index
        """Index in the batch, from 0; -1 if the entry is not a batch."""
        self._data = data
        self._source: pb.MessageMetadata | pb.SingleMessageMetadata = metadata
        self._start, self._end = 0, len(data)
        if piece is not None:
            self._source, self._start, self._end = piece

    @property
    def single(self) -> pb.SingleMessageMetadata | None:
        """The message's metadata in the batch; None if the entry is not a batch."""
        return self._source if isinstance(self._source, pb.SingleMessageMetadata) else None

    @property
    def payload(self) -> bytes:
        """The application's bytes, or the bytes as transmitted (see Entry.state)."""
        return self._data[self._start : self._end]

    @property
    def place(self) -> tuple[bytes, int, int]:
        """The decrypted and decompressed bytes of the entry, and the start and end of the payload in them."""
        return self._data, self._start, self._end

    @property
    def size(self) -> int:
        """Size of the payload in bytes."""
        return self._end - self._start

    @property
    def key(self) -> str | None:
        """The key as transmitted, in base64 if ``key_is_bytes``; None if there is none.

        The metadata of a batch repeats the key of the first message, so that key is not used for the other messages.
        """
        return as_text(self._source.partition_key) if self._source.HasField("partition_key") else None

    @property
    def key_is_bytes(self) -> bool:
        """Whether the key is bytes: ``key`` is then the base64 text, and ``key_bytes`` contains the bytes."""
        return self._source.partition_key_b64_encoded

    @property
    def key_bytes(self) -> bytes | None:
        """The bytes of the key; None if there is none. Invalid base64 is returned as the bytes of its text."""
        if not self._source.HasField("partition_key"):
            return None
        # A bytes object here is a string with invalid UTF-8.
        key: str | bytes = self._source.partition_key
        text = key if isinstance(key, bytes) else key.encode()
        if not self.key_is_bytes:
            return text
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            return text

    @property
    def null_key(self) -> bool:
        """Whether the key of a KeyValue is null."""
        return self._source.null_partition_key

    @property
    def ordering_key(self) -> bytes | None:
        """The key that Key_Shared uses instead of ``key``; None if there is none."""
        return self._source.ordering_key if self._source.HasField("ordering_key") else None

    @property
    def properties(self) -> list[tuple[str, str]]:
        """The application's properties, in transmitted order and with duplicates."""
        return [(as_text(one.key), as_text(one.value)) for one in self._source.properties]

    @property
    def event_time(self) -> int:
        """The application's event time, milliseconds since 1970; 0 if unset."""
        return self._source.event_time or self.metadata.event_time

    @property
    def sequence_id(self) -> int:
        """The producer's sequence id. If the messages of a batch have no ids, the entry's id applies."""
        source = self._source
        return source.sequence_id if source.HasField("sequence_id") else self.metadata.sequence_id

    @property
    def null_value(self) -> bool:
        """Whether the message has no value (not the same as an empty value). Compaction then deletes the key."""
        return self._source.null_value

    @property
    def compacted_out(self) -> bool:
        """Whether compaction has removed this message; its index in the batch remains."""
        single = self.single
        return single is not None and single.compacted_out


class Entry:
    """The contents of an entry."""

    __slots__ = ("_values", "decoder", "messages", "problems", "state")

    def __init__(self, messages: list[Message], state: str = OPEN, problems: list[Problem] | None = None) -> None:
        self.messages = messages
        self.state = state
        """OPEN, CHUNK, SEALED or CLOSED."""
        self.problems = [] if problems is None else problems
        self.decoder: Decoder | None = None
        """The messages' schema; None if unknown. The caller, which tracks the connection, sets it."""
        self._values: list[str | Problem] | None = None

    @property
    def payload(self) -> bytes | None:
        """The payload of the only message; None for a batch, or if the entry is not OPEN."""
        if self.state != OPEN or len(self.messages) != 1 or self.messages[0].single is not None:
            return None
        return self.messages[0].payload

    @property
    def values(self) -> list[str | Problem]:
        """The value of each message as JSON text (``null`` if it has no value), or the Problem found in decoding.

        The list is empty if the schema is unknown or the entry is not OPEN.
        """
        if self._values is None:
            decoder = self.decoder if self.state == OPEN else None
            self._values = [] if decoder is None else [_json_text(decoder, message) for message in self.messages]
        return self._values

    @property
    def misread(self) -> Iterator[Problem]:
        """Problems in the decoding of values. A schema that does not define an encoding causes no Problem."""
        if self.decoder is None or not self.decoder.reads:
            return
        for message, value in zip(self.messages, self.values):
            if isinstance(value, Problem):
                where = f"message {message.index}: " if message.index >= 0 else ""
                yield Problem(value.kind, where + value.detail)


def _json_text(decoder: Decoder, message: Message) -> str | Problem:
    value = None if message.compacted_out else decoder.message(message)
    if isinstance(value, Problem):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # a value within the decoder's depth limit may be too deep for the JSON writer
        return Problem("schema", "a value that is nested too deeply")


def open_entry(
    metadata: pb.MessageMetadata,
    payload: bytes,
    *,
    missing: int = 0,
    keys: PrivateKeys | None = None,
    chunks: ChunkJoiner | None = None,
    scope: Hashable = None,
    max_size: int = MAX_UNCOMPRESSED,
) -> Entry:
    """Open one entry.

    ``missing`` is the number of payload bytes that the capture lacks. ``chunks`` stores chunks between calls,
    separately for each ``scope`` (a producer or a consumer of a connection); if it is None, chunks are not joined.
    ``max_size`` limits the decompressed size of an entry.
    """
    if is_encrypted(metadata) or is_chunk(metadata):
        return _open_special(metadata, payload, missing, keys, chunks, scope, max_size)
    return _open_plain(metadata, payload, missing, max_size)


def _open_plain(metadata: pb.MessageMetadata, payload: bytes, missing: int, max_size: int) -> Entry:
    kind = compression_kind(metadata)
    travelled = len(payload)
    if kind != pb.NONE:
        if missing:
            return _closed(metadata, payload, _cut(payload, missing))
        opened = decompress(kind, payload, metadata.uncompressed_size, max_size)
        if isinstance(opened, Problem):
            return _closed(metadata, payload, opened)
        payload = opened
    # The presence of the field marks a batch, even with one message.
    if metadata.HasField("num_messages_in_batch"):
        return _open_batch(metadata, payload, missing, max(MAX_BATCH, travelled))
    if missing:
        return _closed(metadata, payload, _cut(payload, missing))
    return Entry([Message(metadata, payload)])


def _open_batch(metadata: pb.MessageMetadata, data: bytes, missing: int, most: int) -> Entry:
    pieces, problem = split_batch(data, metadata.num_messages_in_batch, missing, most)
    messages = [Message(metadata, data, index, piece) for index, piece in enumerate(pieces)]
    return Entry(messages, OPEN, None if problem is None else [problem])


def _open_special(
    metadata: pb.MessageMetadata,
    payload: bytes,
    missing: int,
    keys: PrivateKeys | None,
    chunks: ChunkJoiner | None,
    scope: Hashable,
    max_size: int,
) -> Entry:
    """Open an entry that is encrypted, a chunk, or both."""
    chunked = is_chunk(metadata)
    failed = _closed(metadata, payload, _cut(payload, missing)) if missing else None
    if failed is None and is_encrypted(metadata):
        opened = None if keys is None else keys.open(metadata, payload)
        if isinstance(opened, bytes):
            payload = opened
        else:
            failed = Entry([Message(metadata, payload)], SEALED, [] if opened is None else [opened])
    if failed is not None:
        if chunked and chunks is not None:
            chunks.forget(metadata, scope)
        return failed
    if not chunked:
        return _open_plain(metadata, payload, 0, max_size)
    if chunks is None:
        return Entry([], CHUNK)
    joined = chunks.add(metadata, payload, scope)
    if joined.payload is None:
        return Entry([], CHUNK, list(joined.problems))
    room = max(max_size, min(_GROWTH * len(joined.payload), _MAX_JOINED))
    whole = _open_plain(metadata, joined.payload, 0, room)
    whole.problems[:0] = joined.problems
    return whole


def _closed(metadata: pb.MessageMetadata, payload: bytes, problem: Problem) -> Entry:
    return Entry([Message(metadata, payload)], CLOSED, [problem])


def _cut(payload: bytes, missing: int) -> Problem:
    return Problem("cut", f"{missing} of {len(payload) + missing} bytes of the payload are missing from the capture")
