"""Rows of frames for any positions of their bytes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np

from pcli.spark.columnar.observation.connection_ties import TIES, ties_of
from pcli.spark.columnar.observation.frame_header_rows import HEADS, to_heads
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
