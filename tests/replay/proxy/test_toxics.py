"""Toxics in Toxiproxy's JSON form."""

import pytest

from pcli.codec.errors import LocalError
from pcli.replay.proxy.toxics import Toxic


@pytest.mark.parametrize(
    ("toxic", "words"),
    [
        ({"type": "latency", "attributes": {"latency": 50, "jitter": 20}}, "latency=50ms jitter=20ms from=broker"),
        ({"type": "bandwidth", "attributes": {"rate": 64}, "stream": "upstream"}, "bandwidth=64000 from=client"),
        ({"type": "slow_close", "attributes": {"delay": 500}}, "slow_close=500ms from=broker"),
        ({"type": "timeout"}, "timeout=0ms from=broker"),
        ({"type": "reset_peer", "attributes": {"timeout": 100}}, "reset_peer=100ms from=broker"),
        ({"type": "slicer", "attributes": {"average_size": 10, "delay": 5}}, "slice=10 gap=5us from=broker"),
        ({"type": "limit_data", "attributes": {"bytes": 1000}, "toxicity": 0.5}, "limit_data=1000 from=broker"),
    ],
)
def test_a_toxic_is_a_byte_fault(toxic, words):
    found = Toxic.from_json(toxic)
    assert str(found.fault) == f"{words} probability={toxic.get('toxicity', 1)}"
    assert found.name == f"{toxic['type']}_{toxic.get('stream', 'downstream')}"
    assert Toxic.from_json(found.as_json()).as_json() == found.as_json()


@pytest.mark.parametrize(
    ("toxic", "error"),
    [
        ([], "write a JSON object with type"),
        ({}, "toxic type '': write latency, bandwidth"),
        ({"type": "latancy"}, "'latancy': write latency, bandwidth, slow_close, timeout, reset_peer, slicer"),
        ({"type": 5}, "type: write a string"),
        ({"type": "latency"}, "toxic latency: set an attribute above 0: latency, jitter"),
        (
            {"type": "latency", "stream": "up", "attributes": {"latency": 1}},
            "stream 'up': write upstream or downstream",
        ),
        ({"type": "latency", "attributes": {"latency": -1}}, "latency=-1: write an integer from 0"),
        ({"type": "latency", "attributes": {"latency": True}}, "latency=True: write an integer"),
        ({"type": "latency", "attributes": {"delay": 1}}, "attribute 'delay': write latency, jitter"),
        ({"type": "latency", "attributes": [1]}, "attributes: write a JSON object"),
        ({"type": "latency", "attributes": {"latency": 1}, "toxicity": 0}, "toxicity: write a number above 0"),
        ({"type": "slicer", "attributes": {"average_size": 9, "size_variation": 3}}, "only 0 is supported"),
    ],
)
def test_invalid_toxics(toxic, error):
    with pytest.raises(LocalError) as raised:
        Toxic.from_json(toxic)
    assert error in raised.value.text


def test_a_change_keeps_the_other_attributes():
    toxic = Toxic.from_json({"type": "latency", "attributes": {"latency": 50, "jitter": 20}})
    assert toxic.changed({"attributes": {"latency": 5}}).as_json()["attributes"] == {"latency": 5, "jitter": 20}
