"""Rule capture-incomplete: missing data."""

import pytest

from pcli.codec.observe.tracking.records.connection_records import CaptureRecord


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"midstream": 2}, "2 connections that began earlier"),
        ({"one_way": 1}, "1 connection with only one direction"),
        ({"cut": True}, "snap length"),
        ({"unread": ["3 packets not decoded: the link type PPI (192) is not supported"]}, "link type PPI (192)"),
        ({"damaged": True}, "truncated or damaged"),
        ({"unfinished": 1}, "1 incomplete frame"),
        ({"evicted": {"host": 3}}, "3 host records evicted"),
    ],
)
def test_each_kind_of_missing_data(evaluate, fields, said):
    [found] = evaluate("capture-incomplete", CaptureRecord(**fields))
    assert (found.severity, found.culprit, found.certainty) == ("note", "capture", "certain")
    assert said in found.what


def test_gaps(evaluate, counted):
    [found] = evaluate("capture-incomplete", CaptureRecord(gaps=counted(10, 3, 4), gap_bytes=4300, midstream=1))
    assert found.what == (
        "The capture is incomplete: 10 gaps of 4.3 kB in total; "
        "1 connection that began earlier (names and permits are unknown)."
    )
    assert found.frames == [3, 4]


def test_a_complete_capture(evaluate):
    assert evaluate("capture-incomplete", CaptureRecord(frames=1000, other_streams={"http": 3})) == []


@pytest.mark.parametrize(
    "name", ["java/late-capture", "java/cut-packets", "python/37-packets-lost", "python/36b-ends-mid-record"]
)
def test_real_incomplete_captures(diagnosed, name):
    assert len(diagnosed(name, "capture-incomplete")) == 1


@pytest.mark.parametrize("name", ["java/permits", "python/38-repeated-reordered", "rust/nack"])
def test_real_complete_captures(diagnosed, name):
    assert diagnosed(name, "capture-incomplete") == []
