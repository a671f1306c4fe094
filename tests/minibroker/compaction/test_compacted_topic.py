"""The compacted ledger: entries by offset and by position."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.compaction.compacted_topic import CompactedLedger, CompactedTopic, MessagePosition
from pcli.minibroker.storage.entry import Entry
from pcli.minibroker.storage.spilling_storage import Pool, SpillingStorage

from .conftest import batch, single


@pytest.fixture
def ledger():
    """Create a ledger with the entries 3:1, 3:4 and 5:0, which are the entries 1, 4 and 6 of the topic."""
    ledger = CompactedLedger(9, -1, SpillingStorage(Pool()))
    for offset, place in ((1, (3, 1)), (4, (3, 4)), (6, (5, 0))):
        ledger.append(Entry(offset, *place, b""), single(f"m{offset}", publish_time=offset))
    return ledger


def test_reads_start_at_the_next_entry(ledger):
    assert [entry.offset for entry in ledger.read(0, 2)] == [1, 4]
    assert [(entry.ledger_id, entry.entry_id) for entry in ledger.read(5, 2)] == [(5, 0)]
    assert ledger.read(7, 2) == []


def test_a_read_contains_at_least_one_entry(ledger):
    assert [entry.offset for entry in ledger.read(0, 3, max_bytes=1)] == [1]


def test_the_first_entry_at_or_after_a_position(ledger):
    places = [(2, 9), (3, 1), (3, 2), (4, 0), (5, 0), (5, 1)]
    assert [ledger.offset_at(*place) for place in places] == [1, 1, 4, 6, 6, None]


def test_the_size_includes_the_ids(ledger):
    """A real broker reported 51 bytes for an entry of 28 bytes with the id 3:2."""
    one = CompactedLedger(9, -1, SpillingStorage(Pool()))
    one.append(Entry(2, 3, 2, b""), bytes(28))
    assert one.size == 51


def test_the_last_message_position(ledger):
    topic = CompactedTopic()
    assert topic.last_message_position() == MessagePosition(-1, -1, 0, 0)
    topic.new_compacted_ledger(6, ledger)
    assert topic.last_message_position() == MessagePosition(5, 0, -1, 6)
    ledger.append(Entry(7, 5, 1, b""), batch(("a", "a")))
    assert topic.last_message_position().batch_index == -1
    ledger.append(Entry(8, 5, 2, b""), batch(("a", "a"), ("b", "b")))
    assert topic.last_message_position().batch_index == 1


def test_a_replaced_ledger_releases_its_storage():
    pool, topic = Pool(), CompactedTopic()
    for _ in range(3):
        ledger = CompactedLedger(9, -1, SpillingStorage(pool))
        ledger.append(Entry(0, 3, 0, b""), pb.MessageMetadata().SerializePartialToString() + bytes(1000))
        topic.new_compacted_ledger(0, ledger)
        assert 1000 < pool.kept < 2500
    topic.reset()
    assert pool.kept == 0
