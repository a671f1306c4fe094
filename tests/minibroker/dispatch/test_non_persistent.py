"""Non-persistent topics: messages are delivered at once or dropped."""

import pytest

from pcli.codec.proto import pb

TOPIC = "non-persistent://public/default/t"


@pytest.fixture
def scene(make_scene, make_world):
    from_persistent = make_scene()
    return type(from_persistent)(make_world(), TOPIC)


def test_undeliverable_entries_are_dropped_and_counted(scene):
    a = scene.consumer("Exclusive", "a")
    scene.publish("m0")
    a.flow(1)
    scene.publish("m1", "m2")
    assert a.got() == ["m1"]
    assert scene.subscription.dispatcher.dropped == 2


def test_shared_is_round_robin_without_priorities(scene):
    a, b = scene.consumer("Shared", "a", priority_level=5), scene.consumer("Shared", "b")
    a.flow()
    b.flow()
    scene.publish("m0", "m1", "m2")
    assert (a.got(), b.got()) == (["m0", "m2"], ["m1"])


def test_failover_notifies_only_a_new_inactive_consumer(scene):
    a, b = scene.consumer("Failover", "a"), scene.consumer("Failover", "b")
    assert [one.is_active for one in a.told + b.told] == [False]
    a.flow()
    b.flow()
    scene.publish("m0")
    a.close()
    scene.publish("m1")
    assert (a.got(), b.got()) == (["m0"], ["m1"])


def test_failover_of_version_5_notifies_all_consumers(make_scene, make_world):
    scene = type(make_scene())(make_world(version="5.0.1"), TOPIC)
    b, a, c = (scene.consumer("Failover", name) for name in ("b", "a", "c"))
    assert b.got() == []
    assert [one.is_active for one in b.told] == [True, False]
    assert [[one.is_active for one in each.told] for each in (a, c)] == [[True], [False]]
    a.close()
    assert b.got() == []
    assert [one.is_active for one in b.told] == [True, False, True]


def test_keys_are_sent_to_their_owners(scene):
    a, b = scene.consumer("Key_Shared", "a"), scene.consumer("Key_Shared", "b")
    a.flow()
    b.flow()
    keys = [f"k{number}" for number in range(20)]
    scene.keyed(*keys, *keys)
    for got in (a.got(), b.got()):
        assert got[: len(got) // 2] == got[len(got) // 2 :]
        assert got


def test_a_subscription_ends_with_its_last_consumer(scene):
    a = scene.consumer("Shared", "a")
    a.close()
    assert scene.world.broker.topics[TOPIC].subscriptions == {}


def test_a_refused_consumer_leaves_no_subscription(scene):
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY)  # without ranges
    scene.consumer("Key_Shared", "a", keySharedMeta=meta)
    assert scene.world.broker.topics[TOPIC].subscriptions == {}
