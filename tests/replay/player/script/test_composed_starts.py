"""Captures that begin in the middle of conversations: the handshakes that later frames prove are composed."""

import pytest

from pcli.codec.capture import Packet, PcapngWriter, ReadOptions, read_capture, read_packets
from pcli.replay.player.script.build_script import build_script


@pytest.fixture
def late(tmp_path):
    """Return a capture without its first packets."""

    def cut(path, packets):
        with path.open("rb") as file:
            found = [item for item in read_packets([(path.name, file)]) if isinstance(item, Packet)]
        late = tmp_path / "late.pcapng"
        with late.open("wb") as file:
            writer = PcapngWriter(file)
            for packet in found[packets:]:
                writer.packet(packet)
        return late

    return cut


def script_of(path):
    with path.open("rb") as file:
        return build_script(list(read_capture([(path.name, file)], ReadOptions(ends=True))))


@pytest.fixture
def reconnect(small_captures):
    """A producer and a consumer whose topic is unloaded in the middle; both reconnect."""
    return small_captures / "flex" / "04-reconnect.pcapng"


# Packets before the producer, after its first SEND, among acknowledgements, and between a SEND and its receipt.
@pytest.mark.parametrize("packets", [5, 40, 50, 60, 76, 90, 100])
def test_the_rest_of_a_capture_is_replayed(late, reconnect, play, packets):
    report = play(late(reconnect, packets))
    assert report.good
    assert report.equal["MESSAGE"] > 20


# Sessions that began before the capture are omitted. Without a layout, segments are created without their topic.
@pytest.mark.parametrize("packets", [49, 99, 149, 199, 249, 299])
def test_the_rest_of_a_capture_of_a_scalable_topic_is_replayed(late, small_captures, play, packets):
    report = play(late(small_captures / "java5" / "split.pcap", packets))
    assert report.good
    assert report.equal["MESSAGE"] > 3


def test_names_and_types_are_those_of_later_frames(late, reconnect):
    script = script_of(late(reconnect, 76))
    topic = "persistent://public/flex-04-reconnect/notes"
    assert sorted(script.composed) == [
        "stream 0: CONNECT (as in frame 29)",
        f"stream 0: SUBSCRIBE 0: {topic}, subscription s, Shared, 5 permits (frame 36)",
        "stream 1: CONNECT (as in frame 29)",
        f"stream 1: PRODUCER 0: {topic}, name standalone-0-9 (by the ledger of its receipts)",
    ]
    [connect, *_] = [step for step in script.steps if step.name == "CONNECT"]
    assert connect.composed
    assert connect.frame.body.protocol_version == 17
    assert connect.frame.body.client_version == "Pulsar-Flex Nodejs Client v0.0.0"


def test_acknowledgements_of_earlier_messages_are_omitted(late, reconnect):
    script = script_of(late(reconnect, 90))
    assert script.left_out["frames about messages that were sent or delivered before the capture"] == 4


def test_producers_and_consumers_without_proof_are_omitted(small_captures, play):
    """Only the second topic's producer and consumer were opened in the capture."""
    path = small_captures / "java" / "late-capture.pcap"
    script = script_of(path)
    assert script.composed == ["stream 0: CONNECT (protocol version 21; no CONNECT from 127.0.0.1 was captured)"]
    assert {step.topic for step in script.steps if step.name == "SEND"} == {
        "persistent://public/default/late-capture-second"
    }
    reason = "frames of producers and consumers from before the capture whose names it does not show"
    assert script.left_out[reason] == 18
    assert play(path).good


def test_a_connection_that_lacks_only_its_tcp_handshake(late, reconnect):
    script = script_of(late(reconnect, 3))
    assert script.composed == []
    assert len(script.connections) == len(script_of(reconnect).connections)


def test_a_gap_still_ends_the_replay(late, reconnect, small_captures):
    path = small_captures / "python" / "37-packets-lost.pcap"
    whole, cut = script_of(path), script_of(late(path, 30))
    assert "frames from the first gap or cut packet on" in whole.left_out
    assert "frames from the first gap or cut packet on" in cut.left_out
