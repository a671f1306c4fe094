"""`pcli proxy` in its own process, in front of a broker in the process of the tests."""

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader


class Running:
    """A running proxy with one client."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "pcli.cli", "proxy", "--listen", "0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = self.process.stdout.readline()
        self.port = int(re.search(r"pulsar(?:\+ssl)?://127\.0\.0\.1:(\d+)", self.first)[1])
        self.line = socket.create_connection(("127.0.0.1", self.port), 10)
        self.reader = FrameReader()

    def ask(self, body):
        """Send the command; return the response."""
        self.line.sendall(push_frame(body))
        frames = []
        while not frames:
            data = self.line.recv(1 << 16)
            assert data, "the connection ended"
            frames = self.reader.feed(data)
        return Frame.of(frames[-1].data).command

    def connect(self):
        return self.ask(pb.CommandConnect(client_version="tester", protocol_version=20))

    def stop(self, number=signal.SIGINT):
        """Return the exit code and the output."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        assert "Traceback" not in err, err
        return self.process.returncode, self.first + out, err


@pytest.fixture
def start(broker, running):
    def go(*arguments, to=broker.service_url):
        running.append(Running("--to", to, *arguments))
        return running[-1]

    return go


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_the_conversation(start, number):
    proxy = start()
    proxy.connect()
    answer = proxy.ask(pb.CommandLookupTopic(topic="orders", request_id=1)).lookupTopicResponse
    assert answer.brokerServiceUrl == f"pulsar://127.0.0.1:{proxy.port}"
    code, out, err = proxy.stop(number)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"proxy service URL  pulsar://127.0.0.1:{proxy.port}"
    assert [line.split()[4:6] for line in lines[1:]] == [
        ["→", "CONNECT"],
        ["←", "CONNECTED"],
        ["→", "LOOKUP"],
        ["←", "LOOKUP_RESPONSE"],
    ]


def test_as_json_and_filtered(start):
    proxy = start("-T", "json", "-Y", "pulsar.type == 'PONG'")
    proxy.connect()
    proxy.ask(pb.CommandPing())
    rows = [json.loads(line) for line in proxy.stop()[1].splitlines()]
    assert set(rows[0]) == {"service_url", "pid"}
    assert [row["pulsar.type"] for row in rows[1:]] == ["PONG"]


def test_events(start):
    proxy = start("--log", "events")
    proxy.connect()
    proxy.line.shutdown(socket.SHUT_WR)
    assert proxy.line.recv(1) == b""
    lines = proxy.stop()[1].splitlines()[1:]
    for line, word in zip(lines, (" connected", "→ CONNECT ", " closed by the client"), strict=True):
        assert word in line


def test_a_recording_is_dissected(start, pcli, tmp_path):
    path = tmp_path / "talk.pcapng"
    proxy = start("-w", path)
    proxy.connect()
    proxy.ask(pb.CommandPing())
    code, out, _ = proxy.stop()
    assert code == 0
    result = pcli("dissect", "-r", path)
    assert result.code == 0
    plain = [[re.sub(r"\d+\.\d+ |  \(.*ms\)", "", line).split() for line in lines] for lines in (
        out.splitlines()[1:], result.lines)]  # fmt: skip
    assert plain[0] == plain[1]
    assert len(result.lines) == 4


def test_the_counts_of_a_fault_are_printed_at_the_end(start, broker):
    proxy = start(
        "--log", "quiet", "--fault", "drop after=1 times=1 on pulsar.type == 'PING'", "--bytes", "latency=1ms"
    )
    proxy.connect()
    proxy.ask(pb.CommandPing())
    proxy.line.sendall(push_frame(pb.CommandPing()))
    proxy.ask(pb.CommandPing())
    code, out, err = proxy.stop()
    assert (code, len(out.splitlines())) == (0, 1)
    assert err.splitlines() == [
        "pcli: Fault(drop on pulsar.type == 'PING'; 3 seen, fired 1 of 1)",
        "pcli: ByteFault(latency=1ms; 1 connections seen, fired 1)",
    ]
    assert len(broker.frames("pulsar.type == 'PING'")) == 2


def test_an_unreachable_broker_is_reported_and_the_proxy_continues(start):
    gone = socket.create_server(("127.0.0.1", 0))
    port = gone.getsockname()[1]
    gone.close()
    proxy = start("--log", "quiet", to=f"127.0.0.1:{port}")
    proxy.line.sendall(push_frame(pb.CommandConnect(client_version="tester")))
    with pytest.raises(ConnectionResetError):
        proxy.line.recv(1)
    code, _, err = proxy.stop()
    assert (code, err) == (0, f"pcli: no broker at pulsar://127.0.0.1:{port}: connection refused\n")


def test_a_closed_stdout_ends_it(start):
    proxy = start()
    proxy.process.stdout.close()
    proxy.process.stdout = None
    proxy.line.sendall(push_frame(pb.CommandConnect(client_version="tester")))
    assert proxy.process.wait(10) == 0
    assert proxy.process.stderr.read() == ""


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
sys.argv[0] = "pcli"
from pcli.cli.app import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_full_disk_ends_the_recording_and_not_the_talk(broker, pcli, tmp_path):
    """A file of limited size, which behaves like a full disk."""
    path = tmp_path / "talk.pcapng"
    arguments = ["proxy", "--listen", "0", "--to", broker.service_url, "-w", str(path), "--log", "quiet"]
    process = subprocess.Popen(
        [sys.executable, "-c", LIMITED, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    port = int(process.stdout.readline().rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(push_frame(pb.CommandConnect(client_version="tester", protocol_version=20)))
        line.recv(1 << 16)
        for _ in range(50):
            line.sendall(push_frame(pb.CommandPing()))
            assert line.recv(1 << 16) == push_frame(pb.CommandPong())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert err == f"pcli: -w {path} ended early: file too large\n"
    result = pcli("dissect", "-r", path)
    assert "CONNECTED" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "b:1:2"], "'b:1:2' is not host:port"),
        (["--to", "http://b:8080"], "binary port: write pulsar:// or pulsar+ssl://"),
        (["--to", "b", "-Y", "pulsar.typ == 1"], "pulsar.typ"),
        (["--to", "b", "-Y", "pulsar.type", "--log", "quiet"], "cannot be used with --log quiet"),
        (["--to", "b", "-w", "/nowhere/talk.pcapng"], "/nowhere/talk.pcapng: no such file"),
        (["--to", "b", "--fault", "dropp on pulsar.type"], "'dropp' is not an action of a fault"),
        (["--to", "b", "--bytes", "latency=fast"], "write a time"),
        (["--to", "b", "--listen-cert", "c.pem"], "two files"),
        (["--to", "b", "--http-listen", "0"], "HTTP needs both a port"),
        (["--to", "pulsar+ssl://b", "--tls-trust", "/nowhere/ca.pem"], "/nowhere/ca.pem: no such file"),
        (["--to", "b", "--bind", "203.0.113.7"], "address 203.0.113.7: other hosts could use the broker"),
        (["--to", "b", "--bind", "::"], "address ::: other hosts could use the broker"),
        (["--to", "b", "--bind", "203.0.113.7", "--insecure"], "port 0 of 203.0.113.7"),
    ],
)
def test_invalid_options_are_reported_in_one_line(pcli, arguments, message):
    result = pcli("proxy", "--listen", "0", *arguments)
    assert result.code == 2
    assert message in result.err
    assert result.err.startswith("pcli: ")
    assert len(result.err.splitlines()) == (
        3 if "-Y" in arguments and "--log" not in arguments else 1
    )  # a filter is shown
    assert result.out == ""


def test_every_option_in_the_docs_is_one(pcli):
    page = (Path(__file__).parents[3] / "docs" / "proxy.md").read_text()
    result = pcli("proxy", "--help").out
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page))
    assert len(named) > 10
    assert [option for option in named if f"{option} " not in result] == []


def test_a_port_in_use_is_reported_in_one_line(pcli, broker):
    port = broker.service_url.rpartition(":")[2]
    result = pcli("proxy", "--listen", port, "--to", broker.service_url)
    assert (result.code, result.err) == (2, f"pcli: port {port} of 127.0.0.1: address already in use\n")


def test_findings_are_printed_as_they_arise(start):
    proxy = start("--log", "quiet", "--diagnose")
    proxy.connect()
    topic = "persistent://public/default/orders"
    proxy.ask(pb.CommandLookupTopic(topic=topic, request_id=1))
    first = pb.CommandSubscribe(topic=topic, subscription="work", subType=0, consumer_id=1, request_id=2)
    second = pb.CommandSubscribe(topic=topic, subscription="work", subType=1, consumer_id=2, request_id=3)
    proxy.ask(first)
    # A client that sends no request for a second is also a finding.
    proxy.line.sendall(push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10)))
    assert proxy.ask(second).type == pb.BaseCommand.ERROR
    result = proxy.process.stderr.readline()
    assert result.startswith("pcli: error: subscribe-refused: ")
    assert "ConsumerBusy" in result
    proxy.line.close()
    code, _, err = proxy.stop()
    assert code == 0
    assert "subscribe-refused" not in err
    assert re.search(r"pcli: 1 finding \(1 error\) in \d+ frames, 1 connection, .*", err), err
