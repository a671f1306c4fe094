"""The frames of a window as columns. The values are equal to the values of codec's frame objects.

Rules of this file
1. A row is a frame. Rows are in the order in which `read_capture` yields the frames.
2. Numbers are int64, whatever the width of the field; -1 means absent. Fields of the frequent commands are never
   negative, except ``partition`` and ``batch_index``, whose default is -1. 64-bit unsigned ids are stored with the same
   bits.
3. Bytes are not copied: ``data`` contains them, and columns contain positions in ``data``.
4. ``complete`` is false if the command has content without a column: decode the bytes of `Frames.head` instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

START: Final = 0
ANCHORED: Final = 1
RESYNC: Final = 2
"""Values of ``Places.sync``: the levels of pcli.codec.capture.frames."""

CRC_NONE: Final = 0
"""The frame has no checksum, or the checksum cannot be verified because bytes are missing."""
CRC_GOOD: Final = 1
CRC_BAD: Final = 2

ORDERING: Final = 2
"""In ``Frames.key_kind``: the key is an ordering_key, which may be any bytes."""


@dataclass(slots=True)
class Places:
    """Positions of frames in the bytes of the window, in their connections and in the recording."""

    data: Bytes
    """The bytes of the window's frames, with other bytes between them."""
    start: Longs
    """Index into ``data`` of the frame's length prefix."""
    kept: Longs
    """Number of captured bytes. It is less than the length prefix states if the capture is incomplete."""
    turn: Longs
    """The packet that completed the frame: usually the packet in which the frame ends, or a later packet if bytes were
    reordered. The number never decreases."""
    packet: Longs
    """`CapturedFrame.packet`, counted from 1 across all packets of this reader."""
    first_packet: Longs
    """The first of `CapturedFrame.packets`."""
    time_ns: Longs
    stream: Longs
    """`Stream.number` of this reader."""
    from_client: Bools
    offset: Longs
    """`CapturedFrame.offset`."""
    sync: Longs
    """START, ANCHORED, RESYNC."""
    trouble: dict[int, tuple[Any, ...]]
    """`CapturedFrame.capture_problems` by row, for the few frames that have any."""

    def __len__(self) -> int:
        return len(self.start)


@dataclass(slots=True)
class AckIds:
    """The message ids of ACK frames, one row each, in the order of the frames and of the ids in them."""

    row: Longs
    """Row of the frame in `Frames`."""
    ledger: Longs
    entry: Longs
    partition: Longs
    batch_index: Longs
    set_start: Longs
    set_end: Longs
    """The ack set is ``words[set_start:set_end]``; empty if absent."""
    words: Longs
    """Words of all ack sets in the wire format: a set bit marks a message that is not acknowledged."""


@dataclass(slots=True)
class Frames:
    """A window's frames: their positions and the contents of their commands and metadata.

    The columns are read-only: a column that is empty in all rows may be a single number, repeated by its stride.
    """

    places: Places
    type: Longs
    """Number of the command type; -1 if it could not be read. A 64-bit type is stored with the same bits."""
    size: Longs
    """Bytes of the whole frame, including its length prefix, according to that prefix."""
    complete: Bools
    """Whether the columns below contain the whole command: SEND, SEND_RECEIPT, MESSAGE, ACK and FLOW, including
    transactions, several ids, ack sets and epochs; ACK_RESPONSE without an error; PING, PONG. False for other types and
    for commands with further fields (is_chunk); the columns then contain the fields that they can represent."""
    owner: Longs
    """producer_id of SEND, SEND_RECEIPT, SEND_ERROR; consumer_id of MESSAGE, ACK, FLOW, ACK_RESPONSE,
    REDELIVER_UNACKNOWLEDGED_MESSAGES; for other commands, whichever of the two ids the command contains."""
    request: Longs
    """request_id of any command."""
    sequence: Longs
    """sequence_id of SEND, SEND_RECEIPT, SEND_ERROR."""
    highest: Longs
    """highest_sequence_id of the same commands. It is -1 if the field is absent; brokers also send -1 in receipts."""
    messages: Longs
    """num_messages of SEND; messagePermits of FLOW."""
    ledger: Longs
    entry: Longs
    """message_id of SEND_RECEIPT and MESSAGE; the first id of an ACK."""
    partition: Longs
    redelivery: Longs
    """redelivery_count of MESSAGE."""
    epoch: Longs
    """consumer_epoch of MESSAGE."""
    ack_type: Longs
    """0 for an individual ACK, 1 for a cumulative ACK."""
    txn_most: Longs
    txn_least: Longs
    """txnid of SEND, ACK, ACK_RESPONSE."""
    set_start: Longs
    set_end: Longs
    """ack_set of MESSAGE: ``words[set_start:set_end]``."""
    words: Longs
    acks: AckIds
    command_end: Longs
    """Index into ``data`` after the command."""
    # These columns are set for SEND and MESSAGE; they are -1 if there is no metadata.
    metadata_start: Longs
    metadata_end: Longs
    payload_size: Longs
    """Bytes of the payload according to the length prefix, including bytes that were not captured."""
    crc: Longs
    """CRC_NONE, CRC_GOOD, CRC_BAD."""
    batch: Longs
    """num_messages_in_batch; -1 for a single message."""
    publish_ms: Longs
    metadata_sequence: Longs
    """sequence_id of the metadata."""
    metadata_highest: Longs
    """highest_sequence_id of the metadata."""
    deliver_at_ms: Longs
    chunk: Longs
    """chunk_id; -1 if the message is not a chunk."""
    chunks: Longs
    """num_chunks_from_msg."""
    marker: Longs
    """marker_type; -1 for a message."""
    metadata_most: Longs
    metadata_least: Longs
    """txnid of the metadata."""
    name_start: Longs
    name_end: Longs
    """producer_name of the metadata, as indices into ``data``."""
    key_start: Longs
    key_end: Longs
    """The key that `tracking.metadata.key_of` returns: ordering_key, otherwise partition_key; -1 if none."""
    key_kind: Longs
    """0 if there is no key, 1 for partition_key, 2 for ordering_key, 3 for partition_key with a binary key in
    base64."""
    uuid_start: Longs
    uuid_end: Longs
    """uuid of a chunk."""
    metadata_complete: Bools
    """Whether the columns above contain all metadata that pcli.codec.observe.tracking reads. False if the metadata is
    absent, truncated or invalid, contains `dead_letters.MARK`, or has a number equal to the column's value for absence.
    The columns then contain what `tracking.metadata.pull_fields` finds."""

    def __len__(self) -> int:
        return len(self.type)

    def head(self, row: int) -> bytes:
        """Return the frame's bytes up to its payload: prefix, command, broker entry metadata, checksum, metadata."""
        places = self.places
        start = int(places.start[row])
        end = self.metadata_end[row] if self.metadata_end[row] >= 0 else start + places.kept[row]
        return places.data[start : int(end)].tobytes()


def short(value: int) -> int:
    """Return a varint as the int32 that protobuf reads: its lowest 32 bits, signed."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def ranges(starts: Longs, ends: Longs) -> Longs:
    """Return all numbers of the half-open ranges, concatenated."""
    counts = ends - starts
    shift: Longs = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return np.arange(len(shift)) + shift
