"""Splits that are read independently and merged equal `read_capture`, for all boundaries."""

from __future__ import annotations

import io
import itertools
import pickle
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, Note, Packet, PcapngWriter, ReadOptions, fast_path, read_capture
from pcli.codec.capture.frames import Stream, StreamEnd
from pcli.codec.capture.reading import opened
from pcli.codec.proto import pb
from pcli.codec.wire.hot import push_send, push_send_receipt
from pcli.spark.columnar.frame_columns import Places
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.split_merge.connection_chains import (
    ChainResult,
    EarlierPackets,
    RereadResult,
    chain,
    context_of,
)
from pcli.spark.columnar.split_merge.merge import merge_splits
from pcli.spark.columnar.split_merge.merge_results import MergedSplits
from pcli.spark.columnar.split_merge.reader_state import earlier_packets, reader_state
from pcli.spark.columnar.split_merge.reread_split import reread_split
from pcli.spark.columnar.split_merge.split_reader import ConnectionSpan, EdgeReader, SplitEdges, with_file_notes
from tests.codec.capture.foreign_traffic import BOTH_GAPS, CONNECTIONS, Foreign
from tests.spark.columnar.read_windows import windows
from tests.spark.columnar.split_merge.random_traffic import ACK, Life, Storm, parts
from tests.step_budget import step_budget

OPTIONS = ReadOptions(ends=True)
SYNC = ("start", "anchored", "resync")
Row = tuple[Any, ...]


@dataclass
class Piece:
    """A split: its windows, and the notes about its file."""

    part: int
    records: list[Records]
    notes: list[Note] = field(default_factory=list)


def sliced(records: Records, start: int, end: int) -> Records:
    rows = slice(start, end)
    columns = (records.start, records.end, records.wire, records.time_ns, records.face)
    return Records(records.data, *(column[rows] for column in columns), records.interfaces)


def binary_array(files: Sequence[bytes], every: Iterator[int]) -> list[Piece]:
    """Return the files as splits of this number of packets; a split belongs to one file."""
    out: list[Piece] = []
    for part, (_, source, _) in enumerate(opened([("", io.BytesIO(data)) for data in files])):
        assert source is not None
        out.append(Piece(part, []))
        left = next(every)
        for item in windows("", source, 50_000):
            if isinstance(item, Note):
                out[-1].notes.append(item)
                continue
            at = 0
            while at < len(item):
                if not left:
                    out.append(Piece(part, []))
                    left = next(every)
                size = min(left, len(item) - at)
                out[-1].records.append(sliced(item, at, at + size))
                at, left = at + size, left - size
    return out


@dataclass
class Result:
    rows: list[Row]
    merged_splits: MergedSplits
    orders: int
    kept: int
    """Number of rows of the splits up to the state."""
    state: fast_path.Reader
    """The state of a reader after these splits."""


NOTHING = EarlierPackets()


def apart(
    pieces: list[Piece], options: ReadOptions = OPTIONS, earlier: EarlierPackets = NOTHING, kept: int = 0
) -> Result:
    """Read each split alone, and merge them; all transferred values are pickled.

    The state after ``kept`` splits is kept.
    """
    places: list[list[Places]] = []
    edges: list[SplitEdges] = []
    for index, piece in enumerate(pieces):
        reader = EdgeReader(options, first=not index and not earlier.packets)
        places.append([reader.take(records) for records in piece.records])
        for note in piece.notes:
            reader.note(note)
        edges.append(pickle.loads(pickle.dumps(reader.close())))
    parts = [piece.part for piece in pieces]
    edges = with_file_notes(edges, parts, [""] * len(parts))
    context = context_of(options, edges, earlier, [kept])
    keys: dict[bytes, list[tuple[int, ConnectionSpan]]] = {key: [] for key in earlier.connections}
    for index, one in enumerate(edges):
        for span in one.spans:
            keys.setdefault(span.key, []).append((index, span))
    reread: dict[bytes, dict[int, RereadResult]] = {key: {} for key in keys}
    chained: dict[bytes, ChainResult] = {}
    orders = 0
    while left := [key for key in keys if key not in chained or chained[key].order is not None]:
        for key in left:
            result = chain(keys[key], context, reread[key], earlier.connections.get(key, b""))
            chained[key] = pickle.loads(pickle.dumps(result))
        again = [one.order for one in chained.values() if one.order is not None]
        orders += len(again)
        for split in {order.split for order in again}:
            mine = [order for order in again if order.split == split]
            for done in pickle.loads(pickle.dumps(reread_split(mine, context, pieces[split].records))):
                reread[done.key][split] = done
    merged_splits = merge_splits(context, edges, parts, list(chained.values()), earlier)
    starts = {stream.opening[0]: stream.number for stream in merged_splits.streams}
    states = [pickle.loads(state) for one in chained.values() for state in one.states if state]
    for one in states:
        one.connection.stream.number = starts[one.connection.stream.number]
    begun = sorted(born for born in starts if born <= context.packets[kept])
    state = reader_state(options, states, begun, context.packets[kept], context.fed[kept])
    rows = rows_of(merged_splits, places)
    return Result([*itertools.chain(*rows)], merged_splits, orders, sum(map(len, rows[:kept])), state)


def rows_of(merged_splits: MergedSplits, places: list[list[Places]]) -> list[list[Row]]:
    """Return the frames, notes and ends that each split and the end of the recording yield."""
    out: list[list[Row]] = []
    for joined, mine in zip((*merged_splits.splits, merged_splits.ending), (*places, []), strict=True):
        turn = np.concatenate([np.zeros(0, np.int64), *(one.turn for one in mine)])
        stream = np.concatenate([np.zeros(0, np.int64), *(one.stream for one in mine)])
        numbers, others = joined.numbers(turn, stream)
        keyed: list[tuple[tuple[int, int, bool], Row]] = []
        row = 0
        for one in mine:
            renamed = joined.renaming.places(one)
            for index in range(len(one)):
                if numbers[row] >= 0:
                    keyed.append(((int(renamed.turn[index]), row, True), _row(renamed, index, int(numbers[row]))))
                row += 1
        for extra, number in zip(joined.extra, others.tolist(), strict=True):
            framed = isinstance(extra.item, CapturedFrame)
            keyed.append(((extra.turn, extra.place, False), plain(extra.item, number if framed else 0)))
        keyed.sort(key=lambda entry: entry[0])
        out.append([one for _, one in keyed])
    return out


def _row(places: Places, row: int, number: int) -> Row:
    start, kept = int(places.start[row]), int(places.kept[row])
    data = places.data[start : start + kept].tobytes()
    columns = (places.packet, places.first_packet, places.time_ns, places.stream)
    told = (bool(places.from_client[row]), int(places.offset[row]), SYNC[places.sync[row]])
    return ("frame", number, data, *(int(column[row]) for column in columns), *told, places.trouble.get(row, ()))


def plain(item: CapturedFrame | Note | StreamEnd, number: int = 0) -> Row:
    if isinstance(item, CapturedFrame):
        frame = (item.data, item.packet, item.packets[0], item.time_ns, item.stream.number)
        told = (item.from_client, item.offset, item.sync, item.capture_problems)
        return ("frame", number or item.number, *frame, *told)
    stream = item.stream.number if item.stream is not None else None
    if isinstance(item, Note):
        where = (item.from_client, item.offset, item.length, item.source)
        return ("note", item.kind, item.text, item.packet, stream, *where)
    return ("end", stream, item.packet, item.time_ns, item.from_client, item.reset, item.refused, item.silent)


def in_batches(batches: list[list[Piece]], chance: random.Random, options: ReadOptions = OPTIONS) -> list[Row]:
    """Read each batch by one reader or in splits, from the pickled state after the previous batch.

    Splits may also contain the next batch, which is read again from the state before it.
    """
    out: list[Row] = []
    ending: list[Row] = []
    frames, data, streams = 0, pickle.dumps(WindowReader(options).fast), dict[int, Stream]()
    for batch, following in zip(batches, [*batches[1:], []], strict=True):
        state: fast_path.Reader = pickle.loads(data)
        if chance.random() < 0.5:
            reader = WindowReader(options, state)
            reader.begin_file()
            rows = by_reader(reader, batch, frames)
            data, streams = pickle.dumps(reader.fast), streams | pickle.loads(pickle.dumps(reader.streams))
            frames += sum(row[0] == "frame" for row in rows)
            ending = reader_rows(reader.end(), reader.notes, frames)
        else:
            pieces = [*batch, *(following if chance.random() < 0.5 else ())]
            result = apart(pieces, options, earlier_packets(state, frames, streams), len(batch))
            rows, ending = result.rows[: result.kept], result.rows[result.kept :]
            frames += sum(row[0] == "frame" for row in rows)
            count = result.state.tcp.table.count
            data, streams = pickle.dumps(result.state), dict(enumerate(result.merged_splits.streams[:count]))
        out += rows
    return out + ending


def by_reader(reader: WindowReader, pieces: list[Piece], frames: int) -> list[Row]:
    rows: list[Row] = []
    for piece in pieces:
        for records in piece.records:
            found = reader.take(records)
            rows += reader_rows(found, reader.notes, frames)
            frames += len(found)
        rows += [plain(replace(note, packet=reader.packet)) for note in piece.notes]
    return rows


def reader_rows(places: Places, notes: Sequence[tuple[int, Any]], frames: int) -> list[Row]:
    keyed = [((row, 1), _row(places, row, frames + row + 1)) for row in range(len(places))]
    keyed += [((row, 0), plain(item)) for row, item in notes]
    return [one for _, one in sorted(keyed, key=lambda entry: entry[0])]


def expected(files: Sequence[bytes], options: ReadOptions = OPTIONS) -> tuple[list[Row], list[Row]]:
    """Return the rows, and the streams by number."""
    items = list(read_capture([("", io.BytesIO(data)) for data in files], options))
    streams = {item.stream.number: item.stream for item in items if item.stream is not None}
    return [plain(item) for item in items], [streams_row(streams[number]) for number in sorted(streams)]


def streams_row(stream: Any) -> Row:
    return stream.number, stream.client, stream.server, stream.midstream, stream.opening, stream.kind, stream.bases


def check(files: Sequence[bytes], every: Iterator[int], options: ReadOptions = OPTIONS) -> int:
    """Assert that both results are equal; return the number of splits read again."""
    rows, streams = expected(files, options)
    result = apart(binary_array(files, every), options)
    for number, (mine, theirs) in enumerate(zip(result.rows, rows)):
        assert mine == theirs, number
    assert len(result.rows) == len(rows)
    found = {row[0]: row for row in map(streams_row, result.merged_splits.streams)}
    assert [found[row[0]] for row in streams] == streams
    return result.orders


def sizes(seed: int, most: int) -> Iterator[int]:
    chance = random.Random(seed)
    while True:
        yield chance.randint(1, most)


# -- traffic -------------------------------------------------------------------------------------------------------

WEATHERS: dict[str, dict[str, float]] = {
    "fair": {},
    "hostile": {"hostile": 1, "big": 0},
    "hostile and lossy": {"hostile": 0.8, "loss": 0.02},
    "lossy": {"loss": 0.1},
    "out of order": {"swap": 0.1},
    "retransmitted": {"again": 0.1, "other": 0.5},
    "everything": {"again": 0.05, "other": 0.3, "swap": 0.05, "loss": 0.03, "close": 3},
    "cut": {"cut": 0.3},
    "no Pulsar": {"plain": 1, "close": 2},
    "begun earlier": {"midstream": 1},
    "ports again": {"ports": 1, "close": 4},
    "many": {"ports": 20, "close": 2},
    "large": {"big": 0.5},
}


@pytest.mark.slow
@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("most", [3, 15, 60, 400])
def test_any_traffic_cut_anywhere(weather: str, most: int) -> None:
    storm = Storm(list(WEATHERS).index(weather) * 10 + most, 300, WEATHERS[weather])
    check([storm.capture()], sizes(most, most))


@pytest.mark.slow
@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("most", [3, 15, 60, 400])
def test_batches_of_splits_continue_the_state_of_a_reader(weather: str, most: int) -> None:
    """A batch may end within a frame, a segment queue or a handshake."""
    chance = random.Random(most)
    storm = Storm(list(WEATHERS).index(weather) * 10 + most, 300, WEATHERS[weather])
    for _ in range(3):
        cuts = (chance.randrange(len(storm.packets)) for _ in range(chance.randrange(1, 6)))
        files = parts(storm, sorted({0, *cuts, len(storm.packets)}))
        rows, _ = expected(files)
        batches = itertools.groupby(binary_array(files, sizes(most, most)), lambda piece: piece.part)
        found = in_batches([list(batch) for _, batch in batches], chance)
        for number, (mine, theirs) in enumerate(zip(found, rows)):
            assert mine == theirs, number
        assert len(found) == len(rows)


@settings(max_examples=40)
@example(BOTH_GAPS, 7)
@given(CONNECTIONS, st.integers(3, 60))
def test_the_work_for_each_packet_of_foreign_traffic_is_limited(talks: Any, most: int) -> None:
    file, packets = io.BytesIO(), Foreign(talks).packets
    writer = PcapngWriter(file)
    for packet in packets:
        writer.packet(packet)
    with step_budget(10_000 * (len(packets) + 10)):
        check([file.getvalue()], sizes(most, most))


def test_a_split_misled_by_frames_in_payloads_is_read_again() -> None:
    """A split that begins inside such a payload finds frames in it; the true state shows that they are not frames."""
    inner = b"".join(push_send_receipt(1, number, 77, number, 0) for number in range(400))
    tape = Storm(1, 0, {})
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
    lifecycle = Life(tape, 40_000)
    lifecycle.plain, lifecycle.lonely, lifecycle.state = False, False, 0
    while lifecycle.state < 3:
        lifecycle._handshake()
    lifecycle.queue[0] += b"".join(push_send(1, number, 1, 0, metadata, inner) for number in range(4))
    while any(lifecycle.queue):
        for side in (0, 1):
            lifecycle._add_connection(side, ACK, lifecycle.queue[side][:1000])
            lifecycle.queue[side] = lifecycle.queue[side][1000:]
    assert check([tape.capture()], itertools.repeat(20)) > 1


def test_ordinary_traffic_is_not_read_again() -> None:
    storm = Storm(5, 3000, {"hostile": 0, "midstream": 0, "plain": 0, "close": 0, "big": 0})
    assert check([storm.capture()], itertools.repeat(250)) == 0


def test_packets_of_unknown_link_types_are_counted_in_all_splits() -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for number, data in enumerate(Storm(3, 100, {}).packets):
        writer.packet(Packet(number, number, 127 if number % 3 else 1, data, len(data)))
    check([file.getvalue()] * 2, sizes(1, 20))


def test_parts_of_a_recording_and_a_damaged_one(small_captures: Path) -> None:
    whole = Storm(7, 600, {"cut": 0.1})
    files = parts(whole, (0, 200, 401, 600))
    files[1] = files[1][:-30]
    for most in (10, 100, 1000):
        check(files, sizes(most, most))


def test_the_corpus_cut_anywhere(small_captures: Path) -> None:
    paths = sorted(path for path in small_captures.rglob("*.pcap*") if path.stat().st_size < 200_000)
    assert len(paths) > 10
    for number, path in enumerate(paths[::3]):
        check([path.read_bytes()], sizes(number, (3, 20, 200)[number % 3]))


def test_numbers_equal_those_of_one_reader_in_any_order_of_calls(small_captures: Path) -> None:
    """Chains may run in any order and any number of times."""
    storm = Storm(11, 300, WEATHERS["everything"])
    pieces = binary_array([storm.capture()], sizes(1, 40))
    assert apart(pieces).rows == apart(pieces).rows
