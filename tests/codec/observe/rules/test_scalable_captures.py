"""Findings in captures of V5 clients: whole captures, captures that start later, and captures of one direction."""

from __future__ import annotations

import io
import struct

import pytest

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.rules import RULES
from pcli.codec.observe.tracking.tracker import process_events

LINK_TYPE = 1  # Ethernet


def diagnosed(path):
    diagnosis = Diagnosis()
    with path.open("rb") as file:
        process_events(read_capture([(path.name, file)], ReadOptions(ends=True)), diagnosis)
    return diagnosis.findings()


@pytest.mark.parametrize(
    ("capture", "above_notes"),
    [
        ("healthy", []),
        ("checkpoint-consumer", []),
        ("auto-rebucket", []),
        ("split-merge-under-load", []),
        ("queue-dlq", []),
        ("consumers-join-leave-crash", ["segment-unattended"]),
        # the application of these captures acknowledges nothing of some segments
        ("consumers-share-segment", ["never-acked"]),
        ("namespace-consumers", ["never-acked"]),
        ("transaction-across-segments", ["never-acked"]),
        # a classic client requests the name of a scalable topic
        ("migrate", ["request-refused"]),
    ],
)
def test_the_findings_in_captures_of_v5_clients(captures_5, capture, above_notes):
    found = diagnosed(captures_5 / f"{capture}.pcap")
    assert sorted({one.rule for one in found if one.severity != "note"}) == above_notes


def test_dead_letters_of_a_scalable_topic(captures_5):
    found = [one for one in diagnosed(captures_5 / "queue-dlq.pcap") if one.rule == "poison-message"]
    assert {one.variant for one in found} == {"dead-lettered"}
    assert sum(one.count for one in found) == 2


def test_a_split_with_a_queue_consumer_and_a_classic_client(small_captures):
    """The log of the queue consumer has ten messages of the sealed segment after newer ones with their keys."""
    found = {one.rule: one for one in diagnosed(small_captures / "java5" / "split.pcap")}
    order, refused = found["key-order-across-segments"], found["scalable-name-refused"]
    assert (order.severity, order.certainty, order.count) == ("note", "certain", 10)
    assert (refused.severity, refused.cause_certainty, refused.count) == ("error", "certain", 1)
    above_notes = {rule for rule, one in found.items() if one.severity != "note"}
    assert above_notes == {"scalable-name-refused", "request-refused"}


CAPTURES = [
    "auto-rebucket", "checkpoint-consumer", "consumers-join-leave-crash", "consumers-share-segment", "healthy",
    "migrate", "namespace-consumers", "queue-dlq", "split-merge-under-load", "transaction-across-segments",
]  # fmt: skip


@pytest.mark.parametrize("tenths", [1, 4, 8])
@pytest.mark.parametrize("capture", CAPTURES)
def test_a_capture_that_starts_later_has_no_other_findings(captures_5, capture, tenths):
    path = captures_5 / f"{capture}.pcap"
    whole = {one.rule for one in diagnosed(path) if one.severity != "note"}
    packets = read_pcap(path.read_bytes())
    late = write_pcap(packets[len(packets) * tenths // 10 :])
    found = {one.rule for one in diagnosed_bytes(late) if one.severity != "note"}
    # without the SUBSCRIBEs, a reset of the cursor is taken for an unload
    assert found - whole <= ({"ack-lost"} if capture == "consumers-share-segment" else set())


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_capture_of_one_direction_reports_nothing_about_scalable_topics(captures_5, capture):
    packets = read_pcap((captures_5 / f"{capture}.pcap").read_bytes())
    for from_broker in (True, False):
        one_way = [one for one in packets if (source_port(one[16:]) == 6650) == from_broker]
        rules = {one.rule for one in diagnosed_bytes(write_pcap(one_way)) if one.severity != "note"}
        assert not {rule for rule in rules if RULES[rule].group == "scalable_topic"} - {"segment-unattended"}


def read_pcap(data):
    """Return the packets of a capture, each with its header of 16 bytes."""
    packets, at = [], 24
    while at + 16 <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        packets.append(data[at : at + 16 + size])
        at += 16 + size
    return packets


def write_pcap(packets):
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, LINK_TYPE)
    return header + b"".join(packets)


def source_port(packet):
    """Return the source port of a packet with an Ethernet header."""
    size = (packet[14] & 15) * 4
    return int.from_bytes(packet[14 + size : 16 + size], "big")


def diagnosed_bytes(data):
    diagnosis = Diagnosis()
    process_events(read_capture([("late", io.BytesIO(data))], ReadOptions(ends=True)), diagnosis)
    return diagnosis.findings()
