"""`pcli broker` as a process that is started, used and stopped."""

import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request

import pytest

from pcli.cli import __version__
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader
from pcli.minibroker.embedded import self_signed_certificate

ANY = ("--port", "0", "--http-port", "0")


class Running:
    """A running broker with one client."""

    def __init__(self, arguments, path, prefix=()):
        ready = path / "ready.json"
        ready.unlink(missing_ok=True)  # a broker that was killed leaves it
        command = [*prefix, sys.executable, "-m", "pcli.cli", "broker", *ANY, "--ready-file", str(ready), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(500):
            if ready.exists() or self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.ready_file = json.loads(ready.read_text())
        self.port = int(self.ready_file["service_url"].rpartition(":")[2])
        self.line = None

    def ask(self, *bodies):
        """Send the commands; return the response to the last one."""
        if self.line is None:
            self.line, self.reader = socket.create_connection(("127.0.0.1", self.port), 10), FrameReader()
            self.ask(pb.CommandConnect(client_version="tester", protocol_version=20))
        self.line.sendall(b"".join(map(push_frame, bodies)))
        frames = []
        while len(frames) < len(bodies):
            data = self.line.recv(1 << 16)
            assert data, "the connection ended"
            frames += self.reader.feed(data)
        return Frame.of(frames[-1].data).command

    @property
    def connected(self):
        """The CONNECTED of a new connection."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as line:
            line.sendall(push_frame(pb.CommandConnect(client_version="t", protocol_version=20)))
            return Frame.of(line.recv(1 << 16)).command.connected

    def stop(self, number=signal.SIGINT):
        """Return the exit code and the output."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        assert "Traceback" not in err, err
        return self.process.returncode, out, err


@pytest.fixture
def start(tmp_path, running):
    def go(*arguments):
        running.append(Running(arguments, tmp_path))
        return running[-1]

    return go


LOOKUP = pb.CommandLookupTopic(topic="jobs-partition-1", request_id=1)
PARTITIONS = pb.CommandPartitionedTopicMetadata(topic="jobs", request_id=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_urls_serves_and_stops(start, number):
    broker = start("--topic", "jobs:3")
    assert broker.ask(PARTITIONS).partitionMetadataResponse.partitions == 3
    assert broker.ready_file["pid"] == broker.process.pid
    code, out, err = broker.stop(number)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"broker service URL  {broker.ready_file['service_url']}",
        f"web service URL     {broker.ready_file['http_url']}",
    ]


def test_as_json(start):
    broker = start("--local", "-T", "json", "--log", "events")
    broker.ask(LOOKUP)
    code, out, _ = broker.stop()
    assert code == 0
    urls, *events = map(json.loads, out.splitlines())
    assert urls == broker.ready_file
    assert events


def test_ready_json_is_one_line_with_urls_ports_process_and_versions(start, tmp_path):
    files = self_signed_certificate.create(tmp_path, "127.0.0.1")
    tls = ("--tls-cert", files.certificate, "--tls-key", files.key, "--tls-port", 0, "--tls-http-port", 0)
    broker = start("--ready-json", "--pulsar", "5.0.1", "--data", str(tmp_path / "data"), *map(str, tls))
    broker.ask(LOOKUP)
    code, out, err = broker.stop(signal.SIGTERM)
    assert (code, err) == (0, "")
    ready = json.loads(out)
    assert ready == broker.ready_file
    ports = {name: ready.pop(name) for name in ("port", "http_port", "tls_port", "tls_http_port")}
    assert ready == {
        "service_url": f"pulsar://127.0.0.1:{ports['port']}",
        "http_url": f"http://127.0.0.1:{ports['http_port']}",
        "service_url_tls": f"pulsar+ssl://127.0.0.1:{ports['tls_port']}",
        "http_url_tls": f"https://127.0.0.1:{ports['tls_http_port']}",
        "pid": broker.process.pid,
        "version": __version__,
        "pulsar": "5.0.1",
    }


def test_tls_ports_are_printed_and_in_the_ready_file(start, tmp_path):
    files = self_signed_certificate.create(tmp_path, "127.0.0.1")
    tls = ("--tls-cert", files.certificate, "--tls-key", files.key, "--tls-port", 0, "--tls-http-port", 0)
    broker = start(*map(str, tls))
    urls = broker.ready_file
    context = ssl.create_default_context(cafile=files.certificate)
    with urllib.request.urlopen(f"{urls['http_url_tls']}/admin/v2/clusters", context=context) as reply:
        assert json.load(reply) == ["standalone"]
    assert broker.stop()[1].splitlines()[2:] == [
        f"broker service URL  {urls['service_url_tls']}",
        f"web service URL     {urls['http_url_tls']}",
    ]


def test_the_options_of_tls_ports_win_over_settings(start, tmp_path):
    files = self_signed_certificate.create(tmp_path, "127.0.0.1")
    settings = (f"tlsCertificateFilePath={files.certificate}", f"tlsKeyFilePath={files.key}", "brokerServicePortTls=1")
    broker = start("--tls-port", "0", *(part for setting in settings for part in ("--set", setting)))
    assert {name for name in broker.ready_file if "tls" in name} == {"service_url_tls", "tls_port"}


def test_clients_are_notified_at_the_end(start):
    broker = start()
    broker.ask(pb.CommandLookupTopic(topic="orders", request_id=3))
    broker.ask(pb.CommandProducer(topic="orders", producer_id=1, request_id=4))
    broker.process.send_signal(signal.SIGTERM)
    result = broker.line.recv(1 << 16)
    assert Frame.of(result).command.close_producer.producer_id == 1
    assert broker.line.recv(1 << 16) == b""


def test_the_conversation_live_as_dissect_has_it(start, tmp_path, pcli):
    path = tmp_path / "talk.pcapng"
    broker = start("--log", "frames", "--capture", path)
    broker.ask(pb.CommandLookupTopic(topic="orders", request_id=1))
    broker.ask(pb.CommandPing())
    code, out, _ = broker.stop()
    assert code == 0
    dissected = pcli("dissect", "-r", path)
    assert dissected.code == 0
    lines = [re.sub(r"\d+\.\d+ ", "", re.sub(r"  \(.*ms\)", "", line)).split() for line in out.splitlines()[2:]]
    expected = [re.sub(r"\d+\.\d+ ", "", re.sub(r"  \(.*ms\)", "", line)).split() for line in dissected.lines]
    assert lines == expected
    assert len(lines) == 6


def test_a_filter_chooses_and_implies_the_frames(start):
    broker = start("-Y", "pulsar.type == 'PONG'")
    broker.ask(pb.CommandPing())
    lines = broker.stop()[1].splitlines()[2:]
    assert len(lines) == 1
    assert "← PONG" in lines[0]


def test_frames_as_json(start):
    broker = start("--log", "frames", "-T", "json")
    broker.ask(pb.CommandPing())
    rows = [json.loads(line) for line in broker.stop()[1].splitlines()]
    assert [row.get("pulsar.type") for row in rows] == [None, "CONNECT", "CONNECTED", "PING", "PONG"]


def test_events_are_connects_and_disconnects(start):
    broker = start("--log", "events")
    broker.ask(pb.CommandLookupTopic(topic="orders", request_id=1))
    broker.ask(pb.CommandProducer(topic="orders", producer_id=1, producer_name="p1", request_id=4))
    broker.ask(pb.CommandPing())
    lines = broker.stop()[1].splitlines()[2:]
    arguments = [" ".join(line.split()[2:]) for line in lines]
    assert [word for word in arguments if "connected" in word or "closed" in word] == [
        "connected",
        "closed by the broker: the broker is stopping",
    ]
    assert [line.split()[5] for line in lines if "→" in line or "←" in line] == [
        "CONNECT",
        "PRODUCER_SUCCESS",
        "CLOSE_PRODUCER",
    ]


def test_settings_from_a_file_and_from_options(start, tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("# a comment\nmaxMessageSize=2000\nclusterName=filed\nzookeeperServers=\n")
    broker = start("--conf", conf, "--set", "maxMessageSize=3000")
    assert broker.connected.max_message_size == 3000


@pytest.mark.parametrize("conf", [False, True])
def test_a_version_of_pulsar(start, tmp_path, conf):
    (tmp_path / "broker.conf").write_text("maxMessageSize=2000\n")
    broker = start("--pulsar", "5.0.1", *(("--conf", tmp_path / "broker.conf") if conf else ()))
    assert broker.connected.server_version == "Pulsar Server5.0.1"
    assert broker.connected.max_message_size == (2000 if conf else 5242880)
    assert broker.connected.feature_flags.supports_scalable_topics


def test_an_unknown_version(pcli):
    result = pcli("broker", "--pulsar", "6")
    assert (result.code, result.err) == (2, "pcli: version '6': must be 4.2.4 or 5.0.1\n")


def test_faults(start):
    broker = start("--fault", "error error='TopicNotFound: gone' times=1 on pulsar.type == 'LOOKUP'")
    assert broker.ask(LOOKUP).lookupTopicResponse.message == "gone"
    code, _, err = broker.stop()
    assert code == 0
    assert "fired 1 of 1" in err


def test_a_closed_stdout_ends_it(start):
    broker = start("--log", "frames")
    broker.process.stdout.close()
    broker.process.stdout = None
    with socket.create_connection(("127.0.0.1", broker.port), 10) as line:
        line.sendall(push_frame(pb.CommandConnect(client_version="tester")))
        while line.recv(1 << 16):
            pass
    assert broker.process.wait(10) == 0
    assert broker.process.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "expected_error"),
    [
        (["--set", "maxUnackedMessagePerConsumer=5"], "near: maxUnackedMessagesPerConsumer"),
        (["--set", "maxMessageSize"], "must have the form name=value"),
        (["--conf", "/nowhere/broker.conf"], "--conf /nowhere/broker.conf: no such file"),
        (["-Y", "pulsar.typ == 1"], "pulsar.typ"),
        (["-Y", "pulsar.type", "--log", "quiet"], "cannot be used with --log quiet"),
        (["--capture", "/nowhere/talk.pcapng"], "/nowhere/talk.pcapng: no such file"),
        (["--ready-file", "/nowhere/ready"], "--ready-file /nowhere/ready: no such file"),
        (["--ready-file", "/"], "--ready-file /: is a directory"),
        (["--ready-json", "--log", "events"], "--ready-json prints one line: it cannot be used with --log or -Y"),
        (["--ready-json", "-Y", "pulsar.type"], "--ready-json prints one line: it cannot be used with --log or -Y"),
        (["--exit-with-parent", "--browse"], "--browse is for a terminal"),
        (["--fault", "dropp on pulsar.type"], "'dropp' is not an action of a fault"),
        (["--fault", "drop"], "on FILTER"),
        (["--topic", "jobs:x"], "must be 1 or more"),
        (["--advertised-address", "host:6650"], "a host without a port"),
        (["--topic", "a/b"], "write topic or tenant/namespace/topic"),
        (["--topic", "who/knows/t"], "Namespace not found"),
        (["--max-backlog", "much"], "--max-backlog much: must be a size"),
        (["--bind", "203.0.113.7"], "address 203.0.113.7: other hosts could read, change and delete all data"),
        (["--bind", "203.0.113.7", "--insecure"], "port 0 of 203.0.113.7"),
        (["--port", "70000"], "--port"),
        (["--tls-key", "broker.key"], "give --tls-cert"),
        (["--tls-port", "6651"], "give --tls-cert"),
        (["--tls-http-port", "8443"], "give --tls-cert"),
        (["--tls-cert", "/nowhere/broker.pem"], "/nowhere/broker.pem: no such file"),
    ],
)
def test_invalid_options_are_reported_in_one_line(pcli, arguments, expected_error):
    result = pcli("broker", *ANY, *arguments)
    assert result.code == 2
    assert expected_error in result.err
    assert result.out == ""


def test_a_port_in_use_is_reported_in_one_line(start, pcli):
    broker = start()
    result = pcli("broker", "--port", broker.port, "--http-port", "0")
    assert result.code == 2
    assert result.err == f"pcli: port {broker.port} of 127.0.0.1: address already in use\n"


def test_the_dispatchers(pcli):
    result = pcli("broker", "--dispatchers")
    assert result.code == 0
    assert len(result.lines) == 11
    rows = json.loads(pcli("broker", "--dispatchers", "-T", "json").out)
    assert {
        "class": "PersistentStreamingDispatcherMultipleConsumers",
        "subscriptions": ["Shared"],
        "topics": "persistent",
        "setting": "streamingDispatch",
        "since": "2.8",
        "until": "3.1",
        "file": "minibroker/dispatch/classic_dispatchers.py",
    } in rows


def test_help_teaches(pcli):
    result = pcli("broker", "--help")
    assert result.code == 0
    for word in ("pcli broker --port 0 --topic orders", "--fault", "--dispatchers", "delay ms=200 on"):
        assert word in result.out
