"""Shared with its Classic and Streaming dispatchers: the distribution of entries."""

import pytest


def names(*numbers):
    return [f"m{number}" for number in numbers]


def backlog(scene, count, **metadata):
    """Publish this number of entries."""
    scene.publish(*names(*range(count)), **metadata)


def test_the_example_of_five_messages(scene):
    """>> FLOW 1000 of A, B; 0 to 4 are sent to A; A rejects 1 and 3; A leaves; B leaves; C starts again."""
    a = scene.consumer("Shared", "a")
    a.flow()
    backlog(scene, 5)
    assert a.got() == names(0, 1, 2, 3, 4)
    b = scene.consumer("Shared", "b")
    assert b.flow() == []  # entries that a consumer holds are not read again
    a.redeliver(a.ids[1], a.ids[3])
    assert sorted(a.got() + b.got()) == names(1, 3)
    assert scene.subscription.dispatcher.replay.counts == {1: 1, 3: 1}
    a.close()
    assert {"m0", "m2", "m4"} <= set(b.got())
    b.close()
    c = scene.consumer("Shared", "c")
    assert c.flow() == names(0, 1, 2, 3, 4)
    assert scene.subscription.dispatcher.replay.counts == {}


def test_slices_of_twenty(scene):
    a, b, c = (scene.consumer("Shared", name) for name in "abc")
    backlog(scene, 100)
    assert a.flow(100) == names(*range(100))
    b.flow(100)
    c.flow(100)
    a.close()
    assert b.got() == names(*range(20, 40), *range(60, 80))  # the next turn was after A, in whose place B is now
    assert c.got() == names(*range(20), *range(40, 60), *range(80, 100))


@pytest.mark.parametrize("classic", [False, True])
def test_a_batch_larger_than_the_permits_is_sent_whole(make_scene, classic):
    scene = make_scene(subscriptionSharedUseClassicPersistentImplementation=classic)
    a = scene.consumer("Shared", "a")
    backlog(scene, 3, num_messages_in_batch=10)
    assert a.flow(3) == ["m0"]
    assert scene.subscription.consumers[0].permits == -7


def test_precise_flow_control_reads_by_the_average(make_scene):
    """Batches of 10 and 30 permits: three entries are read, and none waits for a consumer."""
    for precise in (False, True):
        scene = make_scene(preciseDispatcherFlowControl=precise)
        a = scene.consumer("Shared", "a")
        backlog(scene, 12, num_messages_in_batch=10)
        a.flow(1)
        a.flow(39)
        assert len(a.ids) == 4
        assert (len(scene.subscription.dispatcher.replay) == 0) is precise


def test_classic_rounds_the_slice_size_down(make_scene):
    """25 permits, batches of 10: the current dispatcher sends three entries in one turn, Classic sends two."""
    turns = {}
    for classic in (False, True):
        scene = make_scene(subscriptionSharedUseClassicPersistentImplementation=classic)
        a, b = scene.consumer("Shared", "a"), scene.consumer("Shared", "b")
        backlog(scene, 8, num_messages_in_batch=10)
        assert len(a.flow(80)) == 8
        c = scene.consumer("Shared", "c")
        b.flow(25)
        c.flow(25)
        a.close()
        turns[classic] = (b.got(), c.got())
    assert turns[False][1][:3] == names(0, 1, 2)
    assert turns[True][1][:2] == names(0, 1)
    assert turns[True][0][:1] == ["m2"]


def test_streaming_distributes_single_entries(make_scene):
    """Five entries are read for two consumers: the batch reader sends slices, the pipeline sends single entries."""
    found = {}
    for streaming in (False, True):
        scene = make_scene(streamingDispatch=streaming)
        a, b = scene.consumer("Shared", "a"), scene.consumer("Shared", "b")
        a.flow()
        b.flow()
        scene.publish(*names(0, 1, 2, 3, 4), together=True)
        found[streaming] = (a.got(), b.got())
    assert found[False] == (names(0, 1, 2, 3, 4), [])
    assert found[True] == (names(0, 2, 4), names(1, 3))


def test_better_priority_levels_come_first(scene):
    worse = scene.consumer("Shared", "worse", priority_level=1)
    better = scene.consumer("Shared", "better")
    worse.flow()
    better.flow(2)
    scene.publish(*names(0, 1, 2))
    assert (better.got(), worse.got()) == (names(0, 1), ["m2"])


def test_unacknowledged_messages_block_a_consumer(make_scene):
    scene = make_scene(maxUnackedMessagesPerConsumer=2)
    a = scene.consumer("Shared", "a")
    backlog(scene, 5)
    assert a.flow(10) == names(0, 1)
    assert a.flow(1) == []  # blocked
    a.ack(a.ids[0])
    assert a.got() == ["m2"]


def test_a_removed_limit_unblocks_consumers(make_scene):
    for setting in ("maxUnackedMessagesPerConsumer", "maxUnackedMessagesPerSubscription"):
        scene = make_scene(**{setting: 2})
        a = scene.consumer("Shared", "a")
        backlog(scene, 5)
        assert len(a.flow(10)) in (2, 5)  # a slice may exceed the subscription's limit
        backlog(scene, 2)
        assert a.got() == []
        setattr(scene.world.broker.settings, setting, 0)
        scene.world.broker.topics[scene.topic].policies_changed()
        scene.world.broker.finish_turn()
        scene.world.deliver()
        assert a.got()[-2:] == names(0, 1)


def test_a_limit_of_the_subscription_stops_new_messages_only(make_scene):
    scene = make_scene(maxUnackedMessagesPerSubscription=3)
    a = scene.consumer("Shared", "a")
    backlog(scene, 8)
    assert len(a.flow(3)) == 3
    assert a.flow(2) == []
    a.redeliver(a.ids[0])
    assert a.got() == ["m0"]


def test_chunks_go_to_the_consumer_of_the_first(scene):
    a, b = scene.consumer("Shared", "a"), scene.consumer("Shared", "b")
    a.flow()
    b.flow()
    for number in range(3):
        scene.publish(f"part{number}", uuid="u", chunk_id=number, num_chunks_from_msg=3, total_chunk_msg_size=15)
    assert a.got() == ["part0", "part1", "part2"]
    assert b.got() == []
    scene.publish("next")
    assert b.got() == ["next"]


def test_markers_and_broken_metadata_are_acknowledged_by_the_broker(scene):
    a = scene.consumer("Shared", "a")
    scene.publish("marker", marker_type=10)
    scene.publish("m")
    assert a.flow() == ["m"]
    assert scene.subscription.backlog == 1


def test_a_delayed_message_uses_no_permit(scene):
    a = scene.consumer("Shared", "a")
    a.flow(2)
    scene.publish("later", deliver_at_time=scene.world.now + 5000)
    scene.publish("now")
    assert a.got() == ["now"]
    assert scene.subscription.backlog == 2
    scene.world.wait(3500)
    assert a.got() == []
    scene.world.wait(1600)
    assert a.got() == ["later"]


def test_a_delayed_message_arrives_at_the_end_of_a_tick(scene):
    a = scene.consumer("Shared", "a")
    a.flow(1)
    scene.world.wait(1024 - scene.world.now % 512)  # groups of delivery times begin at multiples of 512 ms
    scene.publish("later", deliver_at_time=scene.world.now + 3400)
    scene.world.wait(3990)
    assert a.got() == []
    scene.world.wait(10)
    assert a.got() == ["later"]


def test_a_dispatch_rate(make_scene):
    scene = make_scene(dispatchThrottlingRatePerSubscriptionInMsg=2)
    a = scene.consumer("Shared", "a")
    backlog(scene, 5)
    assert a.flow() == names(0, 1)
    scene.world.wait(1100)
    assert a.got() == names(2, 3)
    scene.world.wait(1100)
    assert a.got() == ["m4"]
