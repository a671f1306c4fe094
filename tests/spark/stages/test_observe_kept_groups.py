"""Which kept groups of connections a run continues."""

import pytest

from pcli.codec.capture.frames import Stream
from pcli.spark.stages import observe_connections
from pcli.spark.stages.kept_states import KeptGroup
from pcli.spark.stages.observe_connections import continued_groups, kept_streams
from tests.spark.stages.conftest import publish_and_ack


def stream(number):
    return Stream(number, ("10.0.0.1", 50_000 + number), ("10.0.0.9", 6650), midstream=False)


STREAMS = {number: stream(number) for number in range(5)}
FRAMES = dict.fromkeys(STREAMS, 10)


def kept(*groups):
    """Groups with these connections."""
    return [
        KeptGroup(kept_streams({number: STREAMS[number] for number in some}, some, ()), f"state-{some[0]}")
        for some in groups
    ]


@pytest.fixture
def apart(monkeypatch):
    """Small groups are not combined."""
    monkeypatch.setattr(observe_connections, "PACKED_FRAMES", 0)
    monkeypatch.setattr("pcli.spark.columnar.observation.connection_groups.PACKED_FRAMES", 0)


def paths(continued):
    return {group: one.file for group, one in continued.items()}


def test_a_group_continues_with_a_new_connection(apart):
    found = {0: 0, 1: 0, 2: 2, 3: 2, 4: 4}
    groups, continued = continued_groups(found, kept([0, 1], [2]), STREAMS, FRAMES, ())
    assert groups == found
    assert paths(continued) == {0: "state-0", 2: "state-2"}


def test_connections_that_were_observed_together_stay_together(apart):
    groups, continued = continued_groups({0: 0, 1: 1, 2: 2}, kept([0, 2]), STREAMS, FRAMES, ())
    assert groups == {0: 0, 1: 1, 2: 0}
    assert paths(continued) == {0: "state-0"}


def test_groups_that_a_connection_ties_are_observed_again(apart):
    groups, continued = continued_groups({0: 0, 1: 1, 2: 0, 3: 0}, kept([0], [1], [2]), STREAMS, FRAMES, ())
    assert groups == {0: 0, 1: 1, 2: 0, 3: 0}
    assert paths(continued) == {1: "state-1"}


def test_a_group_is_observed_again_if_a_connection_was_identified_later(apart):
    before = kept([0], [1])
    changed = stream(1)
    changed.kind = "tls"
    _, continued = continued_groups({0: 0, 1: 1}, before, {**STREAMS, 1: changed}, FRAMES, ())
    assert paths(continued) == {0: "state-0"}


def test_a_group_is_observed_again_if_its_server_is_now_known_to_be_a_pulsar_server(apart):
    changed = Stream(1, ("10.0.0.1", 50_001), ("10.0.0.9", 7777), midstream=False)
    streams = {**STREAMS, 1: changed}
    before = [KeptGroup(kept_streams({number: streams[number]}, {number}, ()), f"state-{number}") for number in (0, 1)]
    _, continued = continued_groups({0: 0, 1: 1}, before, streams, FRAMES, {changed.server})
    assert paths(continued) == {0: "state-0"}


def test_an_unused_connection_may_be_identified_later(apart):
    before = [KeptGroup(kept_streams({0: STREAMS[0], 1: STREAMS[1]}, {0}, ()), "state-0")]
    changed = stream(1)
    changed.kind = "pulsar"
    _, continued = continued_groups({0: 0, 1: 1}, before, {**STREAMS, 1: changed}, FRAMES, ())
    assert paths(continued) == {0: "state-0"}


def test_small_new_groups_are_added_to_the_smallest_kept_group():
    frames = {0: 200_000, 1: 50_000, 2: 10, 3: 200_000, 4: 10}
    groups, continued = continued_groups({n: n for n in STREAMS}, kept([0], [1]), STREAMS, frames, ())
    assert groups == {0: 0, 1: 1, 2: 1, 3: 3, 4: 1}
    assert paths(continued) == {0: "state-0", 1: "state-1"}


def test_ties_of_old_captures_are_merged(recording):
    """Two consumers of one topic connect at different hours; the tie is the topic."""
    recording.tables = ("consumers", "producers", "topics", "connections")
    recording.client.subscribe(kind="Shared")
    recording.client.flow(1000)
    for number in range(8):
        if number in (2, 6):
            recording.scene.actor().subscribe(kind="Shared", consumer_id=number)
        publish_and_ack(recording.client, (number,))
        recording.rotate()
        recording.scene.wait(3_600_000)
    recording.batches(horizon_s=7200)
    names = [path.name for path in (recording.folder / "out" / "_state").iterdir()]
    assert sum(name.startswith("ties-") for name in names) <= 4
    recording.check()
