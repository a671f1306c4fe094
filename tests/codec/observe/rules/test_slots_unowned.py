"""Rule slots-unowned: STICKY ranges that leave slots unassigned."""

import pytest

from pcli.codec.proto import pb


def play(make_scene, *ranges, permits=50, messages=60):
    """Consumers with these ranges, and a message for each of many keys; nothing changes for five seconds."""
    scene = make_scene()
    client = scene.actor()
    client.producer()
    for number, (first, last) in enumerate(ranges):
        meta = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=first, end=last)])
        client.subscribe(consumer_id=number, kind="Key_Shared", keySharedMeta=meta)
        client.flow(permits, consumer_id=number)
    for number in range(messages):
        client.publish(number, partition_key=f"key-{number}")
    scene.wait(5000)
    client(pb.CommandPing())
    return scene, client


@pytest.mark.parametrize(("ranges", "hole"), [
    ([(0, 20_000), (40_000, 65_535)], "slots 20001 to 39999"),
    ([(30_000, 65_535)], "slots 0 to 29999"),
    ([(10_000, 20_000), (0, 9_999)], "slots 20001 to 65535"),
])  # fmt: skip
def test_unassigned_slots(make_scene, diagnose, ranges, hole):
    scene, _ = play(make_scene, *ranges)
    [found] = diagnose(scene, ("slots-unowned",)).findings()
    assert (found.severity, found.culprit, found.certainty) == ("error", "application", "likely")
    assert hole in found.what
    assert [scene.frames[number - 1].command.type for number in found.frames] == [pb.BaseCommand.SUBSCRIBE] * len(
        ranges
    )


def test_only_the_last_consumers_count(make_scene, diagnose):
    scene, client = play(make_scene, (0, 20_000), (40_000, 65_535))
    client.cut()
    scene.actor()(pb.CommandPing())
    [found] = diagnose(scene, ("slots-unowned",)).findings()
    assert "for 5.0 s while 2 consumers had permits" in found.what


def test_all_slots_are_assigned(make_scene, diagnose):
    scene, _ = play(make_scene, (0, 20_000), (20_001, 65_535))
    assert diagnose(scene, ("slots-unowned",)).findings() == []


def test_the_messages_may_belong_to_other_consumers(make_scene, diagnose):
    scene, _ = play(make_scene, (0, 20_000), (40_000, 65_535), permits=3)
    assert diagnose(scene, ("slots-unowned",)).findings() == []


def test_no_message_in_the_unassigned_slots(make_scene, diagnose):
    scene, _ = play(make_scene, (0, 65_000), messages=10)
    assert diagnose(scene, ("slots-unowned",)).findings() == []
