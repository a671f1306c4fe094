"""Sequence ids of a session; a step is (sequence id, highest or -1, messages)."""

import pytest

from pcli.codec.observe.tracking.producers.sequence_ids import MAX_DEBT_SENDS, SequenceIds


def gaps(*steps):
    numbering = SequenceIds()
    for frame, (sequence_id, highest, messages) in enumerate(steps, 1):
        assert numbering.take(sequence_id, highest, messages, frame * 10, frame)
    return [gap[1:] for gap in numbering.pending]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([(5, -1, 1), (6, -1, 1), (7, -1, 1)], id="one by one, from anywhere"),
        pytest.param([(0, 9, 10), (10, 10, 1), (11, 20, 10)], id="batches that tell their highest id (Java)"),
        pytest.param([(0, -1, 10), (10, -1, 10), (20, -1, 1), (21, -1, 1)], id="batches that do not (C++, Go)"),
        pytest.param([(0, -1, 4), (1, -1, 4), (2, -1, 1)], id="batches counted as one (pulsar-flex)"),
        pytest.param([(3, -1, 1), (5, -1, 1), (15, 15, 11), (16, -1, 1)], id="a key-based batcher (Java)"),
        pytest.param([(0, -1, 2), (1, -1, 1), (2, -1, 3), (3, -1, 1), (5, -1, 1), (8, -1, 1)], id="the same (Go)"),
    ],
)
def test_no_gap(steps):
    assert gaps(*steps) == []


def test_a_gap():
    assert gaps((0, -1, 1), (1, -1, 1), (4, -1, 1), (5, -1, 1)) == [(3, 1, 4)]


def test_a_gap_between_batches():
    assert gaps((0, 4, 5), (7, 9, 3)) == [(2, 4, 7)]


def test_a_gap_lasts_after_the_limit():
    numbering = SequenceIds()
    for sequence_id in (0, *range(5, 5 + MAX_DEBT_SENDS)):
        numbering.take(sequence_id, -1, 1, 0, 1)
    assert numbering.lasting == []
    numbering.take(5 + MAX_DEBT_SENDS, -1, 1, 0, 1)
    assert len(numbering.lasting) == 1


def test_an_id_that_goes_back():
    numbering = SequenceIds()
    assert numbering.take(7, 9, 3, 0, 1)
    assert not numbering.take(9, -1, 1, 0, 2)
    assert numbering.highest == 9


@pytest.mark.parametrize(
    ("late", "left"),
    [
        ([(6, -1, 1), (7, -1, 1), (8, -1, 1)], []),
        ([(6, 8, 3)], []),
        ([(8, -1, 1)], [(2, 5, 8)]),
        ([(7, -1, 1)], [(2, 5, 7), (2, 7, 9)]),
        ([(4, -1, 1)], [(2, 5, 9)]),
    ],
)
def test_late_ids_reduce_the_gap(late, left):
    numbering = SequenceIds()
    for frame, (sequence_id, highest, messages) in enumerate([(5, -1, 1), (9, -1, 1), *late, (10, -1, 1)], 1):
        numbering.take(sequence_id, highest, messages, 0, frame)
    assert [gap[1:] for gap in numbering.pending] == left


def test_ids_after_a_resend():
    numbering = SequenceIds()
    numbering.skip(10, -1, 5)
    numbering.skip(12, 14, 3)
    assert numbering.take(15, -1, 1, 0, 1)
    assert numbering.pending == []
