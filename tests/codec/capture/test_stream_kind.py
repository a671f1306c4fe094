"""The kind of a stream, determined from its packets."""

from __future__ import annotations

import pytest


def test_a_proxy_header_before_pulsar(w):
    header = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"
    tape = w.Tape().hello().send(0, header + w.connect).send(0, w.connected, server=True, ack=1)
    frames, notes = w.read(tape)
    assert [frame.data for frame in frames] == [w.connect, w.connected]
    assert frames[0].offset == len(header)
    assert frames[0].stream.kind == "pulsar"
    assert [note.kind for note in notes] == ["proxy-protocol"]
    assert "192.168.0.1:56324" in notes[0].text
    assert notes[0].length == len(header)


def test_a_proxy_header_in_single_bytes(w):
    stream = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12) + w.connect
    tape = w.Tape().hello()
    for at in range(len(stream)):
        tape.send(at, stream[at : at + 1])
    frames, notes = w.read(tape)
    assert [frame.data for frame in frames] == [w.connect]
    assert [note.kind for note in notes] == ["proxy-protocol"]


def test_a_proxy_header_before_tls(w):
    tape = w.Tape().hello().send(0, b"PROXY UNKNOWN\r\n\x16\x03\x01\x00\x05hello")
    frames, notes = w.read(tape)
    assert frames == []
    assert [note.kind for note in notes] == ["proxy-protocol", "tls"]


@pytest.mark.parametrize(
    ("data", "kind", "stream"),
    [
        (b"\x16\x03\x01\x00\x05hello", "tls", "tls"),
        (b"GET / HTTP/1.1\r\n\r\n", "http", "http"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "not-pulsar", "other"),
    ],
)
def test_another_protocol_is_reported_once(w, data, kind, stream):
    tape = w.Tape().hello().send(0, data).send(0, data, server=True, ack=len(data))
    for number in range(1, 50):
        tape.send(number * len(data), data).send(number * len(data), data, server=True)
    frames, notes = w.read(tape)
    assert frames == []
    assert [(note.kind, note.stream.kind) for note in notes] == [(kind, stream)]
    assert "\n" not in notes[0].text


def test_the_port_does_not_determine_the_kind(w):
    tape = w.Tape(port=12345).hello().send(0, w.connect)
    assert [frame.data for frame in w.read(tape)[0]] == [w.connect]


def test_a_midstream_stream_of_another_protocol_is_skipped(w):
    tape = w.Tape(port=12345)
    for number in range(80):
        tape.send(number * 1000, b"lorem ips " * 100)
    frames, notes = w.read(tape)
    assert frames == []
    assert [note.kind for note in notes] == ["not-pulsar"]


def test_the_search_continues_on_the_known_port(w):
    tape = w.Tape()
    for number in range(80):
        tape.send(number * 1000, b"lorem ips " * 100)
    tape.send(80_000, w.send(1) + w.send(2))
    frames, notes = w.read(tape)
    assert [frame.data for frame in frames] == [w.send(1), w.send(2)]
    assert [(note.kind, note.length) for note in notes] == [("resync", 80_000)]


def test_a_midstream_payload_that_resembles_http(w):
    """The capture starts inside a message whose payload is an HTTP request."""
    tape = w.Tape().send(5, b"GET / HTTP/1.1\r\n\r\n" + w.send(1) + w.send(2)).idle(100)
    assert [frame.data for frame in w.read(tape)[0]] == [w.send(1), w.send(2)]


def test_decode_as_determines_the_kind(w):
    tape = w.Tape(port=7000).hello().send(0, b"??" + w.send(1) + w.send(2))
    assert w.read(tape)[0] == []
    frames, _ = w.read(tape, decode_as={7000: "pulsar"})
    assert [frame.data for frame in frames] == [w.send(1), w.send(2)]
    tape = w.Tape().hello().send(0, w.connect)
    assert w.read(tape, decode_as={6650: "tls"})[1][0].kind == "tls"


def test_the_server_responds_in_another_protocol(w, kinds):
    """An HTTP server listens on the port: the client's frames are still extracted."""
    tape = w.Tape().hello().send(0, w.connect).send(0, b"HTTP/1.1 400 Bad Request\r\n\r\n", server=True, ack=9)
    frames, notes = w.read(tape)
    assert [frame.data for frame in frames] == [w.connect]
    assert kinds(notes)[:1] == ["length"]
