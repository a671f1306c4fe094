"""Records across sessions, SENDs left for a resend, and limits."""

import pytest

from pcli.codec.observe.tracking.producers.producer_registry import ProducerRegistry
from pcli.codec.observe.tracking.producers.producer_tracker import ProducerTracker


@pytest.fixture
def bounded(producing):
    """Sets the limits of the tracker's registry."""

    def bound(**limits):
        tracker = producing.tracker
        publishing = ProducerTracker(tracker.subscriptions, on_done=lambda *one: producing.done.append(one))
        publishing._registry.__init__(tracker.subscriptions, lambda *one: producing.done.append(one), **limits)
        tracker.producers = publishing
        assert isinstance(publishing._registry, ProducerRegistry)
        return producing

    return bound


def test_open_sends_are_lost_if_the_next_session_does_not_resend(producing):
    producing.opens()
    producing.sends(0)
    producing.ends(0)
    producing.opens(stream=1)
    producing.sends(5, stream=1)
    assert producing.states() == []  # the resend may still arrive
    producing.ends(1)
    assert producing.states() == [(0, "lost")]
    assert producing.record().lost.frames == [3]


def test_a_refused_attempt_loses_no_open_sends(producing):
    producing.opens()
    first = producing.sends(0)
    published = producing.now - 1
    producing.ends(0)
    producing.asks(stream=1)
    producing.is_refused("ServiceNotReady", stream=1)
    producing.opens(stream=2)
    producing.sends(0, stream=2, published=published)
    producing.receipt(0, stream=2)
    producing.finish()
    [life] = producing.lives
    assert (life.sent_frame, life.state, len(life.resent)) == (first, "stored", 1)
    assert producing.record().lost.count == 0


def test_a_session_from_before_the_capture_is_recognized_by_name(producing):
    first = producing.sends(7)
    published = producing.now - 1
    producing.ends(0)
    producing.opens(stream=1)
    producing.sends(7, stream=1, published=published)
    records = {one.topic: one for one in producing.records()}
    assert records[""].name == "p"
    assert "start" in records[""].doubts
    assert records["persistent://public/default/t"].resent.frames[0] == first


def test_two_earlier_sessions_of_one_name_are_not_distinguished(producing):
    producing.sends(7)
    published = producing.now - 1
    producing.sends(7, stream=1)
    producing.ends(0)
    producing.ends(1)
    producing.opens(stream=2)
    producing.sends(7, stream=2, published=published)
    assert all(one.resent.count == 0 for one in producing.records())


def test_too_many_producers(bounded):
    world = bounded(max_producers=3)
    for number in range(3):
        world.opens(f"p{number}", stream=number)
    world.ends(1)
    world.opens("p3", stream=3)
    assert sorted(one.name for one in world.records()) == ["p0", "p2", "p3"]
    [(group, gone)] = world.done
    assert (group, gone.name) == ("producer", "p1")
    assert "evicted" in gone.doubts
    assert world.tracker.capture.evicted == {"producers": 1}
    world.opens("p4", stream=4)
    assert sorted(one.name for one in world.records()) == ["p2", "p3", "p4"]


def test_an_evicted_producer_that_continues_gets_a_new_record(bounded):
    world = bounded(max_producers=1)
    world.opens("a", stream=0)
    world.opens("b", stream=1)
    world.sends(0, stream=0)
    world.receipt(0, stream=0)
    assert world.record("a").receipts == 1


def test_too_many_open_sends(bounded):
    world = bounded(max_open=3)
    world.opens()
    for number in range(5):
        world.sends(number)
    record = world.record()
    assert (record.open_sends, record.doubts) == (3, {"evicted"})
    assert world.states() == [(0, "in_flight"), (1, "in_flight")]
    assert world.tracker.capture.evicted == {"sends": 2}


def test_doubts_reach_producers_and_what_is_open(producing):
    producing.opens()
    producing.sends(0)
    producing.tracker.producers.add_doubts(0, {"gap"})
    producing.receipt(0)
    producing.opens("later", producer_id=2)
    producing.opens("elsewhere", stream=1)
    producing.finish()
    assert producing.record().doubts >= {"gap"}
    assert producing.record("later").doubts >= {"gap"}
    assert "gap" not in producing.record("elsewhere").doubts
    assert producing.lives[0].doubts == {"gap"}
