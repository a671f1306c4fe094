"""Frames converted to rows and back are equal for an observer."""

from __future__ import annotations

import struct

import pytest

from pcli.codec.capture import CapturedFrame
from pcli.codec.capture.frames import START, Stream
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.tracking.subscriptions.dead_letters import is_marked
from pcli.codec.wire.frame import SEND, Frame
from pcli.codec.wire.hot import push_varint
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent
from pcli.spark.columnar.observation.frame_header_rows import FRAME
from pcli.spark.columnar.observation.frames_from_rows import HeadFrame, from_heads

PARTS = (
    "command_start", "command_end", "entry_start", "entry_end", "checksum", "checked_start", "metadata_start",
    "metadata_end", "payload_start", "payload_end", "problems",
)  # fmt: skip
FIELDS = (
    "number", "time_ns", "from_client", "type", "sync", "length", "missing", "capture_problems", "checksum",
)  # fmt: skip


def back(rows):
    ordered = rows.heads.sort_by([("place", "ascending"), ("order", "ascending")])
    return list(from_heads([ordered]))


def known(facts):
    peer = facts.peer
    about = None if peer is None else (peer.id, peer.topic, peer.name, peer.system)
    request = None if facts.request is None else facts.request.number
    return facts.frame.command, about, request, facts.request_number, facts.latency_ns, facts.system


def walked(facts):
    return facts.command, facts.metadata, facts.entry


def test_every_frame_of_the_corpus(recordings, rows_of_items):
    seen = cut = bad = 0
    for name, items in recordings():
        wanted = [one for one in items if isinstance(one, CapturedFrame)]
        found = [one for one in back(rows_of_items(items)) if isinstance(one, HeadFrame)]
        assert len(found) == len(wanted)
        one_way, other = Observer(), Observer()
        for one, frame in zip(found, wanted, strict=True):
            assert [getattr(one, field) for field in FIELDS] == [getattr(frame, field) for field in FIELDS], name
            assert [getattr(one.parts, part) for part in PARTS] == [getattr(frame.parts, part) for part in PARTS], name
            mine, theirs = one_way.see(one), other.see(frame)
            assert known(mine) == known(theirs), name
            if seen % 8 == 0:  # parsing all fields is slow
                assert walked(mine) == walked(theirs), name
            seen += 1
            cut += frame.missing > 0
            bad += frame.checksum == "bad"
    assert seen > 20_000
    assert cut > 50
    assert bad


def test_payloads_stay_where_they_are_but_those_of_dead_letters(recordings, rows_of_items):
    letters = 0
    for _, items in recordings():
        wanted = {one.number: one for one in items if isinstance(one, CapturedFrame)}
        for one in back(rows_of_items(items)):
            if isinstance(one, HeadFrame) and one.parts.payload_start >= 0:
                frame = wanted[one.number]
                parts = frame.parts
                if frame.type == SEND and is_marked(frame):
                    assert one.payload == frame.payload
                    letters += 1
                elif frame.payload:
                    assert len(one.data) <= max(parts.metadata_end, parts.command_end + 10)
    assert letters


def test_notes_and_ends_keep_their_positions(recordings, rows_of_items):
    compared = 0
    for name, items in recordings():
        after = last_ns = 0
        wanted = []
        for one in items:
            if isinstance(one, CapturedFrame):
                after, last_ns = one.number, one.time_ns
            elif one.stream is not None:
                wanted.append((after, last_ns, type(one), one.packet, one.stream.number, one.from_client))
        found = [
            (one.after, one.last_ns, type(one.item), one.item.packet, one.item.stream.number, one.item.from_client)
            for one in back(rows_of_items(items))
            if isinstance(one, RecordingEvent)
        ]
        assert found == wanted, name
        compared += len(found)
    assert compared > 300


def test_a_frame_needs_the_row_of_its_connection(recordings, rows_of_items):
    _, items = next(recordings())
    heads = rows_of_items(items).heads
    frames = heads.filter(heads.column("kind").to_numpy() == FRAME)
    with pytest.raises(KeyError):
        list(from_heads([frames]))


@pytest.mark.parametrize("number", [127, 128, 1 << 31, 1 << 32 | SEND, 1 << 63, (1 << 64) - 100, (1 << 64) - 1])
def test_unknown_types(rows_of_items, number):
    command = b"\x08" + push_varint(number)
    data = struct.pack(">II", 4 + len(command), len(command)) + command
    stream = Stream(0, ("10.0.0.1", 40_000), ("10.0.0.2", 6650), midstream=False)
    whole, cut = (CapturedFrame(one, Frame.of(one).type, 1, 1, 1, stream, True, 0, START) for one in (data, data[:9]))
    for frame in (whole, cut):
        [one] = back(rows_of_items([frame]))
        assert [getattr(one, field) for field in FIELDS] == [getattr(frame, field) for field in FIELDS]
        assert one.problems == frame.problems
        assert known(Observer().see(one)) == known(Observer().see(frame))
