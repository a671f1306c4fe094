"""Changes of scalable topics that are inferred from layouts, watchers and names of segments."""

import pytest

from pcli.codec.capture.frames import START, CapturedFrame, Stream
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import COMMANDS
from pcli.codec.wire.frame import pull_type
from pcli.replay.player.script.broker_preparation import prepare
from pcli.replay.player.script.build_script import build_script

TOPIC = "topic://public/default/orders"
PATH = "scalable/public/default/orders"
HALVES = ((0, 0x7FFF), (0x8000, 0xFFFF))
WHOLE = (0, 0xFFFF)
CONNECT = pb.CommandConnect(client_version="client", protocol_version=21)


def script_of(*commands, server="Pulsar Server5.0.1"):
    """Return the script of a connection with these commands, ten seconds apart."""
    stream = Stream(0, ("client", 1), ("broker", 6650), midstream=False)
    frames = []
    for number, body in enumerate([CONNECT, pb.CommandConnected(server_version=server), *commands], 1):
        data = push_frame(body)
        kind = pull_type(data, 8, 8 + int.from_bytes(data[4:8], "big"))
        from_client = COMMANDS[kind].sender == "client"
        frames.append(CapturedFrame(data, kind, number, number, number * 10**10, stream, from_client, 0, START))
    return build_script(frames)


def layout(epoch, *segments, session=0):
    """Return an update with segments: id, range, parents, children and the epoch of the creation."""
    update = pb.CommandScalableTopicUpdate(session_id=session, resolved_topic_name=TOPIC)
    update.dag.epoch = epoch
    for number, (start, end), parents, children, created in segments:
        update.dag.segments.add(
            segment_id=number,
            hash_start=start,
            hash_end=end,
            state=pb.SEALED if children else pb.ACTIVE,
            parent_ids=parents,
            child_ids=children,
            created_at_epoch=created,
            created_at_ms=1,
        )
    return update


def lookup(session=0):
    return pb.CommandScalableTopicLookup(session_id=session, topic=TOPIC)


def notification(**names):
    return pb.CommandWatchScalableTopicsUpdate(watch_id=0, diff=pb.ScalableTopicsDiff(**names))


WATCH = (
    pb.CommandWatchScalableTopics(watch_id=0, namespace="public/default"),
    pb.CommandWatchScalableTopicsUpdate(watch_id=0, snapshot=pb.ScalableTopicsSnapshot()),
)
ONE = layout(0, (0, WHOLE, (), (), 0))
SPLIT = layout(1, (0, WHOLE, (), (1, 2), 0), (1, HALVES[0], (0,), (), 1), (2, HALVES[1], (0,), (), 1))


def calls_of(script):
    """Return the calls before the replay, and the calls during the replay in order."""
    found = prepare(script, {})
    during = [
        call
        for index in range(len(script.steps))
        for call in [*found.before.get(index, ()), *found.instead.get(index, ())]
    ]
    texts = [[f"{call.method} {call.path}" for call in calls] for calls in (found.calls, during)]
    return [[text for text in calls if " s" in text] for calls in texts]


def test_a_new_topic_is_created_before_its_changes():
    """A watcher was notified of the topic. The split took place before its first lookup."""
    script = script_of(*WATCH, notification(added=[TOPIC]), lookup(), SPLIT)
    assert calls_of(script) == [[], [f"PUT {PATH}?numInitialSegments=1", f"POST {PATH}/split/0"]]
    assert prepare(script, {}).instead.keys() == {4}


def test_a_topic_is_created_again_with_its_new_layout():
    halves = layout(0, (0, HALVES[0], (), (), 0), (1, HALVES[1], (), (), 0), session=1)
    changed = (notification(removed=[TOPIC]), notification(added=[TOPIC]))
    assert calls_of(script_of(lookup(), ONE, *WATCH, *changed, lookup(1), halves)) == [
        [f"PUT {PATH}?numInitialSegments=1"],
        [f"DELETE {PATH}", f"PUT {PATH}?numInitialSegments=2"],
    ]


def test_changes_after_a_prune_have_the_ids_of_a_new_topic():
    """Segment 0 was split and removed. The halves then have the ids 0 and 1 in a new topic."""
    pruned = layout(
        3,
        (1, HALVES[0], (), (3, 4), 1),
        (2, HALVES[1], (), (5,), 1),
        (3, (0, 0x3FFF), (1,), (5,), 2),
        (4, (0x4000, 0x7FFF), (1,), (), 2),
        (5, HALVES[1], (2,), (), 3),
    )
    assert calls_of(script_of(lookup(), pruned)) == [
        [f"PUT {PATH}?numInitialSegments=2"],
        [f"POST {PATH}/split/0", f"POST {PATH}/rebucket/1?bucketCount=1"],
    ]


def test_segments_without_a_layout_are_created_without_the_topic():
    name = "segment://public/default/orders/0000-7fff-1"
    producer = pb.CommandProducer(topic=name, producer_id=0, request_id=0)
    success = pb.CommandProducerSuccess(request_id=0, producer_name="p")
    path = name.replace("segment://", "segments/")
    assert calls_of(script_of(producer, success)) == [[f"PUT {path}"], []]


@pytest.mark.parametrize(
    "damaged",
    [
        layout(1),
        layout(1, (3, WHOLE, (3,), (), 1)),
        layout(1, (3, HALVES[0], (7,), (), 1), (4, HALVES[1], (7,), (), 1)),
        layout(2, (5, WHOLE, (7, 8), (), 2)),
    ],
)
def test_damaged_layouts_are_tolerated(damaged):
    for updates in ([damaged], [ONE, damaged], [damaged, SPLIT]):
        before, _ = calls_of(script_of(lookup(), *updates))
        assert before == [f"PUT {PATH}?numInitialSegments=1"]


def test_names_in_other_encodings_are_tolerated():
    data = notification(added=["topic://public/default/??"]).SerializeToString().replace(b"??", b"\xff\xff")
    damaged = pb.CommandWatchScalableTopicsUpdate.FromString(data)
    assert len(calls_of(script_of(*WATCH, damaged, lookup(), ONE))[1]) == 1


@pytest.mark.parametrize(
    ("server", "version"), [("Pulsar Server", "5.0"), ("Pulsar Server4.0.3", "4.0.3"), ("9" * 5000 + ".0", "9999.0")]
)
def test_the_version_of_the_broker(server, version):
    assert prepare(script_of(lookup(), ONE, server=server), {}).version == version


def test_namespaces_of_scalable_topics_are_created():
    other = pb.CommandScalableTopicLookup(session_id=0, topic="topic://public/second/orders")
    listed = notification(added=["topic://public/third/orders"])
    paths = [call.path for call in prepare(script_of(other, ONE, *WATCH, listed), {}).calls]
    assert {"namespaces/public/second", "namespaces/public/third"} <= set(paths)


@pytest.mark.parametrize(
    ("response", "enabled"),
    [({"snapshot": pb.TcAssignmentsSnapshot(parallelism=16)}, "true"), ({"error": pb.ServiceNotReady}, None)],
)
def test_coordinators_of_a_watch_enable_transactions(response, enabled):
    update = pb.CommandWatchTcAssignmentsUpdate(watch_id=0, **response)
    found = prepare(script_of(pb.CommandWatchTcAssignments(watch_id=0), update), {})
    assert found.settings.get("transactionCoordinatorEnabled") == enabled


def test_the_namespace_of_a_segment_is_unloaded():
    """No REST request unloads a single segment."""
    producer = pb.CommandProducer(
        topic="segment://public/default/orders/0000-ffff-0", producer_id=0, request_id=0, producer_name="p"
    )
    opened = (producer, pb.CommandProducerSuccess(request_id=0, producer_name="p"))
    closed = pb.CommandCloseProducer(producer_id=0, request_id=2**64 - 1)
    found = prepare(script_of(lookup(), ONE, *opened, closed, *opened), {})
    assert [call.path for calls in found.instead.values() for call in calls] == ["namespaces/public/default/unload"]
