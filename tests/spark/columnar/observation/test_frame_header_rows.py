"""Rows of frames for any positions of their bytes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, Stream
from pcli.codec.capture.frames import START
from pcli.codec.observe.tracking.subscriptions.dead_letters import is_marked
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.frame import SEND
from pcli.spark.columnar.observation.connection_ties import TIES, ties_of
from pcli.spark.columnar.observation.frame_header_rows import HEADS, dead_letters, to_heads
from pcli.spark.columnar.observation.observe_group import observe

BYTES = ("command_end", "metadata_start", "metadata_end", "name_start", "name_end", "key_start", "key_end")


def scattered(frames, rng):
    """Return the same frames with their bytes in a different order and with other bytes between them."""
    places = frames.places
    data, starts = bytearray(), np.zeros(len(frames), np.int64)
    for row in rng.permutation(len(frames)).tolist():
        data += rng.bytes(rng.integers(5))
        starts[row] = len(data)
        data += places.data[places.start[row] : places.start[row] + places.kept[row]].tobytes()
    moved = starts - places.start
    columns = {name: np.where(getattr(frames, name) >= 0, getattr(frames, name) + moved, -1) for name in BYTES}
    elsewhere = replace(places, data=np.frombuffer(bytes(data), np.uint8), start=starts)
    return replace(frames, places=elsewhere, **columns)


def test_bytes_in_any_order(recordings, rows_of_items):
    rng = np.random.default_rng(1)
    for _, (name, items) in zip(range(12), recordings()):
        rows = rows_of_items(items)
        wanted = to_heads(rows.frames, rows.numbers)
        moved = scattered(rows.frames, rng)
        assert (np.diff(moved.places.start) < 0).any()
        assert to_heads(moved, rows.numbers).equals(wanted), name
        assert ties_of(moved, rows.numbers).equals(rows.ties), name


def test_offsets_above_32_bits(recordings, rows_of_items):
    """The pool of a window can be this long; pages of zeros use no memory."""
    _, items = next(recordings())
    rows = rows_of_items(items)
    frames, places = rows.frames, rows.frames.places
    data = np.zeros((1 << 31) + len(places.data), np.uint8)
    data[1 << 31 :] = places.data
    columns = {name: np.where((one := getattr(frames, name)) >= 0, one + (1 << 31), -1) for name in BYTES}
    moved = replace(frames, places=replace(places, data=data, start=places.start + (1 << 31)), **columns)
    assert len(frames)
    assert to_heads(moved, rows.numbers).equals(to_heads(frames, rows.numbers))
    assert ties_of(moved, rows.numbers).equals(rows.ties)


def test_no_frames(recordings, rows_of_items):
    _, items = next(recordings())
    rows = rows_of_items(list(items[:0]))
    assert (rows.heads.num_rows, rows.heads.schema) == (0, HEADS)
    assert (rows.ties.num_rows, rows.ties.schema) == (0, TIES)
    tables = observe([rows.heads], rows.recording)
    assert tables["findings"].num_rows == tables["consumers"].num_rows == 0


def test_shared_facts_can_be_pickled(recordings, rows_of_items):
    for _, (name, items) in zip(range(5), recordings()):
        rows = rows_of_items(items)
        sent = pickle.loads(pickle.dumps(rows.recording))
        assert sent == rows.recording, name
        assert sent.capture.frames == len(rows.numbers)


ENTRIES = st.tuples(
    st.sampled_from([{}, {"entry_hash_min": 0, "entry_hash_max": 0}, {"entry_hash_min": 4, "entry_hash_max": 40_000}]),
    st.sampled_from(["", "REAL_TOPIC", "REAL_TOPI"]),
    st.sampled_from([b"", b"REAL_TOPIC", b"aREAL_TOPICb", b"REAL_TOPI", b"x" * 600 + b"REAL_TOPIC"]),
)
"""Fields of the metadata, the name of a property (none if empty), and the payload."""


@settings(max_examples=50, deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=6))
def test_dead_letters_are_the_marked_sends(rows_of_items, entries):
    stream, frames = Stream(0, ("c", 1), ("s", 6650), midstream=True), []
    for number, (fields, name, payload) in enumerate(entries, 1):
        properties = [pb.KeyValue(key=name, value="t")] if name else []
        metadata = pb.MessageMetadata(
            producer_name="p", sequence_id=number, publish_time=7, properties=properties, **fields
        )
        data = push_frame(pb.CommandSend(producer_id=1, sequence_id=number), push_entry(metadata, payload))
        frames.append(CapturedFrame(data, SEND, number, number, number, stream, True, 0, START))
    found = dead_letters(rows_of_items(frames).frames).tolist()
    assert found == [row for row, frame in enumerate(frames) if is_marked(frame)]
