"""The two connections of a proxied conversation are paired."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.hot import push_send

CLIENT, PROXY, BROKER = ("10.0.0.1", 40_000), ("10.0.0.5", 6650), ("10.0.0.2", 6650)
URL = "pulsar://10.0.0.2:6650"


def through(wire, front, back, first, second=None):
    """CONNECTs and the first frames after them, on both sides of a proxy."""
    wire.hello(on=0, answer=False, **front)
    wire.hello(on=1, **back)
    wire.broker(connected(), on=0)
    wire.client(first, on=0)
    wire.client(first if second is None else second, on=1)


def connected():
    return pb.CommandConnected(server_version="a broker", protocol_version=21)


@pytest.fixture
def proxied(wire):
    wire.open(0, CLIENT, PROXY)
    wire.open(1, ("10.0.0.5", 50_000), BROKER)
    return wire


def test_through_a_pulsar_proxy(proxied, say):
    through(proxied, {"proxy_to_broker_url": URL}, {"original_principal": "me"}, say("LookupTopic"))
    proxied.broker(say("LookupTopicResponse"), on=1)
    proxied.broker(say("LookupTopicResponse"), on=0)
    assert proxied.counted == [True, True, True, True, True, False, False, True]
    front, back = proxied.connection(0), proxied.connection(1)
    assert (front.leg_of, back.leg_of) == (-1, 0)
    assert front.other_leg is back
    assert back.other_leg is front
    assert proxied.exchange("LOOKUP", on=0).answered == 1
    assert ("LOOKUP", 1) not in [
        (one.type, one.stream) for group, one in proxied.connections.records() if group == "exchange"
    ]
    proxied.end(on=1)
    proxied.end(on=0)
    assert [end[0] for end in proxied.ends] == [0]


def test_through_a_tcp_proxy(proxied, say):
    through(proxied, {}, {}, say("Producer"))
    assert proxied.connection(1).leg_of == 0


def test_the_url_identifies_the_proxy_without_addresses(wire, say):
    wire.open(0, CLIENT, ("192.168.7.7", 6650))
    wire.open(1, ("10.0.0.5", 50_000), BROKER)
    through(wire, {"proxy_to_broker_url": URL}, {}, say("Producer"))
    assert wire.connection(1).leg_of == 0


def test_different_first_frames_are_not_paired(proxied, say):
    through(proxied, {"proxy_to_broker_url": URL}, {}, say("Producer"), say("Producer", topic="other"))
    assert proxied.connection(1).leg_of == -1
    assert all(proxied.counted)


def test_different_connects_without_url_are_not_paired(proxied, say):
    through(proxied, {}, {"client_version": "another"}, say("Producer"))
    assert proxied.connection(1).leg_of == -1


def test_the_proxy_connects_during_the_clients_handshake(proxied, say):
    proxied.hello(on=0, proxy_to_broker_url=URL)
    proxied.hello(on=1)
    proxied.client(say("Producer"), on=0)
    proxied.client(say("Producer"), on=1)
    assert proxied.connection(1).leg_of == -1


def test_a_url_without_a_proxy(wire, say):
    """pulsar-rs writes the address of the broker to which it is connected."""
    through(wire, {"proxy_to_broker_url": URL}, {"proxy_to_broker_url": URL}, say("Producer"))
    assert [wire.connection(number).leg_of for number in (0, 1)] == [-1, -1]


def test_rust_clients_have_no_proxies(corpus):
    from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
    from pcli.codec.observe.tracking.records.connection_records import CaptureRecord

    links = ConnectionTracker(CaptureRecord(), on_end=lambda *_: None)
    seen = [links.see(facts) for facts in corpus.facts("rust/partitions")]
    assert all(seen)


def test_both_connections_in_a_file(recorded, say):
    recorded.open(0, CLIENT, PROXY)
    recorded.say(0, pb.CommandConnect(client_version="a client", proxy_to_broker_url=URL), client=True)
    recorded.open(1, ("10.0.0.5", 50_000), BROKER)
    recorded.say(1, pb.CommandConnect(client_version="a client", original_principal="me"), client=True)
    recorded.say(1, connected(), client=False)
    recorded.say(0, connected(), client=False)
    send = push_send(1, 0, 1, 0, b"\x0a\x01p\x10\x00\x18\x00", b"payload")
    for frame, damaged in ((push_frame(say("Producer")), None), (send, send[:-1] + b"X")):
        recorded.say(0, frame, client=True)
        recorded.say(1, damaged or frame, client=True)
    front, back = recorded.connections().values()
    assert (front.leg_of, back.leg_of) == (-1, 0)
    assert (list(front.wrong_crc), list(back.wrong_crc)) == ([], [True])
