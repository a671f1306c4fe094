"""RawBatchConverter: the keys in a batch, and batches without the messages that compaction removes.

Rules of this file
1. A batch is readable if its metadata contains ``num_messages_in_batch`` and it is not encrypted. All other entries are
   compacted as one message.
2. A removed message keeps its place in the batch: its metadata contains only ``compacted_out``, and its payload is
   empty. The metadata of the entry lists the indexes of the messages that are kept.
3. A batch that cannot be decompressed is kept unchanged (UndecodableBatchError). A batch whose messages cannot be read
   makes the compaction fail (DamagedBatchError), as on the real broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pcli.codec.payload.batch import BatchMessage, join_batch, split_batch
from pcli.codec.payload.compression import compress, compression_kind, decompress
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.problems import Problem
from pcli.minibroker.storage.entry import Entry, metadata_bounds

_COMPACTED_OUT: Final = pb.SingleMessageMetadata(compacted_out=True)


class UndecodableBatchError(Exception):
    """A batch that cannot be decompressed."""


class DamagedBatchError(Exception):
    """A batch that is shorter than its messages."""


@dataclass(frozen=True, slots=True)
class CompactionData:
    """What compaction reads from one message (MessageCompactionData)."""

    index: int
    """The index in the batch, or -1 if the entry is not a batch."""
    key: str | bytes | None
    size: int
    """The size of the payload in bytes; a message without payload removes its key."""
    event_time: int
    """The event time in ms since 1970, or 0."""


def is_readable_batch(metadata: pb.MessageMetadata) -> bool:
    """Return whether the messages of a batch can be read."""
    return metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys


def single_compaction_data(entry: Entry, metadata: pb.MessageMetadata) -> CompactionData:
    """Return the data of an entry that is compacted as one message (AbstractTwoPhaseCompactor.extractKeyAndSize)."""
    if metadata.null_value:
        size = 0
    elif metadata.HasField("uncompressed_size"):
        size = metadata.uncompressed_size
    else:
        size = len(entry.data) - metadata_bounds(entry.data, entry.block)[1]
    key = metadata.partition_key if metadata.HasField("partition_key") else None
    return CompactionData(-1, key, size, metadata.event_time)


def compaction_data(entry: Entry, metadata: pb.MessageMetadata) -> list[CompactionData]:
    """Return the data of the messages in a readable batch, without those that an earlier compaction removed.

    Raises UndecodableBatchError and DamagedBatchError.
    """
    _, messages = _split(entry, metadata)
    return [
        CompactionData(index, _key(single), single.payload_size, single.event_time)
        for index, (single, _, _) in enumerate(messages)
        if not single.compacted_out
    ]


def rebatch(
    entry: Entry, metadata: pb.MessageMetadata, keep: Callable[[int, str | bytes], bool], *, retain_null_key: bool
) -> bytes | None:
    """Return a readable batch with only the messages to keep, or None if there are none.

    ``keep`` takes the index and the key of a message. ``retain_null_key`` determines whether messages without a key are
    kept. Raises UndecodableBatchError and DamagedBatchError.
    """
    batch, messages = _split(entry, metadata)
    kept: list[int] = []
    rewritten: list[tuple[pb.SingleMessageMetadata, bytes]] = []
    for index, (single, start, end) in enumerate(messages):
        key = _key(single)
        keeps = retain_null_key if key is None else end > start and keep(index, key)
        if keeps and not single.compacted_out:
            kept.append(index)
            rewritten.append((single, batch[start:end]))
        else:
            rewritten.append((_COMPACTED_OUT, b""))
    if not kept:
        return None
    joined = join_batch(rewritten)
    changed = pb.MessageMetadata()
    changed.CopyFrom(metadata)
    changed.compacted_batch_indexes[:] = kept
    changed.uncompressed_size = len(joined)
    return entry.data[: entry.block] + push_entry(changed, compress(compression_kind(metadata), joined))


def _key(single: pb.SingleMessageMetadata) -> str | bytes | None:
    return single.partition_key if single.HasField("partition_key") else None


def _split(entry: Entry, metadata: pb.MessageMetadata) -> tuple[bytes, list[BatchMessage]]:
    """Return the uncompressed batch and its messages."""
    payload = entry.data[metadata_bounds(entry.data, entry.block)[1] :]
    batch = decompress(compression_kind(metadata), payload, metadata.uncompressed_size)
    if isinstance(batch, Problem):
        raise UndecodableBatchError(batch.detail)
    count = metadata.num_messages_in_batch
    messages, problem = split_batch(batch, count)
    if len(messages) < count:
        raise DamagedBatchError("" if problem is None else problem.detail)
    return batch, messages
