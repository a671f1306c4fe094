"""Frames without effect, with and without an acknowledgement by TCP."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import TCP
from scapy.utils import rdpcap, wrpcap

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.tracking.tracker import process_events
from pcli.codec.proto import pb

BROKER = 6650


def lose(path: Path, marker: bytes, *, from_client: bool = True, recovers: bool = False) -> bytes:
    """The capture as if the network had lost one side's segments from the first segment with the marker on.

    The segment is retransmitted after 0.2, 0.6 and 1.4 s. If it ``recovers``, the last retransmission arrives.
    """
    packets = rdpcap(str(path))
    mine = [one for one in packets if (one[TCP].dport == BROKER) is from_client]
    first = next(one for one in mine if marker in bytes(one[TCP].payload))
    for one in packets:
        if one not in mine and (one[TCP].ack - first[TCP].seq) % 2**32 < 2**31 and not recovers:
            one[TCP].ack = first[TCP].seq
    for delay in (0.2, 0.6, 1.4):
        again = first.copy()
        again.time = first.time + delay
        packets.append(again)
    lossy = path.with_suffix(".pcap")
    wrpcap(str(lossy), sorted(packets, key=lambda one: one.time))
    return lossy.read_bytes()


@pytest.fixture
def finding(tmp_path):
    """The findings of one rule about a scene after a loss, as culprit, certainty and text."""

    def of(scene: Any, rule: str, marker: bytes, **loss: Any) -> list[tuple[str, str, str]]:
        data, diagnosis = lose(scene.write(tmp_path / "scene.pcapng"), marker, **loss), Diagnosis((rule,))
        process_events(read_capture([("", io.BytesIO(data))], ReadOptions(ends=True)), diagnosis)
        return [(one.culprit, one.cause_certainty, one.what) for one in diagnosis.findings()]

    return of


def scene_with_loss(make_scene, fault: str, tap: str = "client") -> tuple[Any, Any]:
    """A client that publishes and consumes; the fault removes what the network loses."""
    scene = make_scene(tap=tap)
    client = scene.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(10)
    client.publish(0, payload=b"first")
    client.ack(client.messages[-1].message_id)
    scene.fault(fault)
    return scene, client


def end(scene: Any, client: Any, *, heard: bool = True) -> None:
    """Pass 20 s; the broker sends a frame in that time if it is heard."""
    scene.wait(5_000)
    if heard:
        client(pb.CommandPing())
    scene.wait(20_000)
    client.producer(producer_id=9, topic="persistent://public/default/other")


@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_send_that_was_not_delivered(make_scene, finding, count):
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type == 'SEND'")
    for number in range(1, 1 + count):
        client.publish(number, payload=b"second")
    end(scene, client)
    [(culprit, certainty, what)] = finding(scene, "producer-stuck", b"second")
    assert (culprit, certainty) == ("network", "certain" if count < 50 else "likely")
    assert f"has {count} SEND" in what
    assert "TCP never acknowledged frame" in what


def test_a_send_that_tcp_acknowledged_is_a_matter_of_the_broker(make_scene, finding):
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type == 'SEND'")
    client.publish(1, payload=b"second")
    end(scene, client)
    [(culprit, certainty, _)] = finding(scene, "producer-stuck", b"second", recovers=True)
    assert (culprit, certainty) == ("broker", "likely")


def test_a_host_that_sends_nothing_since_may_have_stopped(make_scene, finding):
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type == 'SEND'")
    client.publish(1, payload=b"second")
    scene.fault("drop on pulsar.from == 'broker'")
    scene.wait(25_000)
    client.publish(2)
    [(culprit, certainty, _)] = finding(scene, "producer-stuck", b"second")
    assert (culprit, certainty) == ("network", "likely")


def test_an_ack_that_was_not_delivered(make_scene, finding):
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type == 'ACK'")
    client.publish(1, payload=b"second")
    ack = pb.CommandAck(consumer_id=1, ack_type=0, message_id=[client.messages[-1].message_id])
    client(ack)
    end(scene, client)
    [(culprit, certainty, what)] = finding(scene, "ack-lost", ack.SerializeToString())
    assert (culprit, certainty) == ("network", "certain")
    assert what.startswith("The last acknowledgements of consumer c1")


def test_messages_that_come_again_because_an_ack_was_not_delivered(make_scene, finding):
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type == 'ACK'")
    client.publish(1, payload=b"second")
    ack = pb.CommandAck(consumer_id=1, ack_type=0, message_id=[client.messages[-1].message_id])
    client(ack)
    scene.wait(5_000)
    client(pb.CommandPing())
    client.cut()
    other = scene.actor()
    other.subscribe(kind="Shared", consumer_name="c2")
    other.flow(10)
    [(culprit, certainty, what)] = finding(scene, "ack-lost", ack.SerializeToString())
    assert (culprit, certainty) == ("network", "certain")
    assert "redelivered after its connection broke" in what


def test_permits_that_were_not_delivered(make_scene, finding):
    scene = make_scene()
    client, other = scene.actor(), scene.actor()
    other.producer()
    client.subscribe()
    scene.fault("drop on pulsar.type == 'FLOW'")
    client.flow(77)
    for number in range(3):
        other.publish(number)
    end(scene, client)
    [(culprit, certainty, _)] = finding(
        scene, "dispatcher-silent", pb.CommandFlow(consumer_id=1, messagePermits=77).SerializeToString()
    )
    assert (culprit, certainty) == ("network", "certain")


def test_a_message_that_was_not_delivered(make_scene, finding):
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type == 'MESSAGE'", tap="broker")
    client.publish(1, payload=b"second")
    end(scene, client)
    [(culprit, certainty, what)] = finding(scene, "never-acked", b"second", from_client=False)
    assert (culprit, certainty) == ("network", "certain")
    assert "the client did not receive it" in what


def test_a_request_that_was_not_delivered(make_scene, finding):
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type == 'GET_LAST_MESSAGE_ID'")
    ask = pb.CommandGetLastMessageId(consumer_id=1, request_id=55)
    client(ask)
    end(scene, client)
    [(culprit, certainty, _)] = finding(scene, "answers-missing", ask.SerializeToString())
    assert (culprit, certainty) == ("network", "certain")


@pytest.mark.parametrize("seconds", [0.02, 0.05])
def test_a_capture_that_contains_each_packet_twice_shows_no_loss(make_scene, tmp_path, seconds):
    """The capture ends before the acknowledgement of the last bytes."""
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type == 'SEND'")
    client.publish(1, payload=b"second")
    packets = rdpcap(str(scene.write(tmp_path / "scene.pcapng")))
    last = max(number for number, one in enumerate(packets) if b"second" in bytes(one))
    twice = [one.copy() for one in packets[: last + 1]]
    for one in twice:
        one.time += seconds
    path = tmp_path / "twice.pcap"
    wrpcap(str(path), sorted([*packets[: last + 1], *twice], key=lambda one: one.time))
    found = read_capture([("", io.BytesIO(path.read_bytes()))])
    assert [one for one in found if getattr(one, "kind", "") == "unacknowledged"] == []


def test_a_frame_that_was_under_way_does_not_show_that_the_host_runs(make_scene, finding):
    """A receipt arrives 20 ms after the lost SEND; then the host stops."""
    scene, client = scene_with_loss(make_scene, "delay ms=20 times=1 on pulsar.type == 'SEND_RECEIPT'")
    client.publish(1, payload=b"answered")
    scene.fault("drop on pulsar.type == 'SEND'")
    client.publish(2, payload=b"second")
    scene.wait(20)
    scene.fault("drop on pulsar.from == 'broker'")
    scene.wait(25_000)
    client.publish(3)
    [(culprit, certainty, what)] = finding(scene, "producer-stuck", b"second")
    assert (culprit, certainty) == ("network", "likely")
    assert "did not receive it" not in what


def test_only_the_first_lost_segment_is_retransmitted(make_scene, finding):
    scene, client = scene_with_loss(make_scene, "drop on pulsar.type in {'SEND', 'GET_LAST_MESSAGE_ID'}")
    client.publish(1, payload=b"second")
    sent = len(scene.frames)
    client(pb.CommandGetLastMessageId(consumer_id=1, request_id=55))
    end(scene, client)
    [(_, _, what)] = finding(scene, "answers-missing", b"second")
    assert f"TCP never acknowledged frame {sent + 1}, although frame {sent} was retransmitted" in what


def test_an_old_ack_at_the_end_takes_no_acknowledgement_back(make_scene, tmp_path):
    """The retransmissions were unnecessary, and the last packet of the capture is an older ACK."""
    scene = make_scene()
    client = scene.actor()
    client.producer()
    client.publish(0, payload=b"first")
    client.publish(1, payload=b"second")
    scene.wait(2_000)
    client(pb.CommandPing())
    packets = list(rdpcap(str(scene.write(tmp_path / "scene.pcapng"))))
    first = next(one for one in packets if b"second" in bytes(one[TCP].payload))
    old = next(one for one in reversed(packets) if one[TCP].sport == BROKER and one[TCP].ack <= first[TCP].seq).copy()
    old[TCP].remove_payload()
    old.time = packets[-1].time + 0.00001
    for delay in (0.2, 0.6):
        again = first.copy()
        again.time = first.time + delay
        packets.append(again)
    path = tmp_path / "scene.pcap"
    wrpcap(str(path), [*sorted(packets, key=lambda one: one.time), old])
    found = read_capture([("", io.BytesIO(path.read_bytes()))])
    assert [one for one in found if getattr(one, "kind", "") == "unacknowledged"] == []


def silent_after_loss(make_scene, *, permits: int = 10, before_ms: int = 0, acks: bool = False) -> Any:
    """A consumer that holds a message. Its client loses a SEND, and then sends an ACK or nothing; the broker is silent.

    Messages wait for it from ``before_ms`` before the loss on.
    """
    scene = make_scene()
    client, other = scene.actor(), scene.actor()
    client.producer(topic="persistent://public/default/lost")
    client.subscribe(kind="Shared")
    client.flow(permits)
    other.producer(producer_id=2)
    other.publish(0, producer_id=2)
    scene.fault("drop on pulsar.type == 'MESSAGE' or (pulsar.type == 'SEND' and pulsar.topic contains 'lost')")
    for number in range(1, 4):
        other.publish(number, producer_id=2)
    scene.wait(before_ms)
    client.publish(0, payload=b"second")
    if acks:
        scene.fault("drop on pulsar.type == 'ACK'")
        client.ack(client.messages[-1].message_id)
    end(scene, client)
    return scene


@pytest.mark.parametrize(
    ("rule", "permits", "before_ms", "culprits"),
    [
        ("never-acked", 10, 0, ["network"]),
        ("never-acked", 10, 10_000, ["application"]),
        ("stuck-unacked-limit", 10, 0, []),
        ("stuck-unacked-limit", 10, 10_000, ["application"]),
        ("dispatcher-silent", 10, 0, ["network"]),
        ("dispatcher-silent", 10, 10_000, []),
        ("paused-client", 1, 0, ["network"]),
        ("paused-client", 1, 10_000, ["application"]),
    ],
)
def test_what_is_missing_after_a_loss_may_wait_for_tcp(make_scene, finding, rule, permits, before_ms, culprits):
    found = finding(silent_after_loss(make_scene, permits=permits, before_ms=before_ms), rule, b"second")
    assert [(culprit, certainty) for culprit, certainty, _ in found] == [(one, "likely") for one in culprits]


@pytest.mark.parametrize(("before_ms", "culprits"), [(2_000, []), (10_000, ["application"])])
def test_a_lost_ack_ends_no_block(make_scene, finding, before_ms, culprits):
    scene = silent_after_loss(make_scene, before_ms=before_ms, acks=True)
    assert [culprit for culprit, _, _ in finding(scene, "stuck-unacked-limit", b"second")] == culprits
