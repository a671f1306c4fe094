"""Frames as columns: what the object path says of a frame, for a window's worth of frames at once.

Rules of this file
1. A row is a frame. Rows stand in the order in which `read_capture` gives the frames, and tell the same of them.
2. Numbers are int64 whatever the field's own width; -1 is "not there" (no field of Pulsar's hot commands is negative
   but ``partition`` and ``batch_index``, whose own default is -1). Ids that need 64 unsigned bits keep their bits.
3. Bytes stay where they are: ``data`` holds them, columns say where. Nobody copies a payload.
4. What the columns do not tell of a frame is told by its bytes: ``told`` is False, and who needs more makes a Frame of
   `Frames.head`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "ANCHORED", "CRC_BAD", "CRC_GOOD", "CRC_NONE", "ORDERING", "RESYNC", "START", "AckIds", "Frames", "Places",
    "ranges", "short",
]  # fmt: skip

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

START: Final = 0
ANCHORED: Final = 1
RESYNC: Final = 2
"""As the words of pcli.codec.capture.frames, in ``Places.sync``."""

CRC_NONE: Final = 0
"""No checksum block, or it can't be computed because bytes are missing."""
CRC_GOOD: Final = 1
CRC_BAD: Final = 2

ORDERING: Final = 2
"""In ``Frames.key_kind``: the key is an ordering_key, of any bytes."""


@dataclass(slots=True)
class Places:
    """Where frames are: in the bytes at hand, in their connections, in the recording. All columns of one length."""

    data: Bytes
    """The bytes of this window's frames, some of other things between them."""
    start: Longs
    """Index into ``data`` of the frame's length prefix."""
    kept: Longs
    """Bytes of the frame that are there; fewer than its prefix says when the capture has not all."""
    turn: Longs
    """The packet at whose taking in the frame was given; never falls. Mostly that in which it ends; later where bytes
    waited for others."""
    packet: Longs
    """`CapturedFrame.packet`: counted from 1 over all that this reader has read."""
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
    """Row to `CapturedFrame.capture_problems`, for the few that have some."""

    def __len__(self) -> int:
        return len(self.start)


@dataclass(slots=True)
class AckIds:
    """The message ids of ACK frames, each a row, in the order of frames and of ids in them."""

    row: Longs
    """Row of the frame in `Frames`."""
    ledger: Longs
    entry: Longs
    partition: Longs
    batch_index: Longs
    set_start: Longs
    set_end: Longs
    """The ack set is ``words[set_start:set_end]``; empty: none was given."""
    words: Longs
    """Words of all ack sets, as they are on the wire: a bit that is set is not acknowledged."""


@dataclass(slots=True)
class Frames:
    """A window's frames: their places and what their commands and metadata say.

    The columns are to be read only: one that says nothing in all rows may be a single number, repeated by its stride.
    """

    places: Places
    type: Longs
    """Number of the command type (one of 64 bits: its bits); -1: none could be read."""
    size: Longs
    """Bytes of the whole frame, its prefix included, as the prefix says."""
    told: Bools
    """Whether the columns below tell all of the command: SEND, SEND_RECEIPT, MESSAGE, ACK, FLOW as `wire.hot` reads
    them, with transactions, several ids, ack sets and epochs too; ACK_RESPONSE without error; PING, PONG. False:
    whatever has more (chunks: is_chunk), and every other type; the columns hold what is there."""
    owner: Longs
    """producer_id of SEND, SEND_RECEIPT, SEND_ERROR; consumer_id of MESSAGE, ACK, FLOW, ACK_RESPONSE,
    REDELIVER_UNACKNOWLEDGED_MESSAGES; of other commands the one of the two that they have."""
    request: Longs
    """request_id, of any command."""
    sequence: Longs
    """sequence_id of SEND, SEND_RECEIPT, SEND_ERROR."""
    highest: Longs
    """highest_sequence_id of those. Brokers write -1 for none into receipts: that is -1 here, too."""
    messages: Longs
    """num_messages of SEND; messagePermits of FLOW."""
    ledger: Longs
    entry: Longs
    """message_id of SEND_RECEIPT, MESSAGE; of an ACK its first."""
    partition: Longs
    redelivery: Longs
    """redelivery_count of MESSAGE."""
    epoch: Longs
    """consumer_epoch of MESSAGE."""
    ack_type: Longs
    """0 individual, 1 cumulative."""
    txn_most: Longs
    txn_least: Longs
    """txnid of SEND, ACK, ACK_RESPONSE."""
    set_start: Longs
    set_end: Longs
    """ack_set of MESSAGE: ``words[set_start:set_end]``."""
    words: Longs
    acks: AckIds
    command_end: Longs
    """Index into ``data`` behind the command."""
    # Of SEND and MESSAGE, all -1 where there is no metadata.
    metadata_start: Longs
    metadata_end: Longs
    payload_size: Longs
    """Bytes of the payload as the prefix has it (what the capture cut away included)."""
    crc: Longs
    """CRC_NONE, CRC_GOOD, CRC_BAD."""
    batch: Longs
    """num_messages_in_batch; -1: not given, a single message."""
    publish_ms: Longs
    metadata_sequence: Longs
    """sequence_id of the metadata."""
    metadata_highest: Longs
    """highest_sequence_id of the metadata."""
    deliver_at_ms: Longs
    chunk: Longs
    """chunk_id; -1: it is no chunk."""
    chunks: Longs
    """num_chunks_from_msg."""
    marker: Longs
    """marker_type; -1: a message."""
    metadata_most: Longs
    metadata_least: Longs
    """txnid of the metadata."""
    name_start: Longs
    name_end: Longs
    """producer_name of the metadata, as indices into ``data``."""
    key_start: Longs
    key_end: Longs
    """What `tracking.metadata.key_of` takes: ordering_key, else partition_key; -1: neither."""
    key_kind: Longs
    """0 none, 1 partition_key, 2 ordering_key, 3 partition_key that is base64 of a binary one."""
    uuid_start: Longs
    uuid_end: Longs
    """uuid of a chunk."""
    metadata_told: Bools
    """Whether the columns above tell all of the metadata that pcli.codec.observe.tracking reads. False: there is none,
    it is cut or no protobuf to its end, it holds `dead_letters.MARK`, or a number that the columns can't tell from
    "not there". The columns then hold what `tracking.metadata.pull_fields` finds."""

    def __len__(self) -> int:
        return len(self.type)

    def head(self, row: int) -> bytes:
        """The frame's bytes up to its payload: prefix, command, broker entry metadata, checksum, metadata."""
        places = self.places
        start = int(places.start[row])
        end = self.metadata_end[row] if self.metadata_end[row] >= 0 else start + places.kept[row]
        return places.data[start : int(end)].tobytes()


def short(value: int) -> int:
    """A varint as an int32, as protobuf reads it: its lowest 32 bits, with their sign."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def ranges(starts: Longs, ends: Longs) -> Longs:
    """All numbers of the half-open ranges, one behind the other."""
    counts = ends - starts
    shift: Longs = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return np.arange(len(shift)) + shift
