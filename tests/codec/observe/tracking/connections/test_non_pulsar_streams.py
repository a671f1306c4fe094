"""Other data where Pulsar is expected."""

from __future__ import annotations

import pytest

from pcli.codec.observe.tracking.connections.non_pulsar_streams import describe_length
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame

FRAME = 4  # the length in a Note includes the length prefix


@pytest.mark.parametrize(
    ("length", "word", "said"),
    [
        (369_295_616, "tls", "16 03 01 00"),
        (0x15030300, "tls", "15 03 03 00"),
        (1_195_725_856, "http", "GET "),
        (1_213_486_160, "http", "HTTP"),
        (int.from_bytes(b"hell", "big"), "text", "hell"),
        (6_000_000, "", ""),
        (0x16000000, "", ""),
    ],
)
def test_lengths_that_are_other_protocols(length, word, said):
    found = describe_length(length)
    assert found[0] == word
    assert said in found[1]


@pytest.mark.parametrize("kind", ["tls", "http"])
def test_on_the_port_of_pulsar(wire, kind):
    wire.note(kind, 0, of=kind)
    record = wire.connection()
    assert (record.kind, record.first_bytes, record.first_bytes_packet) == (kind, kind, 50)
    assert wire.capture.other_streams == {kind: 1}


def test_on_the_protocols_own_port(wire):
    wire.open(0, server=("10.0.0.2", 6651), kind="tls")
    wire.open(1, server=("10.0.0.2", 8080), kind="http")
    wire.note("tls", 0)
    wire.note("http", 1)
    wire.hello(on=2)
    assert [one.stream for group, one in wire.connections.records() if group == "connection"] == [2]
    assert wire.capture.other_streams == {"tls": 1, "http": 1}


def test_another_connection_identifies_a_pulsar_server(wire):
    server = ("10.0.0.2", 16650)
    wire.open(0, server=server, kind="tls")
    wire.note("tls", 0)
    wire.open(1, server=server)
    wire.hello(on=1)
    wire.open(2, server=server, kind="http")
    wire.note("http", 2)
    assert [wire.connection(number).first_bytes for number in range(3)] == ["tls", "", "http"]


def test_a_plain_client_on_a_tls_port(wire):
    wire.open(0, server=("10.0.0.2", 6651))
    wire.hello(answer=False)
    wire.note("length", 0, from_client=False, offset=0, length=0x15030300 + FRAME)
    assert wire.connection().first_bytes == "tls"
    assert "352,518,912" in wire.connection().first_bytes_text


def test_text_far_from_the_start_is_not_reported(wire):
    wire.hello()
    wire.note("length", 0, from_client=False, offset=7000, length=int.from_bytes(b"hell", "big") + FRAME)
    assert wire.connection().first_bytes == ""


def test_a_proxy_header_at_the_start(wire):
    wire.note("proxy-protocol", 0, of="proxy")
    assert wire.connection().first_bytes == "proxy-protocol"


HELLO = bytes.fromhex("1603010005 0100000100".replace(" ", ""))
CLIENT, BROKER = ("10.0.0.1", 40_000), ("10.0.0.2", 6650)


@pytest.mark.parametrize(
    ("data", "word"),
    [(HELLO, "tls"), (b"GET /metrics HTTP/1.1\r\n\r\n", "http"), (b"hello, is anybody there?\r\n", "other")],
)
def test_first_bytes_in_a_file(recorded, data, word):
    recorded.open(0, CLIENT, BROKER)
    recorded.say(0, data, client=True)
    recorded.end(0, client=False)
    record = recorded.connections()[0]
    assert (record.first_bytes, record.end) == (word, "fin_broker")


def test_a_tls_alert_answers_connect(recorded):
    recorded.open(0, CLIENT, ("10.0.0.2", 6651))
    recorded.say(0, pb.CommandConnect(client_version="a client"), client=True)
    recorded.say(0, bytes.fromhex("15030100020250"), client=False)
    recorded.end(0, client=False)
    record = recorded.connections()[0]
    assert record.first_bytes == "tls"
    assert "seven bytes" in record.first_bytes_text


@pytest.mark.parametrize("understood", [True, False])
def test_a_proxy_header_before_pulsar(recorded, understood):
    recorded.open(0, CLIENT, BROKER)
    header = b"PROXY TCP4 10.9.9.9 10.0.0.2 1234 6650\r\n"
    recorded.say(0, header + push_frame(pb.CommandConnect(client_version="a client")), client=True)
    if understood:
        recorded.say(0, pb.CommandConnected(server_version="a broker"), client=False)
    recorded.end(0, client=False)
    record = recorded.connections()[0]
    assert (record.first_bytes, record.kind, record.client_frames) == ("proxy-protocol", "pulsar", 1)
    assert bool(record.broker_frames) == understood
