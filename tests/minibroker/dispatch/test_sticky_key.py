"""The current and the Classic dispatcher of Key_Shared: which entries wait for which acknowledgements."""

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.hashes import murmur3_31

KEYS = [f"k{number}" for number in range(12)]


def metadata(key):
    """Return metadata with any bytes as the key."""
    fields = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    return fields.SerializeToString() + bytes((6 << 3 | 2, len(key))) + key


def owned(scene, name):
    """Return the keys that a consumer owns now."""
    selector = scene.subscription.dispatcher.selector
    return [key for key in KEYS if selector.select(selector.slot(murmur3_31(key.encode()))).name == name]


def test_each_key_has_one_consumer(scene):
    a, b = scene.consumer("Key_Shared", "a"), scene.consumer("Key_Shared", "b")
    a.flow()
    b.flow()
    scene.keyed(*KEYS, *KEYS)
    assert a.got() == owned(scene, "a") * 2
    assert b.got() == owned(scene, "b") * 2


def test_only_reassigned_keys_wait_for_pending_entries(scene):
    """A holds all keys, and B joins: entries of B's keys that A holds wait until A has acknowledged them."""
    a = scene.consumer("Key_Shared", "a")
    a.flow()
    scene.keyed(*KEYS[:8])
    held = dict(zip(a.got(), a.ids, strict=True))
    b = scene.consumer("Key_Shared", "b")
    b.flow()
    of_b = owned(scene, "b")
    scene.keyed(*KEYS)
    assert b.got() == [key for key in of_b if key not in held]
    first = next(key for key in of_b if key in held)
    a.ack(held[first])
    scene.world.wait(20)
    assert b.got() == [first]


def test_classic_makes_a_new_consumer_wait_for_all_keys(make_scene):
    scene = make_scene(subscriptionKeySharedUseClassicPersistentImplementation=True)
    a = scene.consumer("Key_Shared", "a")
    a.flow()
    scene.keyed(*KEYS[:4])
    a.got()
    b = scene.consumer("Key_Shared", "b")
    b.flow()
    of_b = owned(scene, "b")
    scene.keyed(*KEYS)
    assert b.got() == []
    a.ack(*a.ids[:3])
    assert b.got() == []
    a.ack(*a.ids[3:])
    assert b.got() == of_b


def test_classic_with_one_remaining_consumer_does_not_wait(make_scene):
    scene = make_scene(subscriptionKeySharedUseClassicPersistentImplementation=True)
    a = scene.consumer("Key_Shared", "a")
    a.flow()
    scene.keyed(*KEYS[:4])
    a.got()
    b = scene.consumer("Key_Shared", "b")
    b.flow()
    a.close()
    assert b.got() == KEYS[:4]
    scene.keyed("new")
    assert b.got() == ["new"]


def test_a_consumer_without_permits_blocks_only_its_keys(scene):
    a, b = scene.consumer("Key_Shared", "a"), scene.consumer("Key_Shared", "b")
    a.flow()
    scene.keyed(*KEYS, *KEYS)
    assert a.got() == owned(scene, "a") * 2
    of_b = owned(scene, "b")
    assert b.flow(1) == of_b[:1]
    assert b.flow(1000) == [*of_b, *of_b][1:]


def test_the_look_ahead_limit(make_scene):
    """B has no permits: reading stops when as many entries wait as the settings allow."""
    scene = make_scene(keySharedLookAheadMsgInReplayThresholdPerConsumer=3)
    a, b = scene.consumer("Key_Shared", "a"), scene.consumer("Key_Shared", "b")
    a.flow()
    scene.keyed(*KEYS * 10)
    assert len(scene.subscription.dispatcher.replay) == 6
    assert len(a.got()) < len(owned(scene, "a")) * 10
    assert b.flow() == owned(scene, "b") * 10


def test_out_of_order_delivery_does_not_wait(scene):
    meta = pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=True)
    a = scene.consumer("Key_Shared", "a", keySharedMeta=meta)
    a.flow()
    scene.keyed(*KEYS)
    a.got()
    b = scene.consumer("Key_Shared", "b", keySharedMeta=meta)
    b.flow()
    scene.keyed(*KEYS)
    assert b.got() == owned(scene, "b")


def test_pending_entries_of_a_removed_consumer_are_redelivered_in_order(scene):
    a, b = scene.consumer("Key_Shared", "a"), scene.consumer("Key_Shared", "b")
    a.flow()
    b.flow()
    scene.keyed(*KEYS, *KEYS)
    of_b = owned(scene, "b")
    a.got()
    b.close()
    assert a.got() == of_b * 2


def test_due_messages_without_permits_do_not_block_others(scene):
    a, b = scene.consumer("Key_Shared", "a"), scene.consumer("Key_Shared", "b")
    of_a, of_b = owned(scene, "a")[0], owned(scene, "b")[0]
    due = scene.world.now + 5000
    b.flow(10)
    for key in [of_a] * 150 + [of_b]:
        scene.publish(key, partition_key=key, deliver_at_time=due)
    scene.world.wait(7000)
    assert b.got() == [of_b]
    assert len(a.flow()) == 150


def test_a_redelivered_entry_waits_until_its_consumer_has_room(make_scene):
    """A REDELIVER unblocks the consumer, but the limit on unacked messages still prevents delivery. ACKs make room."""
    scene = make_scene(maxUnackedMessagesPerConsumer=5)
    scene.publish("first", partition_key="k")
    a = scene.consumer("Key_Shared", "a", initialPosition=pb.CommandSubscribe.Earliest)
    a.flow()
    scene.publish("b1", "b2", "b3", together=True, partition_key="k", num_messages_in_batch=4)
    assert a.got() == ["b1", "b2", "b3"]
    a.redeliver(a.ids[3])
    assert a.got() == []
    a.ack(*a.ids[:3])
    scene.world.wait(20)
    assert a.got() == ["b3"]


def test_a_key_with_invalid_utf8_is_accepted(scene):
    """protobuf returns bytes if the text is not UTF-8."""
    a = scene.consumer("Key_Shared", "a")
    a.flow()
    good, bad = push_entry(metadata(b"k"), b"good"), push_entry(metadata(b"\xff\xfe"), b"bad")
    for entry in (good, bad, good):
        scene.publisher.session.send(pb.CommandSend(producer_id=1, sequence_id=0), entry)
    scene.publisher.raw(scene.publisher.session.output())
    assert a.got() == ["good", "bad", "good"]


def test_blocked_entries_are_not_checked_again(scene, monkeypatch):
    """500 entries wait for permits of B: they are not examined again for each later entry of A."""
    a, b = scene.consumer("Key_Shared", "a"), scene.consumer("Key_Shared", "b")
    a.flow()
    of_a, of_b = owned(scene, "a")[0], owned(scene, "b")[0]
    scene.keyed(*[of_b] * 500)
    looks = []
    dispatcher = scene.subscription.dispatcher
    select = dispatcher.selector.select
    monkeypatch.setattr(dispatcher.selector, "select", lambda slot: looks.append(slot) or select(slot))
    scene.keyed(*[of_a] * 50)
    assert len(a.got()) == 50
    assert len(looks) < 200
    assert len(b.flow()) == 500


def test_declared_ranges_and_uncovered_slots(scene):
    low = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=32767)])
    high = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=32768, end=65535)])
    a = scene.consumer("Key_Shared", "a", keySharedMeta=low)
    a.flow()
    scene.keyed(*KEYS)
    mine = [key for key in KEYS if murmur3_31(key.encode()) % 65536 < 32768]
    assert a.got() == mine
    b = scene.consumer("Key_Shared", "b", keySharedMeta=high)
    assert b.flow() == [key for key in KEYS if key not in mine]


def test_auto_split_ranges_instead_of_a_ring(make_scene):
    scene = make_scene(subscriptionKeySharedUseConsistentHashing=False)
    a, b = scene.consumer("Key_Shared", "a"), scene.consumer("Key_Shared", "b")
    a.flow()
    b.flow()
    scene.keyed(*KEYS)
    lower = [key for key in KEYS if (murmur3_31(key.encode()) % 65536 or 1) <= 32768]
    assert (b.got(), a.got()) == (lower, [key for key in KEYS if key not in lower])
