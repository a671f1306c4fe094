"""What is missing."""

import pytest

from pcli.codec.observe.tracking.records.connection_records import CaptureRecord


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"midstream": 2}, "2 connections began before it"),
        ({"one_way": 1}, "1 connection with one direction only"),
        ({"cut": True}, "snap length"),
        ({"damaged": True}, "cut or damaged"),
        ({"unfinished": 1}, "1 frame without an end"),
        ({"evicted": {"host": 3}}, "3 host records dropped"),
    ],
)
def test_each(look, fields, said):
    [found] = look("capture-incomplete", CaptureRecord(**fields))
    assert (found.severity, found.culprit, found.sure) == ("note", "capture", "certain")
    assert said in found.what


def test_holes(look, tallied):
    [found] = look("capture-incomplete", CaptureRecord(gaps=tallied(10, 3, 4), gap_bytes=4300, midstream=1))
    assert found.what == (
        "The capture does not show all: 10 holes of 4.3 kB in connections; "
        "1 connection began before it: names and permits are unknown there."
    )
    assert found.frames == [3, 4]


def test_a_good_one(look):
    assert look("capture-incomplete", CaptureRecord(frames=1000, other_streams={"http": 3})) == []


@pytest.mark.parametrize(
    "name", ["java/late-capture", "java/cut-packets", "python/37-packets-lost", "python/36b-ends-mid-record"]
)
def test_real_ones(diagnosed, name):
    assert len(diagnosed(name, "capture-incomplete")) == 1


@pytest.mark.parametrize("name", ["java/permits", "python/38-repeated-reordered", "rust/nack"])
def test_real_good_ones(diagnosed, name):
    assert diagnosed(name, "capture-incomplete") == []
