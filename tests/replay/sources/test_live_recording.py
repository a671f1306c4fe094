"""Live recordings on loopback with the real programs; skipped if none is installed or permitted."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.errors import CaptureError
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.replay.sources import capture_sources, scapy_capture
from pcli.replay.sources.capture_sources import open_interface
from pcli.replay.sources.live_recording import _ProgramOutput, record
from pcli.replay.sources.scapy_capture import has_scapy

PROGRAMS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("dumpcap", "tcpdump")
]


def talk(server, stop):
    """A CONNECT and a PING a few times a second."""
    while not stop.wait(0.2):
        with socket.create_connection(server.getsockname()) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(push_frame(pb.CommandConnect(client_version="live", protocol_version=21)))
                client.sendall(push_frame(pb.CommandPing()))
                accepted.recv(1000)


@pytest.fixture
def talking():
    """Produce Pulsar traffic on loopback during the test; yield its capture filter."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        talker = threading.Thread(target=talk, args=(server, stop))
        talker.start()
        yield f"tcp port {server.getsockname()[1]}"
        stop.set()
        talker.join()


@contextlib.contextmanager
def if_allowed():
    """Skip if live captures are not permitted, or if scapy lacks libpcap; any other error is a failure."""
    try:
        yield
    except CaptureError as error:
        if any(word in str(error).lower() for word in ("permission", "not permitted", "needs libpcap")):
            pytest.skip(f"no live capture here: {error}")
        raise


@contextlib.contextmanager
def refused(match):
    """Expect a CaptureError. Skip if live captures are not permitted."""
    with pytest.raises(CaptureError, match=match), if_allowed():
        yield


@pytest.fixture
def only(monkeypatch):
    """Hide every capture program except this one, or all if None."""
    real = shutil.which

    def hide(program):
        monkeypatch.setattr(capture_sources.shutil, "which", lambda name: real(name) if name == program else None)

    return hide


def live_types(path):
    with path.open("rb") as file:
        events = list(read_capture([("live", file)]))
    assert not [event for event in events if not isinstance(event, CapturedFrame) and event.kind == "file"]
    return {event.type for event in events if isinstance(event, CapturedFrame)}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_recording_is_a_complete_file_with_counts(tmp_path, only, talking, program):
    only(program)
    path = tmp_path / "live.pcap"
    counts = []
    with if_allowed():
        done = record("lo", str(path), capture_filter=talking, duration=3.5, on_count=counts.append)
    assert done.program == program
    assert done.packets > 0
    assert done.dropped == 0
    assert counts
    assert live_types(path) == {2, 18}


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_unknown_interface_is_an_error(tmp_path, only, program):
    only(program)
    with refused(r"nosuch0: .*[Nn]o such device"):
        record("nosuch0", str(tmp_path / "x.pcap"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_invalid_filter_is_an_error(tmp_path, only, program):
    only(program)
    with pytest.raises(CaptureError, match="filter") as told, if_allowed():
        record("lo", str(tmp_path / "x.pcap"), capture_filter="tcp prot 6650")
    assert str(told.value).startswith("lo: ")


def program_that(tmp_path, monkeypatch, name, script):
    """Install a fake capture program that behaves like a real one in rare cases."""
    (tmp_path / name).write_text(f"#!{sys.executable}\nimport os, signal, sys\n{script}\n")
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


# The message of dumpcap 4.0 for a full disk.
FULL = (
    "Capturing on 'Loopback: lo'\nFile: x\n"
    'dumpcap: Not all the packets could be written ("x") because there is no space left\non which it resides.\n'
    "Packets: 81 Packets captured: 81\n"
    "Packets received/dropped on interface 'Loopback: lo': 81/1 (pcap:0/dumpcap:1/flushed:0/ps_ifdrop:0) (98.8%)\n"
)


def test_a_full_disk_is_an_error_with_the_counts_so_far(tmp_path, monkeypatch):
    program_that(tmp_path, monkeypatch, "dumpcap", f"sys.stderr.write({FULL!r})\nsys.exit(1)")
    with pytest.raises(CaptureError) as told:
        record("lo", str(tmp_path / "x.pcap"))
    assert str(told.value) == (
        'lo: dumpcap: Not all the packets could be written ("x") because there is no space left on which it resides. '
        "(81 packets captured, 1 dropped)"
    )


@pytest.mark.skipif(shutil.which("dumpcap") is None, reason="dumpcap is not installed")
def test_a_full_file_system_is_an_error(talking, only):
    only("dumpcap")
    with refused(r"no space left.*\d+ packets captured"):
        record("lo", "/dev/full", duration=3)


def test_a_full_disk_is_detected_by_the_packets_in_the_file(tmp_path, monkeypatch, small_captures):
    path, whole = tmp_path / "x.pcap", small_captures / "go" / "nack.pcap"
    copy = f"import shutil; shutil.copy({str(whole)!r}, {str(path)!r})\n"
    program_that(tmp_path, monkeypatch, "tcpdump", copy + "sys.stderr.write('9999 packets captured\\n')")
    with pytest.raises(CaptureError, match=r"only \d+ packets are in the file: is the disk full\? \(9999 packets"):
        record("lo", str(path))
    program_that(tmp_path, monkeypatch, "tcpdump", copy + "sys.stderr.write('5 packets captured\\n')")
    assert record("lo", str(path)).packets == 5


def test_only_a_requested_end_is_a_success(tmp_path, monkeypatch):
    program_that(tmp_path, monkeypatch, "dumpcap", "os.kill(os.getpid(), signal.SIGTERM)")
    with pytest.raises(CaptureError, match="lo: dumpcap failed"):
        record("lo", str(tmp_path / "x.pcap"))
    program_that(tmp_path, monkeypatch, "dumpcap", "sys.stderr.write('Capturing on x\\n')\nsignal.pause()")
    assert record("lo", str(tmp_path / "x.pcap"), duration=0.5).packets == 0


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_during_the_start_leaves_no_program_running(tmp_path, monkeypatch):
    """The process exists, but Popen has not returned yet."""
    start = subprocess.Popen._execute_child
    started = []

    def interrupted(process, *words):
        start(process, *words)
        started.append(process.pid)
        signal.raise_signal(signal.SIGINT)

    program_that(tmp_path, monkeypatch, "dumpcap", "sys.stderr.write('Capturing on x\\n')\nsignal.pause()")
    monkeypatch.setattr(subprocess.Popen, "_execute_child", interrupted)
    assert record("lo", str(tmp_path / "x.pcap")).packets == 0
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


SCAPY = [
    pytest.mark.skipif(not has_scapy(), reason="the extra pulsar-pcli[capture] is not installed"),
    pytest.mark.filterwarnings("ignore"),
]


class TestScapy:
    """Neither dumpcap nor tcpdump is installed."""

    pytestmark = SCAPY

    def test_a_recording(self, tmp_path, only, talking):
        only(None)
        path, counts = tmp_path / "live.pcap", []
        with if_allowed():
            done = record("lo", str(path), capture_filter=talking, duration=2, on_count=counts.append)
        assert (done.program, done.packets, done.dropped) == ("scapy", counts[-1], None)
        assert live_types(path) == {2, 18}

    @pytest.mark.parametrize(("interface", "chosen"), [("nosuch0", "tcp"), ("lo", "tcp prot 6650")])
    def test_a_failed_start_leaves_no_file(self, tmp_path, only, interface, chosen):
        only(None)
        path = tmp_path / "x.pcap"
        with refused(f"{interface}: .*(not found|filter)"):
            record(interface, str(path), capture_filter=chosen)
        assert not path.exists()

    def test_a_full_disk(self, only, talking):
        only(None)
        with refused("/dev/full: no space left on device"):
            record("lo", "/dev/full", capture_filter="tcp")

    def test_a_missing_folder_is_an_error(self, tmp_path, only):
        only(None)
        with refused("no such file or directory"):
            record("lo", str(tmp_path / "none" / "x.pcap"))

    def test_a_live_interface(self, only, talking):
        only(None)
        with if_allowed(), open_interface("lo", talking) as file:
            types = set()
            for event in read_capture([("lo", file)]):
                if isinstance(event, CapturedFrame):
                    types.add(event.type)
                if len(types) == 2:
                    break
        assert types == {2, 18}

    @pytest.mark.parametrize(("interface", "chosen"), [("nosuch0", "tcp"), ("lo", "tcp prot 6650")])
    def test_a_live_interface_that_fails(self, only, interface, chosen):
        only(None)
        with refused(f"{interface}: "), open_interface(interface, chosen):
            pass

    def test_a_filter_without_libpcap(self, tmp_path, only, monkeypatch):
        """The error of scapy when it cannot load libpcap, which it needs only for filters."""
        from scapy.error import Scapy_Exception

        def listen(**_):
            raise Scapy_Exception("libpcap is not available. Cannot compile filter !")

        only(None)
        monkeypatch.setattr("scapy.interfaces.resolve_iface", lambda _: SimpleNamespace(l2listen=lambda: listen))
        monkeypatch.setattr(scapy_capture, "find_library", lambda _: None)
        with pytest.raises(CaptureError) as told:
            record("lo", str(tmp_path / "x.pcap"), capture_filter="tcp port 6650")
        assert str(told.value) == (
            "lo: a capture filter with scapy needs libpcap: install libpcap0.8 (Debian, Ubuntu) or libpcap (Fedora, "
            "Alpine), or install tcpdump"
        )


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_live_interface(only, talking, program):
    only(program)
    with if_allowed(), open_interface("lo", talking) as file:
        first = next(event for event in read_capture([("lo", file)]) if isinstance(event, CapturedFrame))
    assert first.type in (2, 18)


def test_counts_are_read_from_the_programs_output():
    counts = []
    output = _ProgramOutput(counts.append)
    for piece in (b"Capturing on 'Loopback: lo'\r\nPack", b"ets: 3 \rPackets: 12 \r", b"Packets captured: 14\n"):
        output.feed(piece)
    output.feed(b"Packets received/dropped on interface 'Loopback: lo': 14/2 (pcap:2/dumpcap:0/flushed:0) (87.5%)\n")
    assert counts == [3, 12, 14]
    assert (output.packets, output.dropped) == (14, 2)
    tcpdump = _ProgramOutput(counts.append)
    tcpdump.feed(b"tcpdump: 5 packets captured, 10 packets received by filter, 0 packets dropped by kernel\n")
    tcpdump.feed(b"7 packets captured\n14 packets received by filter\n1 packet dropped by kernel\n")
    assert (tcpdump.packets, tcpdump.dropped) == (7, 1)
