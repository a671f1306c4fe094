"""Sequence ids and possible duplicates, as a table of consecutive sends."""

from __future__ import annotations

from pcli.replay.client.producer.sequence_ids import DuplicateRisk, SequenceIds


def judge_all(ids: SequenceIds, *sequence_ids: int) -> list[tuple[int, DuplicateRisk, bool]]:
    sent = []
    for sequence_id in sequence_ids:
        sent.append((sequence_id, *ids.judge(sequence_id)))
        ids.pushed = max(ids.pushed, sequence_id)
    return sent


def test_possible_duplicates_are_alone_and_the_next_message_starts_a_batch() -> None:
    ids = SequenceIds(None)
    ids.published = 1
    assert judge_all(ids, 0, 1, 3, 3, 2, 1, 4, 5) == [
        (0, DuplicateRisk.NONE, False),
        (1, DuplicateRisk.NONE, False),
        (3, DuplicateRisk.NONE, False),
        (3, DuplicateRisk.MAYBE, True),
        (2, DuplicateRisk.MAYBE, True),
        (1, DuplicateRisk.SURE, True),
        (4, DuplicateRisk.NONE, True),
        (5, DuplicateRisk.NONE, False),
    ]


def test_ids_continue_from_the_brokers_value() -> None:
    ids = SequenceIds(None)
    ids.learn(6)
    assert (ids.next, ids.published, ids.pushed) == (7, 6, -1)
    assert ids.take(None) == 7
    ids.learn(20)  # after a reconnection
    assert ids.take(None) == 8


def test_the_applications_initial_id_takes_precedence() -> None:
    ids = SequenceIds(4)
    ids.learn(20)
    assert (ids.next, ids.published, ids.pushed) == (5, 4, 4)


def test_an_applications_id_does_not_change_the_counter() -> None:
    ids = SequenceIds(None)
    assert [ids.take(None), ids.take(100), ids.peek(None), ids.take(None)] == [0, 100, 1, 1]


def test_a_broker_without_a_last_sequence_id() -> None:
    ids = SequenceIds(None)
    ids.learn(-5)
    assert (ids.next, ids.published) == (0, -1)
