"""The scapy layer, on real captures and in crafted packets."""

from collections import Counter

import pytest

pytest.importorskip("scapy", reason="the extra pulsar-pcli[capture] is not installed")

from pcli.codec.wire import name_of


@pytest.mark.parametrize("name", ["java/txn-commit.pcap", "go/nack.pcap", "python/02-batched-keys-properties.pcap"])
@pytest.mark.filterwarnings("ignore")
def test_frames_of_a_capture(small_captures, name):
    import json

    from scapy.sendrecv import sniff
    from scapy.sessions import TCPSession

    from pcli.replay.scapy_layer import frames_in

    capture = small_captures / name
    truth = json.loads((capture.parent / f"{capture.stem}.truth.json").read_text())["frames_by_type"]
    found = {"client": Counter(), "broker": Counter()}
    for packet in sniff(offline=str(capture), session=TCPSession):
        for layer in frames_in(packet):
            found["client" if packet["TCP"].dport == 6650 else "broker"][name_of(layer.frame.type)] += 1
    assert found == truth


@pytest.mark.filterwarnings("ignore")
def test_a_crafted_packet():
    from scapy.layers.inet import IP, TCP

    from pcli.replay.scapy_layer import Pulsar

    packet = IP() / TCP() / Pulsar(body=bytes.fromhex("0812920100"))
    assert bytes(packet[Pulsar]).hex() == "00000009000000050812920100"
    assert packet[Pulsar].frame.command.HasField("ping")
    assert packet.summary().endswith("Pulsar PING")
