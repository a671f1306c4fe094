"""Live recordings on loopback, by the real programs; nothing to test where none is installed or allowed."""

import shutil
import socket
import threading
import time

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.errors import CaptureError
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.replay import sources
from pcli.replay.recording import _Said, record

PROGRAMS = [name for name in ("dumpcap", "tcpdump") if shutil.which(name)]


def talk(stop):
    """A CONNECT and a PING a few times a second, on some port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        while not stop.wait(0.2):
            with socket.create_connection(server.getsockname()) as client:
                accepted, _ = server.accept()
                with accepted:
                    client.sendall(push_frame(pb.CommandConnect(client_version="live", protocol_version=21)))
                    client.sendall(push_frame(pb.CommandPing()))
                    accepted.recv(1000)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_recording_is_a_whole_file_with_its_counts(tmp_path, monkeypatch, program):
    real = shutil.which
    monkeypatch.setattr(sources.shutil, "which", lambda name: real(name) if name == program else None)
    stop = threading.Event()
    talker = threading.Thread(target=talk, args=(stop,))
    talker.start()
    path = tmp_path / "live.pcap"
    counts = []
    try:
        done = record("lo", str(path), capture_filter="tcp", duration=3.5, on_count=counts.append)
    except CaptureError as error:
        pytest.skip(f"no live capture here: {error}")
    finally:
        stop.set()
        talker.join()
    assert done.program == program
    assert done.packets > 0
    assert done.dropped == 0
    assert counts
    with path.open("rb") as file:
        events = list(read_capture([("live", file)]))
    assert {event.type for event in events if isinstance(event, CapturedFrame)} == {2, 18}
    assert not [event for event in events if not isinstance(event, CapturedFrame) and event.kind == "file"]


@pytest.mark.skipif(not PROGRAMS, reason="neither tcpdump nor dumpcap is installed")
def test_an_interface_that_is_not_there(tmp_path):
    started = time.monotonic()
    with pytest.raises(CaptureError, match="nosuch0: "):
        record("nosuch0", str(tmp_path / "x.pcap"), duration=20)
    assert time.monotonic() - started < 15


def test_counts_are_read_from_what_the_programs_say():
    counts = []
    said = _Said(counts.append)
    for piece in (b"Capturing on 'Loopback: lo'\r\nPack", b"ets: 3 \rPackets: 12 \r", b"Packets captured: 14\n"):
        said.feed(piece)
    said.feed(b"Packets received/dropped on interface 'Loopback: lo': 14/2 (pcap:2/dumpcap:0/flushed:0) (87.5%)\n")
    assert counts == [3, 12, 14]
    assert (said.packets, said.dropped) == (14, 2)
    tcpdump = _Said(counts.append)
    tcpdump.feed(b"tcpdump: 5 packets captured, 10 packets received by filter, 0 packets dropped by kernel\n")
    tcpdump.feed(b"7 packets captured\n14 packets received by filter\n1 packet dropped by kernel\n")
    assert (tcpdump.packets, tcpdump.dropped) == (7, 1)
