"""A cursor compared with a plain set of acknowledged offsets, for any sequence of operations."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.storage.ledger import ManagedLedger
from pcli.minibroker.storage.spilling_storage import Pool, SpillingStorage


def topic(entries: int, size: int = 10) -> ManagedLedger:
    ids = itertools.count(7)
    ledger = ManagedLedger("t", SpillingStorage(Pool()), lambda: next(ids), Settings(), 1000)
    for number in range(entries):
        ledger.append(number.to_bytes(4, "big") * (size // 4), 1000)
    return ledger


def cursor(entries: int, mark_delete: int = -1) -> ManagedCursor:
    return ManagedCursor(topic(entries), "sub", mark_delete, durable=True)


def offsets(cursor: ManagedCursor, count: int = 1000, max_bytes: int = 1 << 30) -> list[int]:
    return [entry.offset for entry in cursor.read(count, max_bytes)]


def test_entries_acknowledged_in_order_move_the_mark_delete() -> None:
    sub = cursor(5)
    assert offsets(sub, 2) == [0, 1]
    assert [sub.delete(0), sub.delete(1), sub.delete(1)] == [True, True, False]
    assert (sub.mark_delete, sub.read_position, sub.backlog) == (1, 2, 3)


def test_the_mark_delete_position_waits_for_a_gap() -> None:
    sub = cursor(5)
    for offset in (3, 1, 2):
        assert sub.delete(offset)
    assert (sub.mark_delete, sub.backlog, sub.deleted_ranges()) == (-1, 2, [(1, 3)])
    assert sub.delete(0)
    assert (sub.mark_delete, sub.backlog, sub.deleted_ranges()) == (3, 1, [])


@pytest.mark.parametrize("before", [2, 1024, 1030])
def test_a_run_ends_with_its_ledger(before: int) -> None:
    ledger = topic(before)
    ledger.roll(1000)
    for _ in range(3):
        ledger.append(b"", 1000)
    sub = ManagedCursor(ledger, "sub", -1, durable=True)
    for offset in (before - 1, before, before + 1):
        sub.delete(offset)
    assert sub.deleted_ranges() == [(before - 1, before - 1), (before, before + 1)]
    assert sub.deleted_range_count == 2


def test_entries_acknowledged_before_the_read_are_skipped() -> None:
    sub = cursor(5)
    assert offsets(sub, 1) == [0]
    sub.delete(2)
    sub.delete(3)
    assert offsets(sub) == [1, 4]


def test_reading_follows_a_cumulative_acknowledgement() -> None:
    sub = cursor(5)
    sub.mark_delete_to(3)
    assert offsets(sub) == [4]
    sub.mark_delete_to(1)
    sub.mark_delete_to(5)
    assert sub.mark_delete == 3


def test_entries_acknowledged_twice_are_counted_once() -> None:
    sub = cursor(12)
    for offset in (1, 5, 0):
        sub.delete(offset)
    sub.mark_delete_to(3)
    assert (sub.mark_delete, sub.backlog, sub.deleted_ranges()) == (3, 7, [(5, 5)])


def test_a_future_entry_cannot_be_acknowledged() -> None:
    sub = cursor(2)
    assert not sub.delete(2)
    assert sub.delete(1)
    assert not sub.delete(2)
    assert sub.backlog == 1


def test_a_rewind_returns_all_unacknowledged_entries() -> None:
    sub = cursor(5)
    assert offsets(sub) == [0, 1, 2, 3, 4]
    assert not sub.has_more
    sub.delete(0)
    sub.delete(3)
    sub.rewind()
    assert sub.has_more
    assert offsets(sub) == [1, 2, 4]


def test_a_seek_drops_later_acknowledgements() -> None:
    sub = cursor(5)
    sub.delete(3)
    sub.ack_sets[2] = 0b101
    sub.seek(2)
    assert (sub.mark_delete, sub.backlog, sub.ack_sets) == (1, 3, {})
    assert offsets(sub) == [2, 3, 4]
    sub.seek(99)
    assert (sub.mark_delete, sub.read_position) == (4, 5)
    sub.seek(-5)
    assert (sub.mark_delete, sub.read_position) == (-1, 0)


def test_an_ack_set_is_deleted_with_its_entry() -> None:
    sub = cursor(6)
    sub.ack_sets.update({0: 1, 2: 1, 4: 1})
    sub.delete(2)
    assert sub.ack_sets == {0: 1, 4: 1}
    sub.mark_delete_to(3)
    assert sub.ack_sets == {4: 1}
    sub.ack_sets[5] = 2
    sub.mark_delete_to(4)
    assert sub.ack_sets == {5: 2}


def test_a_read_is_limited_in_bytes_but_has_at_least_one_entry() -> None:
    ledger = topic(20, size=100)
    plain = ManagedCursor(ledger, "a", -1, durable=True)
    assert offsets(plain, 10, 250) == [0, 1]
    assert offsets(plain, 10, 1) == [2]
    holes = ManagedCursor(ledger, "b", -1, durable=True)
    for offset in (1, 3, 6):
        holes.delete(offset)
    assert offsets(holes, 10, 250) == [0, 2]
    assert offsets(holes, 10, 1) == [4]
    assert offsets(holes, 3, 350) == [5, 7, 8]
    assert offsets(holes, 2) == [9, 10]


def test_the_nth_entry_excludes_acknowledged_entries() -> None:
    sub = cursor(10)
    for offset in (1, 2, 5):
        sub.delete(offset)
    assert [sub.nth_unacked(count) for count in (1, 2, 3, 4, 7)] == [0, 3, 4, 6, 9]
    assert sub.nth_unacked(8) == 9
    assert sub.nth_unacked(0) == -1


def test_a_cursor_before_the_trimmed_position_continues_at_the_first_entry() -> None:
    ledger = topic(4)
    ledger.roll(2000)
    ledger.append(b"four", 2000)
    reader = ManagedCursor(ledger, "reader", -1, durable=False)
    reader.delete(2)
    ledger.trim(3, 0, 0, 3000)
    assert reader.backlog == 1
    assert offsets(reader) == [4]
    late = ManagedCursor(ledger, "late", -1, durable=False)
    assert offsets(late) == [4]
    assert late.mark_delete == 3


@pytest.mark.parametrize("shape", ["backwards", "shuffled", "every second"])
def test_a_hundred_thousand_acknowledgements_out_of_order(shape: str) -> None:
    count = 100_000
    sub = cursor(count)
    order = list(range(1, count))
    if shape == "backwards":
        order.reverse()
    elif shape == "shuffled":
        random.Random(1).shuffle(order)
    else:
        order = order[1::2] + order[::2]
    assert all(sub.delete(offset) for offset in order)
    assert (sub.mark_delete, sub.backlog, sub.deleted_ranges()) == (-1, 1, [(1, count - 1)])
    assert sub.next_unacked(1) == count
    assert sub.delete(0)
    assert (sub.mark_delete, sub.backlog, sub.has_more) == (count - 1, 0, False)


def moves(near: st.SearchStrategy[int], run: int) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    """An operation on a cursor: its name, an offset or a count, a length."""
    return st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["delete", "delete", "cumulative", "ask"]), near, st.just(0)),
            st.tuples(st.just("run"), near, st.integers(1, run)),
            st.tuples(st.just("read"), st.integers(1, run), st.just(0)),
            st.tuples(st.just("rewind"), st.just(0), st.just(0)),
            st.tuples(st.just("seek"), near, st.just(0)),
        ),
        max_size=40,
    )


def play(ledger: ManagedLedger, moves: list[tuple[str, int, int]], order: random.Random) -> None:
    """Apply the same operations to a cursor and a set."""
    size = ledger.next
    sub = ManagedCursor(ledger, "sub", -1, durable=True)
    acked: set[int] = set()
    position = 0
    for move, offset, length in moves:
        if move == "delete":
            assert sub.delete(offset) == (0 <= offset < size and offset not in acked)
            acked.update({offset} & set(range(size)))
        elif move == "run":
            run = list(range(max(offset, 0), min(offset + length, size)))
            order.shuffle(run)
            for each in run:
                assert sub.delete(each) == (each not in acked)
            acked.update(run)
        elif move == "cumulative":
            sub.mark_delete_to(offset)
            if offset < size:
                acked.update(range(offset + 1))
        elif move == "read":
            due = [each for each in range(position, size) if each not in acked][:offset]
            assert offsets(sub, offset) == due
            position = max(position, due[-1] + 1) if due else position
        elif move == "rewind":
            sub.rewind()
            position = 0
        elif move == "seek":
            sub.seek(offset)
            position = min(max(offset, 0), size)
            acked = set(range(position))
        hole = next(each for each in range(size + 1) if each not in acked)
        assert sub.mark_delete == hole - 1
        assert sub.backlog == size - len(acked)
        assert sub.is_deleted(offset) == (offset < 0 or offset in acked)
        live = next((each for each in range(max(offset, 0), size) if each not in acked), size)
        assert min(sub.next_unacked(offset), size) == live
        assert sub.has_more == any(each not in acked for each in range(position, size))
        runs = [each for run in sub.deleted_ranges() for each in range(run[0], run[1] + 1)]
        assert runs == sorted(each for each in acked if each > hole)
        assert sub.deleted_range_count == len(sub.deleted_ranges())
        start, bits = sub.deleted_bits(limit=2)
        two_runs = [each for run in sub.deleted_ranges()[:2] for each in range(run[0], run[1] + 1)]
        assert [start + number for number in range(8 * len(bits)) if bits[number // 8] >> number % 8 & 1] == two_runs
        assert sub.nth_unacked(3) == [*sorted(set(range(size)) - acked)[:3], *[size - 1] * 3][2]


def test_a_reload_forgets_a_seek_to_the_start():
    sub = ManagedCursor(topic(3), "sub", 1, durable=True)
    sub.seek(-1)
    assert sub.is_at_start
    sub.reload(keep_ack_sets=False)
    assert (sub.is_at_start, sub.read_position) == (False, 0)


@pytest.fixture(scope="module")
def twelve() -> ManagedLedger:
    return topic(12)


@pytest.fixture(scope="module")
def five_thousand() -> ManagedLedger:
    return topic(5000)


shuffles = st.randoms(use_true_random=False)
borders = st.one_of(st.integers(-2, 40), st.integers(1000, 1050), st.integers(2020, 2070), st.integers(0, 5002))


@settings(max_examples=400)
@given(moves=moves(st.integers(-1, 13), 4), order=shuffles)
def test_a_cursor_behaves_like_a_set(
    twelve: ManagedLedger, moves: list[tuple[str, int, int]], order: random.Random
) -> None:
    play(twelve, moves, order)


@pytest.mark.slow
@given(moves=moves(borders, 2500), order=shuffles)
def test_a_cursor_behaves_like_a_set_across_pages(
    five_thousand: ManagedLedger, moves: list[tuple[str, int, int]], order: random.Random
) -> None:
    play(five_thousand, moves, order)


def test_the_backlog_query_changes_nothing() -> None:
    ledger = topic(4)
    ledger.roll(0)
    for number in range(3):
        ledger.append(b"%d" % number, 0)
    sub = ManagedCursor(ledger, "s", -1, durable=False)
    for offset in (1, 4, 6):
        sub.delete(offset)
    assert sub.backlog == 4
    ledger.trim(None, 0, 0, 0)
    assert ledger.first == 4
    assert (sub.backlog, sub.mark_delete, sub.read_position) == (1, -1, 0)
    sub.skip_trimmed()
    assert (sub.backlog, sub.mark_delete, sub.read_position) == (1, 4, 5)
