"""No damage of a frame ends the observation of a capture."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.capture.frames import Stream
from pcli.codec.observe import Observer, flatten, observer_state, problems_of
from pcli.codec.observe.fields import general_fields
from pcli.codec.observe.output.frame_summary import describe
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame

MAX_FRAMES = 200
"""Frames of each capture."""


@pytest.fixture(scope="module")
def frames(captures):
    found = []
    for path in sorted(captures.glob("*/*.pcap*")):
        with path.open("rb") as file:
            events = read_capture([(path.name, file)])
            found += islice((one for one in events if isinstance(one, CapturedFrame)), MAX_FRAMES)
    return found


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return a frame with other bytes after its length, or without its end."""
    changed = bytearray(data)
    for _ in range(draw.choice([0, 1, 1, 2, 4])):
        changed[draw.randrange(4, len(changed))] = draw.choice([0, 1, 2, 127, 128, 255, draw.randrange(256)])
    return bytes(changed[: draw.randrange(8, len(changed))] if draw.random() < 0.3 else changed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_damaged_frames(frames, seed):
    draw, observer, tracker, streams = random.Random(seed), Observer(), Tracker(), {}
    for number, frame in enumerate(frames, start=1):
        old = frame.stream
        stream = streams.setdefault(
            old.number, Stream(old.number, old.client, old.server, midstream=draw.random() < 0.3)
        )
        data = damaged(frame.data, draw)
        place = (number, number, frame.time_ns, stream, frame.from_client, 0, "start")
        facts = observer.see(CapturedFrame(data, Frame.of(data).type, *place))
        tracker.see(facts)
        describe(facts)
        problems_of(facts)
        flatten(facts)
    tracker.finish()
    assert list(tracker.records())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_layouts_change_no_result(frames, seed, monkeypatch):
    """Every frame, whole and damaged, has the same problems and values if no message has a known layout."""

    def results() -> list[tuple[object, ...]]:
        draw, observer, found = random.Random(seed), Observer(), []
        for frame in frames:
            old = frame.stream
            place = (frame.number, frame.packet, frame.time_ns, old, frame.from_client, 0, "start")
            for data in (frame.data, damaged(frame.data, draw)):
                facts = observer.see(CapturedFrame(data, Frame.of(data).type, *place))
                found.append((problems_of(facts), describe(facts), list(flatten(facts).items())))
        return found

    with_layouts = results()
    for module in (observer_state, general_fields):
        monkeypatch.setattr(module, "layout_of", lambda *_: None)
    assert with_layouts == results()


def test_the_summary_of_a_receipt_with_half_an_id(conversation):
    receipt = b"\x08\x07\x3a\x08\x08\x01\x10\x02\x1a\x02\x08\x05"
    data = (len(receipt) + 4).to_bytes(4, "big") + len(receipt).to_bytes(4, "big") + receipt
    assert describe(conversation.broker(data)).endswith("seq 2  ?")


def test_an_id_nested_in_a_nested_id_is_no_problem(conversation):
    """The decoder keeps the third level as bytes, but its field is known."""
    inner = pb.MessageIdData(ledgerId=1, entryId=1)
    for _ in range(2):
        inner = pb.MessageIdData(ledgerId=1, entryId=1, first_chunk_message_id=inner)
    assert problems_of(conversation.client(pb.CommandAck(consumer_id=1, ack_type=0, message_id=[inner]))) == []
