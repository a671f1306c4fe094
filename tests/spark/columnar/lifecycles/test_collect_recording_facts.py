"""Owners of ids, from the forwarded frames."""

import random

import pytest

from pcli.codec.observe.tracking.tracker import Tracker
from pcli.spark.columnar.lifecycles.collect_recording_facts import collect_facts


@pytest.mark.parametrize("name", ["flex/01-produce-consume", "flex/04-reconnect", "python/10-shared-redelivery"])
def test_however_many_splits_there_are_the_tracker_sees_the_same_frames(few, bulk, monkeypatch, name):
    """The first message of a consumer in a late split must not count all entries in between."""
    recording = few.recording(name)
    whole, splits = bulk(recording).small, bulk(recording, random.Random(name)).small
    assert len(splits.forwarded) > len(whole.forwarded)
    seen = []
    see = Tracker.see
    monkeypatch.setattr(Tracker, "see", lambda self, facts: seen.append(facts.frame.number) or see(self, facts))
    collect_facts(whole, recording.streams)
    expected, seen = seen, []
    collect_facts(splits, recording.streams)
    assert seen == expected
