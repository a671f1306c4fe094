"""Ends of TCP connections: side, cause, and position among the frames."""

from __future__ import annotations

import io

import pytest

from pcli.codec.capture import CapturedFrame, PcapngWriter, ReadOptions, StreamEnd, TcpRecorder, read_capture


@pytest.fixture
def read(w):
    """Return all events in order, from the fast and the slow path, which must agree."""

    def items(tape, **options):
        events = []
        for careful in (False, True):
            chosen = ReadOptions(ends=True, careful=careful, **options)
            events.append(list(read_capture([("", w.opened(tape))], chosen)))
        assert [short(one) for one in events[0]] == [short(one) for one in events[1]]
        return events[0]

    def short(item):
        return item.data if isinstance(item, CapturedFrame) else (type(item), item.packet)

    return items


def ends(items):
    return [item for item in items if isinstance(item, StreamEnd)]


def test_the_first_fin_is_the_end(w, read):
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(at, w.ping).send(at + len(w.ping), flags=w.FIN | w.ACK)
    tape.send(back, server=True, flags=w.FIN | w.ACK, ack=at + 1)
    items = read(tape)
    assert [type(item) for item in items] == [CapturedFrame] * 3 + [StreamEnd]
    end = items[-1]
    assert (end.stream, end.packet, end.time_ns) == (items[0].stream, 7, 7_000_000)
    assert (end.from_client, end.reset, end.refused, end.silent) == (True, False, False, False)


def test_ends_are_not_reported_without_the_option(w):
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(at, flags=w.FIN | w.ACK).send(back, server=True, flags=w.FIN | w.ACK, ack=at + 1)
    assert not ends(read_capture([("", w.opened(tape))]))


def test_data_continues_after_a_half_close(w, read):
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(at, flags=w.FIN | w.ACK).send(back, w.receipt(1), server=True, ack=at + 1)
    tape.send(back + len(w.receipt(1)), server=True, flags=w.FIN | w.ACK, ack=at + 1)
    items = read(tape)
    assert [getattr(item, "data", None) for item in items] == [w.connect, w.connected, w.receipt(1), None]
    assert items[-1].packet == 6


def test_the_broker_resets(w, read):
    tape = w.Tape()
    _, back = w.talk(tape)
    tape.send(back, server=True, flags=w.RST)
    (end,) = ends(read(tape))
    assert (end.from_client, end.reset, end.refused, end.silent) == (False, True, False, False)


def test_a_client_resets_over_ipv6(read):
    file = io.BytesIO()
    recorder = TcpRecorder(PcapngWriter(file))
    talk = recorder.open(("fe80::1", 40_001), ("fe80::2", 6650), 1_000)
    recorder.close(talk, 2_000, from_client=True, reset=True)
    (end,) = ends(read(file))
    assert (end.stream.client, end.stream.server) == (("fe80::1", 40_001), ("fe80::2", 6650))
    assert (end.time_ns, end.from_client, end.reset) == (2_000, True, True)


def test_a_reset_waits_for_data_in_flight(w, read):
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(at, flags=w.RST).send(back, w.receipt(1), server=True, ack=at).idle(40).hello(client_port=40_001)
    items = read(tape)
    assert [getattr(item, "data", None) for item in items] == [w.connect, w.connected, w.receipt(1), None]
    assert items[-1].from_client


def test_a_reset_is_reported_before_the_next_connection(w, read):
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at, flags=w.RST).hello(client_port=40_001).send(0, w.connect, client_port=40_001)
    items = read(tape)
    assert [type(item) for item in items] == [CapturedFrame, CapturedFrame, StreamEnd, CapturedFrame]


def test_the_incomplete_frame_precedes_the_reset(w, read):
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at, w.send(1, bytes(100))[:60]).send(at + 60, flags=w.RST).hello(client_port=40_001)
    items = read(tape)
    assert [type(item) for item in items] == [CapturedFrame] * 3 + [StreamEnd]
    assert items[2].capture_problems


def test_a_refused_connection(w, read):
    tape = w.Tape()
    tape.send(-1, flags=w.SYN).send(-1, server=True, flags=w.RST | w.ACK)
    (end,) = ends(read(tape))
    assert (end.from_client, end.reset, end.refused, end.silent) == (False, True, True, True)


def test_a_reset_after_the_handshake_is_not_a_refusal(w, read):
    tape = w.Tape().hello()
    tape.send(0, server=True, flags=w.RST | w.ACK)
    (end,) = ends(read(tape))
    assert (end.reset, end.refused, end.silent) == (True, False, True)


def test_a_connection_without_data(w, read):
    tape = w.Tape().hello()
    tape.send(0, flags=w.FIN | w.ACK).send(0, server=True, flags=w.FIN | w.ACK, ack=1)
    (end,) = ends(read(tape))
    assert (end.from_client, end.reset, end.refused, end.silent) == (True, False, False, True)


def test_other_protocols_end_too(w, read):
    tape = w.Tape(port=8080).hello()
    text = b"GET /admin HTTP/1.1\r\nHost: broker\r\n\r\n"
    tape.send(0, text).send(0, b"HTTP/1.1 200 OK\r\n\r\n", server=True, ack=len(text))
    tape.send(19, server=True, flags=w.FIN | w.ACK, ack=len(text))
    tape.send(len(text), flags=w.FIN | w.ACK, ack=20)
    (end,) = ends(read(tape))
    assert (end.stream.kind, end.from_client, end.silent) == ("http", False, False)


def test_the_end_is_detected_from_one_direction(w, read):
    tape = w.Tape().send(-1, flags=w.SYN).send(0, w.connect)
    tape.send(len(w.connect), flags=w.FIN | w.ACK).send(0, w.ping, client_port=40_001)
    items = read(tape)
    assert [type(item) for item in items] == [CapturedFrame, StreamEnd, CapturedFrame]


def test_a_gap_before_the_end_is_reported_first(w, read):
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(at + 500, flags=w.FIN | w.ACK).send(back, server=True, flags=w.FIN | w.ACK, ack=at + 501)
    items = read(tape)
    assert [getattr(item, "kind", "end") for item in items[2:]] == ["gap", "end"]


def test_an_open_connection_has_no_end(w, read):
    tape = w.Tape()
    w.talk(tape)
    assert ends(read(tape)) == []


def test_reused_ports_are_two_connections(w, read):
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at, flags=w.RST)
    again = w.Tape(client_isn=9_000_000, server_isn=70)
    again.packets = tape.packets
    at, _ = w.talk(again)
    again.send(at, flags=w.RST)
    items = read(again)
    assert [end.stream.number for end in ends(items)] == [0, 1]
    assert [type(item) for item in items][2] is StreamEnd
