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
from pcli.minibroker.storage.spilling_storage import Pool


def single(payload: str = "", **metadata: Any) -> bytes:
    """Return an entry with one message."""
    fields = {"producer_name": "p", "sequence_id": 0, "publish_time": 1} | metadata
    return push_entry(pb.MessageMetadata(**fields), payload.encode())


def batch(*messages: tuple[str | None, str, int], compression: int = pb.NONE) -> bytes:
    """Return an entry with a batch of messages, each a key or None, a payload and an event time."""
    singles = [
        (pb.SingleMessageMetadata(partition_key=key, event_time=time), payload.encode())
        for key, payload, time in messages
    ]
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


def entries_of(*stored: bytes) -> list[Entry]:
    """Return entries with the ids 7:0, 7:1, …"""
    entries = [Entry(offset, 7, offset, data) for offset, data in enumerate(stored)]
    for entry in entries:
        entry.parse()
    return entries


@pytest.fixture
def compact() -> Any:
    """Compact entries; return the compacted ledger and the number of removed messages."""

    def run(stored: Iterable[bytes], **options: Any) -> tuple[CompactedLedger, int]:
        entries = entries_of(*stored)
        ledger = CompactedLedger(9, -1, Pool())
        options = {"retain_null_key": False, "by_event_time": False} | options
        compactor = TwoPhaseCompactor(lambda: entries, ledger, **options)
        for _ in compactor.run():
            pass
        return ledger, compactor.removed

    return run
