"""Deduplication: the send.dedup_* conversations of a real broker as a table of results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.minibroker.settings import Settings
from pcli.minibroker.topics.deduplication import MessageDeduplication

NEW, DUP = False, True
MINUTE = 60_000


@pytest.fixture
def known() -> MessageDeduplication:
    return MessageDeduplication(Settings())


def verdicts(known: MessageDeduplication, *ids: tuple[int, int]) -> list[bool]:
    return [known.check("p", sequence, highest, None) for sequence, highest in ids]


def test_the_same_and_lower_ids_are_duplicates(known: MessageDeduplication) -> None:
    assert verdicts(known, (0, -1), (5, -1), (5, -1), (3, -1), (6, -1)) == [NEW, NEW, DUP, DUP, NEW]


def test_the_lowest_id_of_a_batch_is_compared_with_the_highest_recorded(known: MessageDeduplication) -> None:
    batches = [(0, 2), (2, 4), (3, 5), (6, -1), (7, 8)]
    assert verdicts(known, *batches) == [NEW, DUP, NEW, NEW, NEW]
    assert known.last_sequence_id("p") == 8


def test_only_the_last_chunk_counts(known: MessageDeduplication) -> None:
    def chunk(number: int) -> bool:
        metadata = pb.MessageMetadata(
            producer_name="p", sequence_id=0, publish_time=1, uuid="u", chunk_id=number, num_chunks_from_msg=2
        )
        return known.check("p", 0, -1, lambda: metadata)

    assert [chunk(number) for number in (0, 1, 0, 1)] == [NEW, NEW, NEW, DUP]
    assert known.check("p", 1, -1, None) is NEW


def test_each_name_has_its_own_ids(known: MessageDeduplication) -> None:
    assert known.check("p1", 3, -1, None) is NEW
    assert [known.check("p2", sequence, -1, None) for sequence in (1, 3, 3)] == [NEW, NEW, DUP]
    assert [known.last_sequence_id(name) for name in ("p1", "p2", "new")] == [3, 3, -1]


def test_an_entry_that_was_not_stored_is_no_duplicate(known: MessageDeduplication) -> None:
    assert known.check("p", 4, -1, None) is NEW
    known.undo_last_check()
    assert known.last_sequence_id("p") == -1
    assert verdicts(known, (4, -1), (5, 9)) == [NEW, NEW]
    known.undo_last_check()
    assert known.last_sequence_id("p") == 4
    assert verdicts(known, (4, -1)) == [DUP]
    known.undo_last_check()
    assert known.last_sequence_id("p") == 4


def test_a_name_is_removed_six_hours_after_its_producer_left(known: MessageDeduplication) -> None:
    for name in ("stays", "leaves", "returns"):
        known.check(name, 1, -1, None)
    for name in ("leaves", "returns", "unknown"):
        known.producer_removed(name, 0)
    known.producer_added("returns")
    known.purge(360 * MINUTE)
    assert known.last_sequence_id("leaves") == 1
    known.purge(360 * MINUTE + 1)
    assert [known.last_sequence_id(name) for name in ("stays", "leaves", "returns")] == [1, -1, 1]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=60))
def test_new_ids_are_above_all_recorded_ids(batches: list[tuple[int, int]]) -> None:
    known = MessageDeduplication(Settings())
    stored: set[int] = set()
    for lowest, more in batches:
        verdict = known.check("p", lowest, lowest + more, None)
        assert (verdict is DUP) == (lowest <= max(stored, default=-1))
        if verdict is NEW:
            stored.update(range(lowest, lowest + more + 1))
        assert known.last_sequence_id("p") == max(stored, default=-1)


# -- the cursor --------------------------------------------------------------------------------------------------------


@pytest.fixture
def snapshot(make_world):
    """Return a topic with deduplication, a producer's client, and a function that returns the cursor's entry id."""

    def make(**settings):
        world = make_world(brokerDeduplicationEnabled=True, **settings)
        client = world.client()
        client.producer()
        [topic] = world.broker.topics.values()
        return world, client, lambda: topic.deduplication_snapshot.cursor.mark_delete_position[1]

    return make


def test_the_cursor_starts_at_the_end_and_moves_after_a_number_of_entries(snapshot):
    _, client, position = snapshot(brokerDeduplicationEntriesInterval=3)
    found = []
    for sequence in range(4):
        client.publish(sequence_id=sequence)
        found.append(position())
    assert found == [-1, -1, 2, 2]


def test_the_cursor_moves_at_the_interval_of_the_policy(snapshot):
    world, client, position = snapshot(brokerDeduplicationSnapshotFrequencyInSeconds=10)
    client.publish()
    world.wait(10_000)
    assert position() == 0
    world.broker.policies.set_namespace("public/default", "deduplicationSnapshotInterval", 60)
    client.publish(sequence_id=1)
    world.wait(50_000)
    assert position() == 0
    world.wait(10_000)
    assert position() == 1


def test_entries_after_the_cursor_are_kept(snapshot):
    world, client, _ = snapshot(managedLedgerMaxEntriesPerLedger=1, managedLedgerMinLedgerRolloverTimeMinutes=0)
    [topic] = world.broker.topics.values()
    for sequence in range(3):
        client.publish(sequence_id=sequence)
    world.broker.policies.set_topic(topic.name, "deduplicationSnapshotInterval", 0)
    topic.trim()
    assert topic.ledger.first == 0
    topic.deduplication_snapshot.check(1, world.now)
    topic.trim()
    assert topic.ledger.first == 3
