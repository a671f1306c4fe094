"""`pcli replay` as a process."""

import json
import subprocess
import sys

import pytest

from pcli.minibroker import MiniBroker

SIMPLE = "flex/01-produce-consume.pcap"


@pytest.fixture
def replay(pcli):
    """Run ``pcli replay`` with these arguments."""
    return lambda *arguments: pcli("replay", *arguments)


def row(text, name):
    """Return the numbers in a command's row."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return [int(word) for word in line.split()[1:4]]


def test_all_is_equal(replay, small_captures):
    done = replay(small_captures / SIMPLE)
    assert (done.code, done.err) == (0, "pcli: not replayed: connections that began before the capture: 1\n")
    assert done.out.startswith("against the mini-broker\n")
    assert row(done.out, "MESSAGE") == [35, 0, 0]


def test_refused_requests_are_reported(replay, small_captures):
    done = replay(small_captures / "java5" / "split.pcap", "--set", "scalableTopicsEnabled=false")
    assert done.code == 1
    assert "PUT scalable/public/default/orders?numInitialSegments=2 (status " in done.err


def test_a_closed_stdout_leaves_the_report_and_the_exit_code(small_captures, tmp_path):
    arguments = f"{small_captures / SIMPLE} --report {tmp_path / 'result.json'}"
    command = f"set -o pipefail; {sys.executable} -m pcli.cli replay {arguments} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert json.loads((tmp_path / "result.json").read_text())["good"] is True


def test_a_difference(replay, small_captures, broker, tmp_path):
    broker.faults.add(on="pulsar.type == 'MESSAGE'", do="drop", times=1, after=4)
    arguments = ("--to", broker.service_url, "--admin", broker.http_url, "--report", tmp_path / "result.json")
    done = replay(small_captures / SIMPLE, *arguments)
    assert done.code == 1
    assert row(done.out, "MESSAGE") == [34, 0, 1]
    assert "the first 1 of 1 differences that no rule explains" in done.out
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["good"] is False
    assert result["to"] == broker.service_url
    (wrong,) = [one for one in result["differences"] if not one["rule"]]
    assert (wrong["command"], wrong["field"]) == ("MESSAGE", "missing")
    by_command = {one["command"]: one for one in result["summary"]}
    assert by_command["MESSAGE"]["unexplained"] == 1


def test_packet_numbers_of_differences(replay, pcli, small_captures, broker):
    broker.faults.add(on="pulsar.type == 'MESSAGE'", do="drop", times=1, after=4)
    sides = ("--to", broker.service_url, "--admin", broker.http_url)
    lines = replay(small_captures / SIMPLE, *sides, "--packet-numbers").out.splitlines()
    assert lines[-2].split()[:3] == ["frame", "packet", "command"]
    frame, packet, command, *_ = lines[-1].split()
    (captured,) = pcli(
        "dissect", "-r", small_captures / SIMPLE, "-Y", f"pulsar.number == {frame}", "-T", "ndjson"
    ).lines
    assert json.loads(captured)["frame.number"] == int(packet)
    assert command == "MESSAGE"


def test_two_brokers(replay, small_captures, broker):
    with MiniBroker() as other:
        other.faults.add(on="pulsar.type == 'MESSAGE'", do="drop", times=1)
        sides = ("--to", broker.service_url, "--to", other.service_url)
        admins = ("--admin", broker.http_url, "--admin", other.http_url)
        done = replay(small_captures / SIMPLE, *sides, *admins)
    assert done.code == 1
    assert "the two brokers differ in 1 places" in done.out
    assert f"against {other.service_url}" in done.out


def test_two_brokers_alike(replay, small_captures, broker):
    with MiniBroker() as other:
        sides = ("--to", broker.service_url, "--to", other.service_url)
        done = replay(small_captures / SIMPLE, *sides, "--admin", broker.http_url, "--admin", other.http_url)
    assert done.code == 0
    assert "the responses of the two brokers are equal" in done.out


def test_topics_are_renamed(replay, small_captures, broker):
    arguments = ("--to", broker.service_url, "--admin", broker.http_url, "--map-topic", "/[^/]+/notes=/default/second")
    done = replay(small_captures / SIMPLE, *arguments)
    assert done.code == 0, done.out
    assert broker.topics == ["persistent://public/default/second"]


def test_a_dry_run_does_not_connect(replay, small_captures):
    done = replay(small_captures / "flex" / "04-reconnect.pcapng", "--dry-run", "--to", "pulsar://127.0.0.1:1")
    assert done.code == 0
    assert "at frame 70 (CLOSE_CONSUMER): PUT persistent/public/flex-04-reconnect/notes/unload" in done.out


def test_repeat(replay, small_captures):
    done = replay(small_captures / SIMPLE, "--repeat", 3)
    assert done.out.count("against the mini-broker") == 3


def test_settings(replay, small_captures):
    path = small_captures / "python" / "01-exclusive-unbatched.pcapng"
    assert replay(path).code == 0
    refused = replay(path, "--set", "allowAutoTopicCreation=false")
    assert refused.code == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["python/30-snaplen-96.pcap"], "the capture contains nothing that can be replayed"),
        (["python/21-tls.pcapng"], "this is TLS"),
        (["python/21-tls.truth.json"], "neither pcap nor pcapng"),
        (["nobody.pcap"], "no such file"),
        ([SIMPLE, "--to", "pulsar://127.0.0.1:1"], "pulsar://127.0.0.1:1: "),
        ([SIMPLE, "--to", "ftp://x"], "is not a service URL"),
        ([SIMPLE, "--map-topic", "x"], "write REGEX=REPLACEMENT"),
        ([SIMPLE, "--map-topic", "(=x"], "--map-topic (=x: "),
        ([SIMPLE, "--set", "maxMessageSize"], "write NAME=VALUE"),
        ([SIMPLE, "--set", "maxMesageSize=5"], "maxMessageSize"),
        ([SIMPLE, "--to", "x", "--set", "a=b"], "--set is for the mini-broker"),
        ([SIMPLE, "--admin", "http://x"], "give one URL for each --to"),
        ([SIMPLE, "-Y", "pulsar.type =="], "pulsar.type =="),
        ([SIMPLE, "--only-stream", "99"], "the capture contains nothing that can be replayed"),
        ([SIMPLE, "--to", "localhost", "--token", "file:/nonexistent"], "/nonexistent"),
    ],
)
def test_invalid_options_are_refused(arguments, text, replay, small_captures):
    done = replay(small_captures / arguments[0], *arguments[1:])
    assert done.code == 2
    assert text in done.err
    assert done.out == ""
