"""Ends of connections: who closed, by FIN or RST."""

import io

from pcli.codec.capture import PcapngWriter, TcpRecorder, read_packets
from pcli.replay.player.ends import find_ends

CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 6650)
SIX = ("fe80::1", 40001), ("fe80::2", 6650)


def recorded(*deeds):
    file = io.BytesIO()
    recorder = TcpRecorder(PcapngWriter(file))
    for client, server, from_client, reset in deeds:
        talk = recorder.open(client, server, 1_000)
        recorder.close(talk, 2_000, from_client=from_client, reset=reset)
    return find_ends(read_packets([("it", io.BytesIO(file.getvalue()))]))


def test_a_client_closes():
    first, second = recorded((CLIENT, SERVER, True, False))
    assert (first.source, first.target, first.reset, first.time_ns) == (CLIENT, SERVER, False, 2_000)
    assert (second.source, second.target) == (SERVER, CLIENT)


def test_a_broker_resets():
    (end,) = recorded((CLIENT, SERVER, False, True))
    assert (end.source, end.reset) == (SERVER, True)


def test_ipv6():
    assert recorded((*SIX, True, True))[0].source == SIX[0]
