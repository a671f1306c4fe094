"""Faults: parsing of their definitions, rejection of invalid ones, counts."""

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.faults import ACTIONS, Fault, Faults
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.proto import pb


@pytest.fixture
def seen(flow):
    """Return the facts of a FLOW and of a CONNECT."""
    live = LiveFrames()
    live.open(0, ("10.0.0.1", 1), ("10.0.0.2", 6650))
    return live.feed(0, flow, 0, from_client=True)[0]


def test_a_fault_is_parsed_from_text():
    fault = Fault.parse("drop after=2 times=1 on pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'")
    assert (fault.do, fault.after, fault.times) == ("drop", 2, 1)
    assert fault.on == "pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'"


def test_an_error_has_a_name_and_a_text():
    fault = Fault.parse("error error='ServiceNotReady: come back on Monday' on pulsar.type == 'LOOKUP'")
    assert (fault.error, fault.error_text) == (pb.ServiceNotReady, "come back on Monday")
    assert fault.on == "pulsar.type == 'LOOKUP'"


def test_every_frame(seen):
    fault = Fault.parse("delay ms=20 on pulsar.type")
    assert (fault.on, fault.ms, fault.times) == ("pulsar.type", 20, None)
    assert fault.admit(seen)
    assert Fault("", "drop").admit(seen)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write ACTION"),
        ("drop", "on FILTER"),
        ("drop on", "on FILTER"),
        ("dropp on pulsar.type", "near: drop"),
        ("drop sometimes on pulsar.type", "'sometimes' is not one of after=N"),
        ("drop after=x on pulsar.type", "after=x is not an integer"),
        ("drop times=0 on pulsar.type", "times must be 1 or more"),
        ("delay on pulsar.type", "do=delay requires ms above 0"),
        ("drop ms=5 on pulsar.type", "do=delay requires ms above 0"),
        ("drop error=TopicNotFound on pulsar.type", "error requires do=error"),
        ("error error=TopicNotFond on pulsar.type", "near: "),
        ("drop on pulsar.typ == 'FLOW'", "pulsar.typ"),
        ("drop on pulsar.type ==", "pulsar.type =="),
    ],
)
def test_invalid_definitions_are_refused(text, said):
    with pytest.raises(LocalError) as caught:
        Fault.parse(text)
    assert said in str(caught.value)


def test_after_and_times_count_matches(seen):
    fault = Fault("pulsar.type == 'FLOW'", "drop", after=2, times=2)
    assert [fault.admit(seen) for _ in range(6)] == [False, False, True, True, False, False]
    assert (fault.seen, fault.fired, fault.spent) == (6, 2, True)


def test_frames_that_do_not_match_are_not_counted(seen):
    fault = Fault("pulsar.type == 'ACK'", "drop")
    assert not fault.admit(seen)
    assert fault.seen == 0


def test_an_error_fault_matches_only_requests_with_a_response(seen):
    fault = Fault("", "error", error="TopicNotFound")
    assert not fault.admit(seen)
    assert fault.seen == 0


def test_the_first_fault_that_is_not_used_up_acts(seen):
    once, always = Fault(times=1), Fault(do="duplicate")
    faults = Faults([once])
    faults.add(always)
    assert [faults.pick(seen) for _ in range(3)] == [once, always, always]
    faults.remove(always)
    faults.remove(always)
    assert faults.pick(seen) is None
    assert list(faults) == [once]
    faults.clear()
    assert len(faults) == 0


def test_a_fault_counts_its_actions(seen):
    fault = Fault("pulsar.type == 'FLOW'", times=3)
    fault.admit(seen)
    assert repr(fault) == "Fault(drop on pulsar.type == 'FLOW'; 1 seen, fired 1 of 3)"


def test_every_action_has_a_description():
    for action in ACTIONS:
        Fault(do=action, ms=1 if action == "delay" else 0)
