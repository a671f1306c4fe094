"""Entries, batches, and a function that compacts them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.compression import compress
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.minibroker.compaction.compacted_topic import CompactedLedger
from pcli.minibroker.compaction.compactor import TwoPhaseCompactor
from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.storage.spilling_storage import Pool, SpillingStorage


def single(payload: str = "", **metadata: Any) -> bytes:
    """Return an entry with one message."""
    fields = {"producer_name": "p", "sequence_id": 0, "publish_time": 1} | metadata
    return push_entry(pb.MessageMetadata(**fields), payload.encode())


def batch(*messages: tuple[str, str], compression: int = pb.NONE) -> bytes:
    """Return an entry with a batch of messages, each a key and a payload."""
    singles = [(pb.SingleMessageMetadata(partition_key=key), payload.encode()) for key, payload in messages]
    data = join_batch(singles)
    metadata = pb.MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        num_messages_in_batch=len(messages),
        compression=compression,
        uncompressed_size=len(data),
    )
    return push_entry(metadata, compress(compression, data))


@pytest.fixture
def compact() -> Any:
    """Compact entries; return the compacted ledger."""

    def run(stored: Iterable[bytes]) -> CompactedLedger:
        entries = [Entry(offset, 7, offset, data) for offset, data in enumerate(stored)]
        ledger = CompactedLedger(9, -1, SpillingStorage(Pool()))
        for _ in TwoPhaseCompactor(lambda: entries, ledger, retain_null_key=False, by_event_time=False).run():
            pass
        return ledger

    return run
