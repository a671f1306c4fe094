"""Received entries, and the messages split from them.

Rules of this file (ConsumerImpl.receiveIndividualMessagesFromBatch, newSingleMessage; 4.2.4)
1. The messages in an entry share one `IncomingEntry`; a message consists of an index and three offsets. Payload, id and
   metadata are created on access, so that unread messages cost little.
2. A batch is split on arrival and without protobuf: only ``payload_size`` and ``compacted_out`` of each
   SingleMessageMetadata are read, at the positions where all known encoders write them (fields in the order of their
   numbers). Other encodings are parsed by protobuf.
3. If a batch is malformed, the messages before the error are delivered (ValidationError BatchDeSerializeError).
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from pcli.codec.payload.entry import Message
from pcli.codec.proto import pb
from pcli.codec.wire.texts import as_text
from pcli.replay.client.message_ids import AckSet, ClientMessageId

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection

Piece = tuple[int, int, int]
"""Offsets of a message in a batch: start of the metadata, start of the payload (-1 if compacted out), and end."""

_u32: Final = Struct(">I").unpack_from

# Tags of SingleMessageMetadata.
_PROPERTIES: Final = 0x0A
_KEY: Final = 0x12
_SIZE: Final = 0x18
_COMPACTED: Final = 0x20


class IncomingEntry:
    """One entry as received on one connection."""

    __slots__ = (
        "acks",
        "connection",
        "count",
        "data",
        "encrypted",
        "epoch",
        "first",
        "id",
        "metadata",
        "redelivery_count",
    )  # fmt: skip

    def __init__(
        self, id_: ClientMessageId, metadata: pb.MessageMetadata, data: bytes, connection: ClientConnection | None
    ) -> None:
        self.id = id_
        """The id of the whole entry."""
        self.metadata = metadata
        self.data = data
        """The payload: decrypted, joined from chunks and decompressed. A batch includes its inner metadata."""
        self.connection = connection
        """The connection that delivered the entry. The entry's permits are valid only on this connection."""
        self.count = 0
        """Number of messages in the batch; 0 if the entry is not a batch."""
        self.acks: AckSet | None = None
        self.redelivery_count = 0
        self.epoch = -1
        """``consumer_epoch``; -1 if the broker did not send it."""
        self.encrypted = False
        """Whether decryption failed and ``data`` is the ciphertext (cryptoFailureAction CONSUME)."""


class IncomingMessage:
    """A received message."""

    __slots__ = ("_end", "_id", "_start", "_stop", "arrival", "index")

    def __init__(self, arrival: IncomingEntry, index: int, start: int, stop: int, end: int) -> None:
        self.arrival = arrival
        self.index = index
        """Index in the batch; -1 if the message is not in a batch."""
        self._start = start
        self._stop = stop
        self._end = end
        self._id: ClientMessageId | None = None

    @classmethod
    def single(cls, arrival: IncomingEntry) -> IncomingMessage:
        """Return the only message in an entry."""
        return cls(arrival, -1, 0, 0, len(arrival.data))

    @property
    def id(self) -> ClientMessageId:
        """The id for acknowledgements."""
        one = self._id
        if one is None:
            arrival = self.arrival
            one = arrival.id
            if self.index >= 0:
                one = ClientMessageId(
                    one.ledger, one.entry, one.partition, self.index, arrival.count, arrival.acks, one.topic
                )
            self._id = one
        return one

    @property
    def data(self) -> bytes:
        """The payload."""
        return self.arrival.data[self._stop : self._end]

    @property
    def size(self) -> int:
        """Size of the payload in bytes."""
        return self._end - self._stop

    @property
    def content(self) -> Message:
        """Key, properties, event time, sequence id and other fields, decoded by codec.payload.

        If the metadata of a message in a batch is malformed, only the payload is present.
        """
        arrival = self.arrival
        if self.index < 0:
            return Message(arrival.metadata, arrival.data)
        single = _single(arrival.data[self._start : self._stop])
        return Message(arrival.metadata, arrival.data, self.index, (single, self._stop, self._end))

    @property
    def topic(self) -> str:
        """Full topic name with the partition."""
        return self.arrival.id.topic

    @property
    def redelivery_count(self) -> int:
        """Number of earlier deliveries."""
        return self.arrival.redelivery_count

    @property
    def publish_time(self) -> int:
        """Publish time in milliseconds since 1970, from the producer's clock."""
        return self.arrival.metadata.publish_time

    @property
    def producer_name(self) -> str:
        """Name of the producer."""
        return as_text(self.arrival.metadata.producer_name)

    @property
    def schema_version(self) -> bytes:
        """The schema version; empty if there is none."""
        return self.arrival.metadata.schema_version


def _single(head: bytes) -> pb.SingleMessageMetadata:
    try:
        return pb.SingleMessageMetadata.FromString(head)
    except DecodeError:
        return pb.SingleMessageMetadata()


def cut(data: bytes, count: int) -> tuple[list[Piece], bool]:
    """Return the complete messages in a batch, and whether all messages in the batch are complete."""
    pieces: list[Piece] = []
    position, end = 0, len(data)
    try:
        for _ in range(count):
            start = position + 4
            stop = at = start + _u32(data, position)[0]
            if stop > end:
                return pieces, False
            if data[start] == _SIZE and data[start + 1] < 128 and start + 2 < stop and data[start + 2] > _COMPACTED:
                position = stop + data[start + 1]
            else:
                size = _size(data[start:stop])
                at, position = (-1, stop + ~size) if size < 0 else (stop, stop + size)
            if position > end:
                return pieces, False
            pieces.append((start, at, position))
    except (error, IndexError, ValueError, DecodeError):
        return pieces, False
    return pieces, True


def _size(head: bytes) -> int:
    """Return ``payload_size``, or its complement if the message is compacted out. Raises ValueError."""
    position, end = 0, len(head)
    while position < end and head[position] in (_PROPERTIES, _KEY) and head[position + 1] < 128:
        position += 2 + head[position + 1]
    if position < end and head[position] == _SIZE:
        value = shift = 0
        while (byte := head[position := position + 1]) > 127:
            value |= (byte & 127) << shift
            shift += 7
        value |= byte << shift
        if value < 1 << 31 and (position + 1 == end or head[position + 1] > _COMPACTED):
            return value
    single = pb.SingleMessageMetadata.FromString(head)
    if single.payload_size < 0 or not single.HasField("payload_size"):
        raise ValueError("a message without the size of its payload")
    return ~single.payload_size if single.compacted_out else single.payload_size
