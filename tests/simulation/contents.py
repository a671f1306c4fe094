"""The messages of an entry: their unique texts, key, delivery time and transaction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pcli.codec.payload.batch import split_batch
from pcli.minibroker.storage.entry import Entry, block_start, metadata_bounds


@dataclass(frozen=True, slots=True)
class Contents:
    """The messages of one entry."""

    texts: tuple[bytes, ...] = ()
    """The payload of each message. Each message of a run has a payload of its own."""
    key: str = ""
    """The key of the entry."""
    keys: tuple[str, ...] = ()
    """The key of each message."""
    deliver_at: int = 0
    transaction: tuple[int, int] | None = None
    marker: bool = False
    """Whether the entry is a marker of a transaction, which the broker wrote."""
    producer: str = ""

    @property
    def count(self) -> int:
        """Number of messages."""
        return max(1, len(self.texts))


@lru_cache(maxsize=4096)
def contents_of_block(block: bytes) -> Contents:
    """Return the messages of an entry, given its bytes after the command."""
    entry = Entry(0, 0, 0, block)
    entry.parse()
    metadata = entry.metadata
    if metadata is None:
        return Contents()
    payload = block[metadata_bounds(block, block_start(block))[1] :]
    if metadata.HasField("num_messages_in_batch"):
        pieces, _ = split_batch(payload, metadata.num_messages_in_batch)
        texts = tuple(payload[begin:end] for _, begin, end in pieces)
        keys = tuple(single.partition_key for single, _, _ in pieces)
    else:
        texts, keys = (payload,), (metadata.partition_key,)
    transaction = (
        (metadata.txnid_most_bits, metadata.txnid_least_bits) if metadata.HasField("txnid_most_bits") else None
    )
    return Contents(
        () if entry.marker else texts,
        metadata.partition_key,
        keys,
        metadata.deliver_at_time,
        transaction,
        entry.marker,
        metadata.producer_name,
    )
