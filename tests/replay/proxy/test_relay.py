"""Two sockets and the data between them: bytes, ends, resets, and the effects of faults."""

import asyncio
import contextlib
import socket
import struct
import threading

import pytest

from pcli.codec.faults import Fault
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.proxy import ByteFault
from pcli.replay.proxy.listener import Listener
from pcli.replay.proxy.relay import Relay

CONNECT = push_frame(pb.CommandConnect(client_version="tester", protocol_version=20))
PING, PONG = push_frame(pb.CommandPing()), push_frame(pb.CommandPong())


def test_bytes_pass_in_both_directions(pair):
    client, broker = pair()
    large = push_frame(pb.CommandPing(), bytes(range(256)) * 20_000)
    for one, other in ((client, broker), (broker, client)):
        speaker = threading.Thread(target=one.send, args=(large + PING,))
        speaker.start()
        assert other.receive(len(large) + len(PING)) == large + PING
        speaker.join()


def test_the_broker_is_connected_after_the_first_frame(fake_broker, start, peers):
    client = peers(start(to=fake_broker.url).service_url)
    client.send(CONNECT[:-1])
    fake_broker.listener.settimeout(0.05)
    with pytest.raises(TimeoutError):
        fake_broker.accept()
    fake_broker.listener.settimeout(10)
    client.send(CONNECT[-1:] + PING)
    assert fake_broker.accept().receive(len(CONNECT + PING)) == CONNECT + PING


def test_a_half_closed_connection_stays_open(pair):
    for closing in (0, 1):
        ends = pair()
        one, other = ends[closing], ends[1 - closing]
        one.socket.shutdown(socket.SHUT_WR)
        assert other.end() == b""
        other.send(PONG)
        assert one.receive(len(PONG)) == PONG
        other.socket.close()
        assert one.end() == b""


def test_taps_receive_the_end_of_a_client_before_the_effects_at_the_broker(pair, notebook):
    client, broker = pair(taps=[notebook])
    client.socket.close()
    assert broker.end() == b""
    assert notebook.over.is_set()  # the broker's connection is still open
    assert notebook.lines[-1] == ("closed", 0, True, False, "")


def test_a_reset_is_forwarded_as_a_reset(pair):
    for resetting in (0, 1):
        ends = pair()
        ends[resetting].socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends[resetting].socket.close()
        with pytest.raises(ConnectionResetError):
            ends[1 - resetting].end()


def test_a_client_that_ends_before_its_first_frame(fake_broker, start, peers):
    client = peers(start(to=fake_broker.url).service_url)
    client.send(CONNECT[:-1])
    client.socket.shutdown(socket.SHUT_WR)
    assert client.end() == b""


def pour(peer):
    """Send bytes to a peer that does not read; 256 MB if the peer accepts all."""
    frame, sent = push_frame(pb.CommandPing(), bytes(1 << 20)), 0
    peer.socket.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        for _ in range(256):
            peer.socket.sendall(frame)
            sent += len(frame)
    return sent


def test_a_side_that_is_not_read_is_paused(pair):
    """The proxy's buffers are limited: the sender blocks."""
    for slow in (0, 1):
        ends = pair()
        sent = pour(ends[1 - slow])
        assert 0 < sent < 64 << 20
        assert len(ends[slow].receive(sent)) == sent


def test_delayed_output_is_limited_too(pair):
    client, _ = pair(byte_faults=[ByteFault("bandwidth=1K from=client")])
    assert 0 < pour(client) < 64 << 20


# -- faults ------------------------------------------------------------------------------------------------------------


def test_faults_by_protocol_count(start, peers, broker):
    drop = Fault("pulsar.type == 'PING'", "drop", after=1, times=2)
    error = Fault("pulsar.type == 'LOOKUP'", "error", error="TopicNotFound: gone")
    client = peers(start(faults=[drop, error]).service_url)
    client.request(pb.CommandConnect(client_version="c", protocol_version=20))
    client.send(PING * 5 + push_frame(pb.CommandLookupTopic(topic="orders", request_id=1)))
    heard = [client.frame().command for _ in range(4)]
    assert [one.lookupTopicResponse.message for one in heard if one.HasField("lookupTopicResponse")] == ["gone"]
    broker.wait_until(lambda b: len(b.frames("pulsar.type == 'PING'")) == 3)
    assert (drop.seen, drop.fired, error.seen, error.fired) == (5, 2, 1, 1)
    assert broker.frames("pulsar.type == 'LOOKUP'") == []


def test_a_cut_is_a_reset_for_both(pair):
    client, broker = pair(faults=[Fault("pulsar.type == 'PING'", "close")])
    client.send(PING)
    for end in (client, broker):
        with pytest.raises(ConnectionResetError):
            end.end()


def test_the_end_follows_delayed_bytes(pair):
    client, broker = pair(faults=[Fault("pulsar.type == 'PONG'", "delay", ms=20)])
    broker.send(PONG)
    broker.socket.shutdown(socket.SHUT_WR)
    assert client.end() == PONG


def test_slices_apply_to_the_named_side(pair, notebook):
    client, broker = pair(byte_faults=[ByteFault("slice=5 gap=1ms from=broker")], taps=[notebook])
    client.send(PING)
    assert broker.receive(len(PING)) == PING
    broker.send(PONG)
    assert client.receive(len(PONG)) == PONG
    assert notebook.lines == [
        ("opened", 0), (0, True, CONNECT), (0, True, PING), (0, False, PONG[:5]), (0, False, PONG[5:10]),
        (0, False, PONG[10:]),
    ]  # fmt: skip


def test_the_first_frame_is_complete_despite_delays(fake_broker, start, peers, monkeypatch):
    """A delayed frame arrives while the broker's socket is open but has received nothing."""
    came = threading.Event()
    connect, late = Listener.connect, wait_for(came)

    async def slow(*words):
        reason = await connect(*words)
        await late()
        return reason

    monkeypatch.setattr(Listener, "connect", slow)
    feed = Relay.wait_for_broker

    def seen(relay, first_frame, data):
        feed(relay, first_frame, data)
        if data.endswith(PING):
            came.set()

    monkeypatch.setattr(Relay, "wait_for_broker", seen)
    delay = Fault("pulsar.type == 'PING'", "delay", ms=20)
    peers(start(to=fake_broker.url, faults=[delay]).service_url).send(CONNECT + PING)
    assert fake_broker.accept().receive(len(CONNECT + PING)) == CONNECT + PING


def wait_for(event):
    """Wait in an event loop for an event of a thread."""

    async def wait():
        while not event.is_set():
            await asyncio.sleep(0.001)

    return wait


def test_a_reset_after_a_number_of_bytes(pair):
    client, broker = pair(byte_faults=[ByteFault(f"reset={len(PONG)} from=broker")])
    broker.send(PONG)
    assert client.receive(len(PONG)) == PONG
    broker.send(PONG)
    for end in (client, broker):
        with pytest.raises(ConnectionResetError):
            end.end()
