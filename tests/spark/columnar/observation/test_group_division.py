"""Separate observation of connections and topics, compared with a single Tracker."""

from __future__ import annotations

import random

import pytest

from pcli.codec.capture import CapturedFrame, Stream
from pcli.codec.proto import pb
from pcli.codec.wire import Frame, push_frame
from pcli.codec.wire.build import push_entry
from pcli.spark.columnar.observation.observation_schemas import TABLES

SECOND = 1_000_000_000


def said(tables, findings):
    """Return all rows of all tables in a comparable order."""
    rows = {name: sorted(str(row) for batch in tables[name] for row in batch.to_pylist()) for name in TABLES}
    return rows | {"findings": sorted(str(row) for row in findings.to_pylist())}


def differing(rows, size=1):
    """Return the tables that differ from undivided groups, and the number of parts."""
    division, tables, findings = rows.divided(size)
    found, wanted = said(tables, findings), said(*rows.observed(rows.groups()))
    return [name for name in wanted if found[name] != wanted[name]], division.size


@pytest.mark.slow
def test_every_capture_divided_as_far_as_it_can_be(recordings, rows_of_items):
    several = 0
    for name, items in recordings():
        wrong, parts = differing(rows_of_items(items))
        assert not wrong, name
        several += parts > 2
    assert several > 80


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_captures_in_one_recording(recordings, rows_of_items, join, apart):
    everything = list(recordings())
    rng = random.Random(11)
    for seed in range(3):
        names, chosen = zip(*rng.sample(everything, 10))
        for size in (1, 3_000):
            assert differing(rows_of_items(join(chosen, seed, apart=apart)), size)[0] == [], names


CLIENT, PROXY, BROKER = ("10.0.0.1", 40_000), ("10.0.0.5", 6650), ("10.0.0.2", 6650)


class Capture:
    """Return frames, one per second. Each connection has a producer of one topic and a consumer of the next."""

    def __init__(self):
        self.items = []

    def say(self, stream, body, entry=b"", *, back=False):
        number, data = len(self.items) + 1, push_frame(body, entry)
        place = (number, number, 10**18 + number * SECOND, stream, not back, 0, "start", ())
        self.items.append(CapturedFrame(data, Frame.of(data).type, *place))
        return number

    def connect(self, *streams):
        """Add CONNECT and CONNECTED, on one connection or on both connections of a proxied conversation."""
        for stream in streams:
            self.say(stream, pb.CommandConnect(client_version="t", protocol_version=21))
        for stream in reversed(streams):
            self.say(stream, pb.CommandConnected(server_version="t", protocol_version=21), back=True)

    def open(self, *streams):
        for body, back in (
            (pb.CommandSubscribe(topic="a", subscription="s", subType=0, consumer_id=1, request_id=1), False),
            (pb.CommandSuccess(request_id=1), True),
            (pb.CommandFlow(consumer_id=1, messagePermits=100), False),
            (pb.CommandProducer(topic="b", producer_id=1, request_id=2, producer_name="p"), False),
            (pb.CommandProducerSuccess(request_id=2, producer_name="p"), True),
        ):
            for stream in streams:
                self.say(stream, body, back=back)

    def send(self, stream, sequence_id):
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1)
        return self.say(stream, pb.CommandSend(producer_id=1, sequence_id=sequence_id), push_entry(metadata, b"x"))

    def message(self, stream, entry):
        metadata = pb.MessageMetadata(producer_name="q", sequence_id=entry, publish_time=1)
        body = pb.CommandMessage(consumer_id=1, message_id={"ledgerId": 7, "entryId": entry})
        return self.say(stream, body, push_entry(metadata, b"x"), back=True)


@pytest.fixture
def capture():
    return Capture()


def stuck(rows):
    return [row for row in rows.divided()[2].to_pylist() if row["rule"] == "producer-stuck"]


def test_broker_frames_of_other_topics_are_reported(capture, rows_of_items):
    stream = Stream(0, CLIENT, BROKER, midstream=False)
    capture.connect(stream)
    capture.open(stream)
    capture.send(stream, 0)
    for entry in range(5):
        capture.message(stream, entry)
    heard = capture.message(stream, 5)
    for _ in range(10):
        capture.say(stream, pb.CommandFlow(consumer_id=1, messagePermits=1))
    rows = rows_of_items(capture.items)
    [found] = stuck(rows)
    assert found["frames"][-1] == heard
    assert (found["culprit"], found["certainty"]) == ("broker", "certain")
    assert differing(rows) == ([], 2)


def test_frames_of_a_connection_are_assumed_to_be_shared_evenly(capture, rows_of_items):
    stream = Stream(0, CLIENT, BROKER, midstream=False)
    capture.connect(stream)
    capture.open(stream)
    division, _, _ = rows_of_items(capture.items).divided()
    assert (division.size, division.heaviest) == (2, len(capture.items) / 2)


def test_a_proxied_connection_counts_once(capture, rows_of_items):
    legs = [Stream(0, CLIENT, PROXY, midstream=False), Stream(1, (PROXY[0], 50_000), BROKER, midstream=False)]
    capture.connect(*legs)
    capture.open(*legs)
    for stream in legs:
        capture.send(stream, 0)
        capture.message(stream, 0)
    rows = rows_of_items(capture.items)
    _, tables, _ = rows.divided()
    [consumer] = [row for batch in tables["consumers"] for row in batch.to_pylist()]
    assert (consumer["connection"], consumer["delivered"]) == (0, 1)
    assert differing(rows) == ([], 2)
