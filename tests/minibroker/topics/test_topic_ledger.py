"""The last dispatchable entry of a topic: which entries are searched, and when they are searched again."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.ledger import ManagedLedger
from pcli.minibroker.storage.spilling_storage import Pool, SpillingStorage
from pcli.minibroker.topics.topic_ledger import LastDispatchableEntry
from pcli.minibroker.transactions.transaction_buffer import TopicTransactionBuffer

ONE, TWO = (0, 1), (0, 2)


class Scene:
    """A ledger with the transactions of a topic; ``read`` counts the entries that were read."""

    def __init__(self):
        self.ledger = ManagedLedger("t", SpillingStorage(Pool()), iter(range(100)).__next__, Settings(), 0)
        self.buffer = TopicTransactionBuffer(self.ledger, lambda marker: self.ledger.append(marker, 0))
        self.last = LastDispatchableEntry(0)
        self.read = 0

    def publish(self, txn=None, **fields):
        if txn is not None:
            fields |= {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)
        offset = self.ledger.append(push_entry(metadata, b"hello"), 0).offset
        if txn is not None:
            self.buffer.message_appended(txn, offset, 0)

    def end(self, txn, *, commit=True):
        (self.buffer.commit if commit else self.buffer.abort)(txn, 0, 0)
        self.last.reset(self.next)

    def entry(self, offset):
        self.read += 1
        return self.ledger.entry(offset)

    @property
    def first(self):
        return self.ledger.first

    @property
    def next(self):
        return self.ledger.next

    def find(self):
        """Return the offset of the last dispatchable entry, or None, and the number of entries that were read."""
        self.read = 0
        found = self.last.find(self, self.buffer)
        return None if found is None else found.offset, self.read


@pytest.fixture
def scene():
    return Scene()


def test_an_empty_topic_has_none(scene):
    assert scene.find() == (None, 0)


def test_aborted_entries_are_read_only_once(scene):
    scene.publish()
    for _ in range(100):
        scene.publish(ONE)
    scene.end(ONE, commit=False)
    assert scene.find() == (0, 102)
    assert scene.find() == (0, 1)
    scene.publish()
    assert scene.find() == (102, 1)


def test_entries_are_found_when_their_transaction_ends(scene):
    scene.publish()
    scene.publish(ONE)
    scene.publish(TWO)
    assert scene.find() == (0, 1)
    scene.end(ONE)
    assert scene.find() == (1, 1)
    scene.end(TWO)
    assert scene.find()[0] == 2


def test_deleted_entries_are_not_found(scene):
    scene.publish()
    assert scene.find()[0] == 0
    scene.ledger.roll(0)
    scene.ledger.trim(0, 0, 0, 0)
    assert scene.find() == (None, 0)
    scene.publish()
    assert scene.find() == (1, 1)


def test_the_flag_decides_until_a_transaction_ends(scene):
    """Without the flag, a marker counts as a message; with it, an entry without a marker type does not."""
    scene.publish()
    scene.publish(marker_type=10)
    assert scene.find()[0] == 1
    scene.publish()
    scene.last.flagged.add(2)
    assert scene.find()[0] == 1
    scene.publish(ONE)
    scene.end(ONE)
    assert scene.find()[0] == 3
    scene.publish(marker_type=10)
    scene.last.flagged.add(5)
    assert scene.find()[0] == 3
    scene.last.reset(scene.next)
    assert scene.find()[0] == 3


def test_the_metadata_decides_if_all_entries_have_the_flag(scene):
    scene.publish()
    scene.publish(marker_type=10)
    scene.last.flagged.update((0, 1))
    assert scene.find()[0] == 0
