"""Recordings of the broker's connections: captures that every tool reads, and custom taps."""

import json
import shutil
import socket
import struct
import subprocess
import threading
import urllib.parse
import urllib.request

import pytest

from pcli.codec.capture import CapturedFrame, read_capture, read_packets
from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker

LARGE = bytes(range(256)) * 3000


def said(path):
    """Return the bytes of each direction of each Pulsar stream, and the notes."""
    found, notes = {}, []
    with path.open("rb") as file:
        for event in read_capture([(path.name, file)]):
            if isinstance(event, CapturedFrame):
                key = event.stream.number, event.from_client
                found[key] = found.get(key, b"") + event.data
            else:
                notes.append(event)
    return found, notes


@pytest.fixture
def talk(tmp_path, connect):
    """A capture of two clients, with the frames that they sent and received; one message has 750 kB."""
    path = tmp_path / "talk.pcapng"
    with MiniBroker(capture=path) as broker:
        one, two = connect(broker), connect(broker)
        one.produce()
        two.subscribe()
        two.flow(100)
        for number in range(20):
            one.publish(LARGE if number == 7 else b"small", number)
        for _ in range(20):
            two.ack(two.hear(pb.CommandMessage))
        two.socket.close()
        broker.wait_until(lambda b: len(b.connections) == 1)
    one.end()
    return path, one, two


def test_a_capture_has_every_byte(talk):
    path, one, two = talk
    found, notes = said(path)
    assert notes == []
    assert found == {
        (0, True): one.sent,
        (0, False): one.received,
        (1, True): two.sent,
        (1, False): two.received,
    }
    assert LARGE in found[1, False]


def test_tshark_reads_it(talk):
    path, one, two = talk
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not here")
    columns = ["-T", "fields", "-e", "tcp.stream", "-e", "tcp.srcport", "-e", "tcp.payload"]
    done = subprocess.run([tshark, "-r", path, *columns], capture_output=True, text=True, check=True)
    bytes_of = {}
    for line in done.stdout.splitlines():
        stream, port, payload = line.split("\t")
        bytes_of[stream, port] = bytes_of.get((stream, port), b"") + bytes.fromhex(payload)
    ports = [peer.address.rpartition(":")[2] for peer in (one, two)]
    assert bytes_of["0", ports[0]] == one.sent
    assert bytes_of["1", ports[1]] == two.sent
    wrong = ["-Y", "tcp.analysis.flags or tcp.checksum.status == 0 or _ws.malformed"]
    checks = ["-o", "tcp.check_checksum:TRUE"]
    done = subprocess.run([tshark, "-r", path, *checks, *wrong], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_the_capture_contains_http(tmp_path, connect):
    """An HTTP connection between two Pulsar clients is stream 1."""
    path = tmp_path / "talk.pcapng"
    with MiniBroker(capture=path, topics=["orders"]) as broker:
        connect(broker)
        with urllib.request.urlopen(f"{broker.http_url}/admin/v2/persistent/public/default", timeout=10) as answer:
            topics = answer.read()
        last = connect(broker)
        assert [frame.connection for frame in broker.frames("pulsar.type == 'CONNECT'")] == [0, 2]
    assert json.loads(topics) == ["persistent://public/default/orders"]
    found, notes = said(path)
    assert found[2, True] == last.sent
    assert [(note.kind, note.stream.number) for note in notes] == [("http", 1)]
    data = path.read_bytes()
    assert b"GET /admin/v2/persistent/public/default HTTP/1.1" in data
    assert topics in data


def test_a_capture_is_valid_at_every_moment(tmp_path, connect):
    path = tmp_path / "talk.pcapng"
    with MiniBroker(capture=path) as broker:
        peer = connect(broker)
        peer.produce()
        peer.publish()
        found, notes = said(path)
        assert notes == []
        assert found == {(0, True): peer.sent, (0, False): peer.received}


def test_a_reset_is_captured_as_a_reset(tmp_path, connect):
    path = tmp_path / "talk.pcapng"
    with MiniBroker(capture=path) as broker:
        broker.faults.add("pulsar.type == 'LOOKUP'", "close")
        peer = connect(broker)
        peer.say(pb.CommandLookupTopic(topic="t"))
        peer.end()
        broker.wait_until(lambda b: b.connections == [])
    found, _ = said(path)
    assert found[0, True] == peer.sent


class Holding:
    """Block the broker's loop at its first connection until it is released."""

    def __init__(self):
        self.reached, self.released = threading.Event(), threading.Event()

    def opened(self, number, client, server, time_ns):
        self.reached.set()
        assert self.released.wait(10)

    def passed(self, number, data, time_ns, *, from_client):
        pass

    def closed(self, number, time_ns, *, from_client, reset, reason):
        pass


def test_clients_that_disconnect_before_they_are_accepted_have_no_address(tmp_path, connect):
    path, holding = tmp_path / "talk.pcapng", Holding()
    with MiniBroker(capture=path, taps=[holding]) as broker:
        host, port = urllib.parse.urlsplit(broker.service_url).netloc.split(":")
        with socket.create_connection((host, int(port))):
            assert holding.reached.wait(10)
            for _ in range(5):
                gone = socket.create_connection((host, int(port)))
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                gone.close()
            holding.released.set()
        peer = connect(broker)
        peer.produce()
    with path.open("rb") as file:
        clients = [packet.data[26:30] for packet in read_packets([(path.name, file)])]
    assert bytes(4) in clients
    assert [key for key in said(path)[0] if key[1]] == [(6, True)]


def test_an_unwritable_capture_prevents_the_start(tmp_path):
    with pytest.raises(LocalError, match="nowhere"):
        MiniBroker(capture=tmp_path / "nowhere" / "talk.pcapng").start()


@pytest.mark.skipif(not shutil.os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_prevents_the_start():
    with pytest.raises(LocalError, match="no space left"):
        MiniBroker(capture="/dev/full").start()


def test_a_disk_that_becomes_full_does_not_stop_the_broker(connect, full_later):
    from pcli.codec.capture.tap_recording import Recording

    recording = Recording(full_later(2000))
    with MiniBroker(taps=[recording]) as broker:
        peer = connect(broker)
        peer.produce()
        for number in range(10):
            peer.publish(b"x" * 1000, number)
        assert recording.failure.errno == 28
        assert broker.failures == []


def test_a_tap_receives_both_sides_in_order(connect, notebook):
    with MiniBroker(taps=[notebook]) as broker:
        peer = connect(broker)
        peer.socket.close()
        broker.wait_until(lambda b: b.connections == [])
        other = connect(broker)
        broker.disconnect()
        other.end()
        broker.wait_until(lambda b: len(notebook.lines) == 8)
    assert notebook.lines == [
        ("opened", 0),
        (0, True, peer.sent),
        (0, False, peer.received),
        ("closed", 0, True, False, ""),
        ("opened", 1),
        (1, True, other.sent),
        (1, False, other.received),
        ("closed", 1, False, False, "disconnected by the test"),
    ]
