"""Faults injected between real clients and a real broker 4.2.4, and all findings in their captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.tracking.tracker import process_events

RECORDED = Path(__file__).parents[3] / "captures" / "faults"

STARTING = ("broker-unavailable", "", "warning", "broker", [2])
"""The client was started before the proxy listened."""

FOUND = {
    # A proxy corrupts four MESSAGEs. The client discards them and returns the permits.
    "corrupt-messages": [
        ("wrong-crc", "message", "error", "broker", [15, 16, 19, 22]),
        ("poison-message", "ChecksumMismatch", "error", "network", [17, 18, 20, 23]),
        STARTING,
    ],
    # A proxy sends the first three FLOWs twice, captured at the broker. At the end the application sleeps.
    "doubled-flow": [
        ("paused-client", "", "warning", "application", [188, 178, 189]),
        ("permits-doubled", "", "warning", "client", [16]),
        ("never-acked", "", "warning", "application", [64, 69, 70, 75]),
    ],
    # A proxy drops the receipt of sequence id 3. The client considers the connection broken and resends 3, 4, 5.
    "dropped-receipt": [
        ("receipts-out-of-order", "missing", "error", "broker", [17, 19]),
        ("resend-stored", "twice", "error", "network", [19, 27, 30]),
        STARTING,
        ("resend-stored", "blind", "note", "network", [17, 26]),
    ],
    # A proxy drops an ACK of three ids. They are redelivered when the subscription is reopened.
    "lost-ack": [
        STARTING,
        ("ack-lost", "back-again-reopened", "warning", "broker", [20, 39, 40, 41]),
        ("never-acked", "", "warning", "application", [39, 40, 41, 29]),
    ],
    # Key_Shared with the ranges 0 to 20000 and 40000 to 65535. A third consumer requests an assigned range.
    "sticky-hole": [
        ("subscribe-refused", "ConsumerAssignError", "error", "application", [28]),
        ("slots-unowned", "", "error", "application", [9, 18]),
    ],
}


@pytest.mark.parametrize("name", sorted(FOUND))
def test_exactly_the_injected_faults_are_found(name):
    diagnosis = Diagnosis()
    with (RECORDED / f"{name}.pcap").open("rb") as file:
        process_events(read_capture([(name, file)], ReadOptions(decode_as={6660: "pulsar"}, ends=True)), diagnosis)
    found = [(one.rule, one.variant, one.severity, one.culprit, one.frames[:4]) for one in diagnosis.findings()]
    assert sorted(found) == sorted(FOUND[name])
