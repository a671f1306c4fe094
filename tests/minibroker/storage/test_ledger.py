"""The ledgers of a topic: ids, rollover, reading, times, deletion."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.ledger import EntryCache, ManagedLedger, timestamp
from pcli.minibroker.storage.spilling_storage import Pool, SpillingStorage

MINUTE = 60_000
NOW = 1_700_000_000_000


def topic(settings: Settings | None = None, *, memory: int = 1 << 30, cache: EntryCache | None = None) -> ManagedLedger:
    """A topic whose ledgers are 10, 13, 16, … because others use the numbers in between."""
    ids = itertools.count(10, 3)
    storage = SpillingStorage(Pool(memory_limit=memory, open_file=io.BytesIO))
    return ManagedLedger("t", storage, lambda: next(ids), settings or Settings(), NOW, cache=cache)


def two_ledgers() -> ManagedLedger:
    """Create ledger 10 with 3 entries and ledger 13 with 2."""
    ledger = topic()
    for number in range(3):
        ledger.append(b"old%d" % number, NOW)
    ledger.roll(NOW + 5)
    for number in range(2):
        ledger.append(b"new%d" % number, NOW + 6)
    return ledger


def block(publish_time: int, broker: int | None = None) -> bytes:
    """Return a stored entry: metadata without payload, with or without broker entry metadata."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=publish_time).SerializeToString()
    data = len(metadata).to_bytes(4, "big") + metadata
    if broker is None:
        return data
    stored = pb.BrokerEntryMetadata(broker_timestamp=broker).SerializeToString()
    return b"\x0e\x02" + len(stored).to_bytes(4, "big") + stored + data


def test_the_position_of_an_empty_topic_is_before_its_first_entry() -> None:
    ledger = topic()
    assert (ledger.first, ledger.next, ledger.total_size, ledger.entries_added) == (0, 0, 0, 0)
    assert ledger.position(-1) == (10, -1)
    assert ledger.position(ledger.next) == (10, 0)
    assert ledger.read(0, 10, 1 << 20) == []
    assert ledger.entry(0) is None


def test_entries_have_an_id_in_the_ledger_and_an_offset_in_the_topic() -> None:
    ledger = two_ledgers()
    entries = ledger.read(0, 10, 1 << 20)
    assert [(each.offset, each.ledger_id, each.entry_id, each.data) for each in entries] == [
        (0, 10, 0, b"old0"), (1, 10, 1, b"old1"), (2, 10, 2, b"old2"), (3, 13, 0, b"new0"), (4, 13, 1, b"new1"),
    ]  # fmt: skip
    assert [ledger.position(each.offset) for each in entries] == [(each.ledger_id, each.entry_id) for each in entries]
    assert [ledger.offset_of(each.ledger_id, each.entry_id) for each in entries] == [0, 1, 2, 3, 4]
    assert ledger.position(5) == (13, 2)
    assert (ledger.total_size, [each.size for each in ledger.ledgers]) == (20, [12, 8])


@pytest.mark.parametrize("place", [(10, 3), (10, -1), (13, 2), (11, 0), (16, 0), (-1, -1), (1 << 62, 0)])
def test_a_missing_entry_has_no_offset(place: tuple[int, int]) -> None:
    assert two_ledgers().offset_of(*place) is None


@pytest.mark.parametrize(
    ("place", "offset"),
    [
        ((-1, -1), 0),
        ((10, -1), 0),
        ((10, 1), 1),
        ((10, 3), 3),
        ((10, 99), 3),
        ((11, 5), 3),
        ((13, -1), 3),
        ((13, 1), 4),
        ((13, 2), 5),
        ((13, 100), 5),
        ((14, 0), 5),
        (((1 << 63) - 1, (1 << 63) - 1), 5),
    ],
)
def test_the_next_valid_position(place: tuple[int, int], offset: int) -> None:
    assert two_ledgers().next_valid(*place) == offset


def test_after_a_roll_the_last_entry_stays_in_its_ledger() -> None:
    ledger = topic()
    ledger.append(b"m", NOW)
    ledger.roll(NOW + 1)
    assert ledger.position(ledger.next - 1) == (10, 0)
    assert ledger.position(ledger.next) == (13, 0)
    assert [each.closed_ms for each in ledger.ledgers] == [NOW + 1, None]


def test_an_empty_ledger_is_dropped_when_it_closes() -> None:
    ledger = topic()
    ledger.roll(NOW)
    assert [each.id for each in ledger.ledgers] == [13]
    assert ledger.position(-1) == (13, -1)
    assert ledger.next_valid(10, 0) == 0


def test_a_full_ledger_rolls_only_when_it_is_old_enough() -> None:
    ledger = topic(Settings(managedLedgerMaxEntriesPerLedger=2, managedLedgerMinLedgerRolloverTimeMinutes=10))
    for minutes in (0, 1, 2, 10):
        ledger.append(b"m", NOW + minutes * MINUTE)
    assert len(ledger.ledgers) == 1
    ledger.append(b"m", NOW + 10 * MINUTE + 1)
    assert [each.entries for each in ledger.ledgers] == [5, 0]


def test_a_full_ledger_at_its_minimum_age_does_not_roll() -> None:
    ledger = topic(Settings(managedLedgerMaxEntriesPerLedger=1, managedLedgerMinLedgerRolloverTimeMinutes=10))
    ledger.append(b"m", NOW + 10 * MINUTE)
    assert len(ledger.ledgers) == 1
    ledger.append(b"m", NOW + 10 * MINUTE + 1)
    assert len(ledger.ledgers) == 2


def test_without_a_minimum_age_a_full_ledger_rolls_at_once() -> None:
    ledger = topic(Settings(managedLedgerMaxEntriesPerLedger=2, managedLedgerMinLedgerRolloverTimeMinutes=0))
    places = [(entry.ledger_id, entry.entry_id) for entry in [ledger.append(b"m", NOW) for _ in range(5)]]
    assert places == [(10, 0), (10, 1), (13, 0), (13, 1), (16, 0)]


def test_size_and_age_fill_a_ledger_too() -> None:
    settings = Settings(managedLedgerMaxSizePerLedgerMbytes=1, managedLedgerMinLedgerRolloverTimeMinutes=0)
    ledger = topic(settings)
    ledger.append(bytes(1024 * 1024), NOW)
    assert [each.entries for each in ledger.ledgers] == [1, 0]
    ledger.append(b"m", NOW + 240 * MINUTE - 1)
    assert len(ledger.ledgers) == 2
    ledger.roll_if_full(NOW + 240 * MINUTE)
    assert [each.entries for each in ledger.ledgers] == [1, 1, 0]
    ledger.roll_if_full(NOW + 1000 * MINUTE)
    assert len(ledger.ledgers) == 3


def test_a_run_ends_where_a_ledger_ends_and_where_there_is_no_room() -> None:
    settings = Settings(managedLedgerMaxEntriesPerLedger=3, managedLedgerMinLedgerRolloverTimeMinutes=0)
    ledger = topic(settings)
    assert [entry.entry_id for entry in ledger.append_run([b"a", b"b", b"c", b"d"], NOW)] == [0, 1, 2]
    assert [(entry.ledger_id, entry.entry_id) for entry in ledger.append_run([b"d", b"e"], NOW)] == [(13, 0), (13, 1)]
    storage = SpillingStorage(Pool(memory_limit=1 << 30, max_backlog=2_000, open_file=io.BytesIO))
    small = ManagedLedger("t", storage, itertools.count(1).__next__, Settings(), NOW)
    assert len(small.append_run([bytes(500)] * 9, NOW)) == small.next == len(storage.read(0, 9)) < 9
    with pytest.raises(Refused):
        small.append_run([bytes(2000)], NOW)


def test_a_terminated_topic_accepts_no_entry_and_has_a_last_id() -> None:
    ledger = two_ledgers()
    assert ledger.terminate(NOW) == (13, 1)
    assert ledger.terminate(NOW + 1) == (13, 1)
    with pytest.raises(Refused) as refusal:
        ledger.append(b"m", NOW)
    assert refusal.value.code == pb.TopicTerminatedError
    ledger.roll(NOW + 2)
    assert [each.id for each in ledger.ledgers] == [10, 13]
    assert topic().terminate(NOW) == (10, -1)


def test_readers_share_an_entry() -> None:
    ledger = topic()
    written = ledger.append(b"m", NOW)
    assert ledger.read(0, 1, 1)[0] is written
    assert ledger.entry(0) is written


def test_entries_are_evicted_by_bytes_and_read_from_storage() -> None:
    ledger = topic(cache=EntryCache(limit=100_000))
    written = [ledger.append(bytes(1000), NOW) for _ in range(1000)]
    kept = {**ledger.old_entries, **ledger.young_entries}
    assert 60 <= len(kept) <= 130
    assert kept == {entry.offset: entry for entry in written[-len(kept) :]}
    again = ledger.entry(0)
    assert again is not None
    assert again.data == bytes(1000)
    assert ledger.read(0, 1, 1)[0] is again


def test_a_deleted_topic_leaves_the_cache() -> None:
    cache = EntryCache()
    ledger = topic(cache=cache)
    ledger.append(b"x" * 100, NOW)
    ledger.close()
    assert (cache.size, cache._young_ledgers, cache._old_ledgers) == (0, {}, {})


def test_an_idle_topic_loses_its_cache_to_busy_ones() -> None:
    cache = EntryCache(limit=10_000)
    resting, busy = topic(cache=cache), topic(cache=cache)
    resting.append(b"m", NOW)
    for _ in range(100):
        busy.append(b"m", NOW)
    assert not resting.young_entries
    assert not resting.old_entries


def test_a_read_ends_at_its_size_limit() -> None:
    ledger = topic()
    for _ in range(10):
        ledger.append(bytes(100), NOW)
    assert [len(ledger.read(0, 10, size)) for size in (0, 99, 100, 250, 1000)] == [1, 1, 1, 2, 10]
    assert len(ledger.read(8, 10, 1000)) == 2


def test_the_newest_entry_before_a_time() -> None:
    ledger = topic()
    times = [100, 100, 200, 300, 300, 300, 400]
    for time in times:
        ledger.append(block(time), NOW)
    for asked in range(50, 450, 50):
        assert ledger.newest_before(asked) == sum(time < asked for time in times) - 1
    assert topic().newest_before(100) == -1


@pytest.mark.parametrize(
    ("times", "target", "newest"),
    [
        ((10, 30, 20, 40), 25, 2),
        ((0, 10, 20, 30, 10, 0, 0, 70, 70), 25, 6),
        ((0, 40, 30, 60, 40, 60, 70), 45, 2),
        ((0, 20, 10, 20, 30, 70, 80), 15, 0),
        ((0, 80, 20, 10, 50), 25, 3),
        ((0, 70, 40, 0, 50, 40, 20, 30, 80), 25, 0),
        ((0, 0, 40, 50, 40, 0, 20, 60, 70), 35, 1),
        ((0, 80, 10, 0, 70), 55, 3),
        ((0, 0, 40, 20, 0, 0, 30), 25, 5),
    ],
)
def test_times_out_of_order(times: tuple[int, ...], target: int, newest: int) -> None:
    """The results of a real 4.2.4 broker after a reset of the cursor to the target."""
    ledger = topic()
    for time in times:
        ledger.append(block(time), NOW)
    assert ledger.newest_before(target) == newest


def test_the_brokers_time_takes_precedence_over_the_clients() -> None:
    ledger = topic()
    for entry in (block(900, 100), block(50, 200), block(10, 300)):
        ledger.append(entry, NOW)
    assert [timestamp(entry) for entry in ledger.read(0, 3, 1 << 20)] == [100, 200, 300]
    assert ledger.newest_before(250) == 1


def test_unreadable_metadata_is_never_before() -> None:
    ledger = topic()
    ledger.append(b"\x00\x00\x00\x02\xff\xff", NOW)
    assert ledger.newest_before(1 << 60) == -1


def rolled(*counts: int) -> ManagedLedger:
    """Create closed ledgers with these numbers of entries of 1 MB, closed one minute apart, and an empty one."""
    ledger = topic(memory=0)
    for number, count in enumerate(counts, 1):
        for _ in range(count):
            ledger.append(bytes(1024 * 1024), NOW)
        ledger.roll(NOW + number * MINUTE)
    return ledger


@pytest.mark.parametrize(
    ("slowest", "minutes", "megabytes", "first"),
    [
        (5, 0, 0, 6),
        (4, 0, 0, 3),
        (2, 0, 0, 3),
        (1, 0, 0, 0),
        (-1, 0, 0, 0),
        (None, 0, 0, 6),
        (None, -1, -1, 0),
        (None, 8, -1, 3),
        (None, 7, -1, 6),
        (None, 9, -1, 0),
        (None, -1, 3, 3),
        (None, -1, 4, 0),
        (None, 100, 2, 3),
        (None, 8, 100, 3),
    ],
)
def test_consumed_unretained_ledgers_are_deleted(slowest: int | None, minutes: int, megabytes: int, first: int) -> None:
    """Create two ledgers of three entries, closed nine and eight minutes ago."""
    ledger = rolled(3, 3)
    last_deleted = ledger.position(first - 1)
    ledger.trim(slowest, minutes, megabytes, NOW + 10 * MINUTE)
    assert ledger.first == first
    assert ledger.total_size == (6 - first) * 1024 * 1024
    assert ledger.entry(first - 1) is None
    assert [entry.offset for entry in ledger.read(0, 10, 1 << 30)] == list(range(first, 6))
    assert ledger.position(first - 1) == last_deleted
    assert [each.base for each in ledger.ledgers] == [base for base in (0, 3, 6) if base >= first]


def test_the_last_ledger_is_never_deleted() -> None:
    ledger = two_ledgers()
    ledger.terminate(NOW)
    ledger.trim(None, 0, 0, NOW + 1000 * MINUTE)
    assert (ledger.first, ledger.next) == (3, 5)
    assert [each.id for each in ledger.ledgers] == [13]
    assert ledger.offset_of(10, 0) is None
    assert ledger.next_valid(10, 1) == 3


moves = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from([0, 1, 50, 300, 5000])),
        st.tuples(st.just("append run"), st.integers(1, 9)),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("trim"), st.integers(0, 60)),
        st.tuples(st.just("read"), st.integers(0, 60)),
    ),
    max_size=120,
)


@given(moves, st.sampled_from([0, 2000, 1 << 30]), st.sampled_from([0, 3000, 1 << 30]))
def test_a_ledger_behaves_like_a_list(moves: list[tuple[str, int]], memory: int, cache: int) -> None:
    ledger = topic(memory=memory, cache=EntryCache(cache))
    truth: list[tuple[int, int, bytes]] = []
    last_deleted = None
    for move, value in moves:
        if move == "append":
            data = len(truth).to_bytes(4, "big") + bytes(value)
            entry = ledger.append(data, NOW)
            truth.append((entry.ledger_id, entry.entry_id, data))
        elif move == "append run":
            blocks = [(len(truth) + number).to_bytes(4, "big") + bytes(70 * number) for number in range(value)]
            while blocks:  # a run ends at the end of a ledger
                stored = ledger.append_run(blocks, NOW)
                truth += [(entry.ledger_id, entry.entry_id, entry.data) for entry in stored]
                assert [entry.data for entry in stored] == blocks[: len(stored)]
                del blocks[: len(stored)]
        elif move == "roll":
            ledger.roll(NOW)
            last_deleted = None
        elif move == "trim":
            before = ledger.first
            ledger.trim(value, 0, 0, NOW)
            assert before <= ledger.first <= max(before, value + 1)
            if ledger.first > before:
                last_deleted = truth[ledger.first - 1][:2]
        else:
            got = [(entry.ledger_id, entry.entry_id, entry.data) for entry in ledger.read(value, 9, 1 << 30)]
            begin = max(value, ledger.first)
            assert got == truth[begin : begin + 9]
    assert ledger.next == len(truth)
    assert sorted({place[:2] for place in truth}) == [place[:2] for place in truth]
    for offset, (ledger_id, entry_id, _) in enumerate(truth):
        there = offset >= ledger.first
        assert ledger.offset_of(ledger_id, entry_id) == (offset if there else None)
        assert ledger.next_valid(ledger_id, entry_id) == max(offset, ledger.first)
        assert ledger.position(offset) == (
            (ledger_id, entry_id) if there else last_deleted or (ledger.ledgers[0].id, -1)
        )
    assert ledger.total_size == sum(len(data) for *_, data in truth[ledger.first :])
    ledger.close()
    assert ledger.read(0, 9, 1) == []
