"""`pcli diagnose`: output and exit codes."""

from __future__ import annotations

import contextlib
import fcntl
import html.parser
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
from unittest.mock import patch

import pytest

from pcli.cli.diagnosis import process_diagnosis
from pcli.cli.diagnosis.evidence_lines import FrameLines
from pcli.cli.diagnosis.finding_output import FindingText
from pcli.codec.observe.rules import Cause, Finding
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.spark import worker_server
from pcli.spark.columnar.observation import group_division
from pcli.spark.jobs import machine_resources

TOPIC = "persistent://public/default/orders"


@pytest.fixture
def no_flow(small_captures):
    """One consumer sends no FLOW, one has a queue of 1, and one pauses."""
    return small_captures / "python" / "25-no-flow.pcapng"


@pytest.fixture
def quiet(small_captures):
    return small_captures / "flex" / "01-produce-consume.pcap"


def test_text_of_a_finding(pcli, no_flow):
    done = pcli("diagnose", "-r", no_flow, "--only", "stuck-no-permits")
    assert done.code == 0
    assert done.lines[:5] == [
        "ERROR  stuck-no-permits, since 0.639 s (fact: certain)",
        "  Consumer never-asks (subscription never on public/25-no-flow/queue) has sent no FLOW in the 2.1 s since it",
        "  subscribed in frame 22. The backlog is at least 12 entries.",
        "    frame 22  packet 32, 0.639 s  SUCCESS  to SUBSCRIBE  public/25-no-flow/queue/never",
        "  cause: the application, likely; or a client library that lost its first FLOW",
    ]
    assert "  against it: A FLOW from this consumer would disprove the finding; there is none." in done.lines
    assert f"  show: pcli dissect -r {no_flow} -Y 'pulsar.number in {{22}}'" in done.lines
    assert "  more: pcli diagnose --explain stuck-no-permits" in done.lines
    assert done.lines[-1].startswith("1 finding (1 error) in 104 frames, 1 connection, 1 producer, 3 consumers")
    assert done.err == ""


def test_an_empty_result_reports_the_amount_of_data(pcli, quiet):
    done = pcli("diagnose", "-r", quiet, "--fail-on", "any")
    assert done.code == 0
    [line] = done.lines
    assert re.fullmatch(r"nothing found in \d+ frames, \d+ connections, 2 producers, .*, \d+ rules checked", line)


def test_json_is_one_object(pcli, no_flow):
    result = json.loads(pcli("diagnose", "-r", no_flow, "-T", "json").out)
    assert set(result) == {"version", "incidents", "findings", "looked_at", "capture"}
    assert result["version"] == 2
    first = result["findings"][0]
    assert (first["rule"], first["severity"], first["since"]) == (
        "stuck-no-permits",
        "error",
        pytest.approx(0.639, abs=1e-3),
    )
    assert first["subject"]["consumer"] == "never-asks"
    assert (first["certainty"], first["cause"]["culprit"], first["cause"]["certainty"]) == (
        "certain",
        "application",
        "likely",
    )
    assert first["frames"] == [
        {
            "number": 22,
            "file": str(no_flow),
            "packet": 32,
            "time": pytest.approx(0.639, abs=1e-3),
            "line": "SUCCESS  to SUBSCRIBE  public/25-no-flow/queue/never",
        }
    ]
    assert result["capture"]["frames"] == result["looked_at"]["frames"] == 104


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert all(name in {"lang", "charset", "class", "http-equiv", "content", "name"} for name, _ in attrs), attrs


def test_html_is_one_page_that_needs_nothing_else(pcli, no_flow):
    done = pcli("diagnose", "-r", no_flow, "-T", "html")
    page = Page()
    page.feed(done.out)
    assert page.tags.count("section") == len(json.loads(pcli("diagnose", "-r", no_flow, "-T", "json").out)["findings"])
    assert {"script", "link", "img"}.isdisjoint(page.tags)
    assert "width=device-width" in done.out


def test_names_from_the_wire_harm_no_page(pcli, hostile):
    for output in ("text", "html", "json"):
        done = pcli("diagnose", "-r", hostile, "-T", output)
        assert "never" in done.out
        assert "\x1b" not in done.out
        assert "<script>" not in done.out or output != "html"


@pytest.fixture
def hostile(tmp_path, no_flow):
    """The same capture with a consumer name that contains escape sequences and markup."""
    data = no_flow.read_bytes()
    assert data.count(b"never-asks") == 1
    path = tmp_path / "hostile.pcapng"
    path.write_bytes(data.replace(b"never-asks", b"<script>\x1b["))
    return path


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["error"], 1),
        (["stuck-no-permits"], 1),
        (["standby", "stuck-no-permits"], 1),
        (["standby"], 0),
        ([], 0),
    ],
)
def test_exit_code_for_scripts(pcli, no_flow, arguments, code):
    options = [part for word in arguments for part in ("--fail-on", word)]
    assert pcli("diagnose", "-r", no_flow, *options).code == code


def test_a_warning_is_enough_for_warning_and_any(pcli, no_flow):
    only = ["--only", "paused-client"]
    assert pcli("diagnose", "-r", no_flow, *only, "--fail-on", "error").code == 0
    assert pcli("diagnose", "-r", no_flow, *only, "--fail-on", "warning").code == 1
    assert pcli("diagnose", "-r", no_flow, *only, "--fail-on", "any").code == 1


def test_a_filter_chooses_findings_by_their_frames(pcli, no_flow):
    done = pcli("diagnose", "-r", no_flow, "-Y", 'pulsar.subscription == "asleep"', "-T", "json")
    subjects = {one["subject"]["subscription"] for one in json.loads(done.out)["findings"]}
    assert subjects == {"asleep"}


def test_it_reads_stdin(pcli, no_flow):
    done = pcli("diagnose", "-r", "-", "--only", "stuck-no-permits", stdin=no_flow.read_bytes())
    assert "    frame 22  packet 32, 0.639 s  SUCCESS  to SUBSCRIBE  public/25-no-flow/queue/never" in done.lines
    assert not any(line.startswith("  show: ") for line in done.lines)


def test_damaged_input_exits_with_3(pcli, no_flow, tmp_path):
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(no_flow.read_bytes()[:-40])
    assert pcli("diagnose", "-r", cut).code == 3
    assert pcli("diagnose", "-r", cut, "--fail-on", "error").code == 1


def test_a_page_without_a_capture(pcli):
    done = pcli("diagnose", "--explain", "stuck-no-permits")
    assert done.code == 0
    assert done.lines[0] == "# stuck-no-permits"
    assert "## What to do" in done.lines


def test_all_rules_in_a_list(pcli):
    from pcli.codec.observe.rules import RULES

    lines = pcli("diagnose", "--explain", "all").lines
    assert [line.split()[0] for line in lines] == list(RULES)


@pytest.mark.parametrize("option", ["--only", "--explain", "--fail-on"])
def test_a_rule_that_is_none(pcli, option):
    done = pcli("diagnose", option, "never-aked")
    assert done.code == 2
    assert done.err == f"pcli: {option} never-aked: unknown rule; did you mean never-acked?\n"


def test_the_remedy_is_printed(pcli, quiet):
    assert "--explain all lists all rules" in pcli("diagnose", "-r", quiet, "--only", "xyz").err


def test_a_capture_without_pulsar_is_not_called_well(pcli, tmp_path, quiet):
    (tmp_path / "empty.pcap").write_bytes(quiet.read_bytes()[:24])
    done = pcli("diagnose", "-r", tmp_path / "empty.pcap")
    assert done.lines == ["no Pulsar frames: nothing to diagnose"]


def test_a_start_before_the_first_frame():
    finding = Finding("note", "likely", Cause("broker"), {}, "Something.", since_ns=3_000_000_000, rule="r")
    text = FindingText(5_000_000_000, FrameLines(), lambda packet: ("", packet))
    assert "since 2.000 s before the first frame" in text.head(finding)


def test_nothing_to_read(pcli):
    done = pcli("diagnose")
    assert done.code == 2
    assert done.err == "pcli: no capture to read: give files with -r, or an interface with -i\n"


def test_an_invalid_filter_is_reported_first(pcli, tmp_path):
    done = pcli("diagnose", "-r", tmp_path / "none", "-Y", "pulsar.nothing == 1")
    assert done.code == 2
    assert "no field" in done.err


@pytest.mark.slow
def test_live_findings_are_printed_once_as_they_arise(broker, listening):
    arguments = ["--only", "subscribe-refused", "-Y", 'pulsar.subscription == "taken-live"', "--fail-on", "error"]
    host, _, port = broker.service_url.rpartition("/")[2].partition(":")
    process = listening("diagnose", "-f", f"tcp port {port}", *arguments)
    with socket.create_connection((host, int(port))) as line:
        line.sendall(push_frame(pb.CommandConnect(client_version="live", protocol_version=20)))
        line.sendall(push_frame(pb.CommandLookupTopic(topic=TOPIC, request_id=1)))
        for number, kind in ((1, "Exclusive"), (2, "Shared")):
            sub_type = pb.CommandSubscribe.SubType.Value(kind)
            asked = {"consumer_id": number, "request_id": 9 + number, "subType": sub_type}
            line.sendall(push_frame(pb.CommandSubscribe(topic=TOPIC, subscription="taken-live", **asked)))
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    assert process.returncode == 1, err
    assert first.startswith("ERROR  subscribe-refused, at ")
    assert "ERROR  " not in out
    assert out.splitlines()[-1].startswith("1 finding (1 error) in ")


# -- output --------------------------------------------------------------------------------------------------------


def in_a_terminal(*arguments, columns=80, **variables):
    """Run a command in a terminal of this width; return its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    command = [sys.executable, "-m", "pcli.cli", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment | variables)
    os.close(theirs)
    parts = []
    with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
        while part := os.read(ours, 65536):
            parts.append(part)
    process.wait()
    os.close(ours)
    return b"".join(parts).decode().replace("\r", "")


@pytest.mark.slow
def test_severities_are_colored_on_a_terminal_only(pcli, small_captures):
    capture = small_captures / "python/25-no-flow.pcapng"
    assert "\x1b[1;31mERROR\x1b[0m  stuck-no-permits" in in_a_terminal("diagnose", "-r", capture)
    assert "\x1b" not in in_a_terminal("diagnose", "-r", capture, NO_COLOR="1")
    assert "\x1b" not in in_a_terminal("diagnose", "-r", capture, "--no-color")
    assert "\x1b" not in pcli("diagnose", "-r", capture).out


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "width"), [(80, 80), (60, 80), (140, 140)])
def test_text_wraps_at_the_width_of_the_terminal(small_captures, columns, width):
    shown = in_a_terminal("diagnose", "-r", small_captures / "python/25-no-flow.pcapng", "--no-color", columns=columns)
    longest = max(len(line) for line in shown.splitlines() if not line.startswith("  show: "))
    assert width - 30 < longest <= width


def test_ndjson_is_one_finding_per_line(pcli, small_captures):
    capture = small_captures / "python/25-no-flow.pcapng"
    rows = [json.loads(line) for line in pcli("diagnose", "-r", capture, "-T", "ndjson").lines]
    assert rows == json.loads(pcli("diagnose", "-r", capture, "-T", "json").out)["findings"]


def test_packet_numbers(pcli, small_captures):
    capture = small_captures / "python/25-no-flow.pcapng"
    assert "subscribed in frame 22 (packet 32)" in " ".join(
        pcli("diagnose", "-r", capture, "--packet-numbers").out.split()
    )
    traced = pcli("trace", "-r", capture, "--packet-numbers").out
    assert re.search(r"frame \d+ \(packet \d+\)", traced)
    assert not re.search(r"frame \d+(?! *\(packet|\d)", traced)


@pytest.mark.slow
def test_a_closed_stdout_leaves_the_exit_code_of_fail_on(small_captures):
    capture = small_captures / "python/25-no-flow.pcapng"
    for arguments in ("--fail-on any", "--fail-on any -T json", "--fail-on any -T html"):
        command = f"set -o pipefail; {sys.executable} -m pcli.cli diagnose -r {capture} {arguments} | true"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, ""), arguments


def rules_of(done):
    return {one["rule"] for one in json.loads(done.out)["findings"]}


def test_ignored_rules_and_thresholds(pcli, no_flow, tmp_path):
    everything = rules_of(pcli("diagnose", "-r", no_flow, "-T", "json"))
    assert {"never-acked", "stuck-no-permits"} <= everything
    options = ["--ignore", "stuck-no-permits", "--threshold", "never-acked.age=1h"]
    assert rules_of(pcli("diagnose", "-r", no_flow, "-T", "json", *options)) == everything - {
        "never-acked", "stuck-no-permits",
    }  # fmt: skip
    config = tmp_path / "rules.toml"
    config.write_text('ignore = ["stuck-no-permits"]\n[thresholds]\nnever-acked.age = "1h"\n')
    found = pcli("diagnose", "-r", no_flow, "-T", "json", "--config", config, "--threshold", "never-acked.age=1s")
    assert rules_of(found) == everything - {"stuck-no-permits"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ignore", "never-ack"], "--ignore never-ack: unknown rule"),
        (["--threshold", "never-acked.ages=5s"], "unknown threshold"),
        (["--threshold", "never-acked.age=soon"], "not a value; for example never-acked.age=5s"),
        (["--threshold", "never-acked.age"], "not a value; for example never-acked.age=5s"),
        (["--threshold", "poison-message.deliveries=5s"], "not a value; for example poison-message.deliveries=5"),
        (["--config", "missing.toml"], "--config missing.toml: no such file"),
    ],
)
def test_wrong_rule_settings(pcli, no_flow, options, message):
    done = pcli("diagnose", "-r", no_flow, *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ignore = 1", "ignore is a list of rules"), ("[rules]", "unknown key rules"), ("x", "Expected '='"),
        ('ignore = ["a"]', "ignore a: unknown rule"), ("[thresholds]\nnever-acked = 1", "unknown threshold"),
    ],
)  # fmt: skip
def test_wrong_configuration_files(pcli, no_flow, tmp_path, text, message):
    config = tmp_path / "rules.toml"
    config.write_text(text)
    done = pcli("diagnose", "-r", no_flow, "--config", config)
    assert done.code == 2
    assert f"--config {config}" in done.err
    assert message in done.err


@pytest.fixture
def several(monkeypatch):
    """Two processes diagnose captures of any size, in small splits, and all groups are divided."""
    monkeypatch.setattr(worker_server, "SMALL_BYTES", 0)
    monkeypatch.setattr(process_diagnosis, "_LEAST_SPLIT", 3_000)
    monkeypatch.setattr(group_division, "_LEAST_GAIN", 0)
    return ("-j", 2)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("python/25-no-flow.pcapng", ()),
        ("faults/sticky-hole.pcap", ("-T", "json")),
        ("go/nack.pcap", ("--fail-on", "any", "--threshold", "never-acked.age=1ms")),
        ("flex/04-reconnect.pcapng", ("-Y", "pulsar.type == 'MESSAGE'", "--ignore", "clock-skew")),
    ],
)
def test_several_processes_print_the_findings_of_one(pcli, small_captures, several, name, more):
    arguments = ("diagnose", "-r", small_captures / name, *more)
    one, two = pcli(*arguments, "-j", 1), pcli(*arguments, *several)
    assert (two.code, two.out, two.err) == (one.code, one.out, one.err)


def test_captures_of_medium_size_are_read_in_several_processes_only_on_request(pcli, no_flow, several, monkeypatch):
    monkeypatch.setattr(machine_resources, "cpus", lambda: 2)
    with patch.object(worker_server, "start_server", wraps=worker_server.start_server) as start:
        pcli("diagnose", "-r", no_flow)
        assert not start.called
        pcli("diagnose", "-r", no_flow, *several)
        assert start.called


def test_the_parts_of_a_rotated_capture_in_several_processes(pcli, small_captures, several, tmp_path):
    data = (small_captures / "go" / "nack.pcap").read_bytes()
    (tmp_path / "cut.pcap").write_bytes(data[: len(data) * 2 // 3])
    arguments = ("diagnose", tmp_path / "cut.pcap", small_captures / "flex" / "01-produce-consume.pcap")
    one, two = pcli(*arguments, "-j", 1), pcli(*arguments, *several)
    assert one.code == 3
    assert (two.code, two.out, two.err) == (one.code, one.out, one.err)


def test_input_for_one_process_is_one_line_if_more_are_requested(pcli, no_flow, several):
    data = no_flow.read_bytes()
    done = pcli("diagnose", "-r", "-", *several, stdin=data)
    assert done.err == "pcli: -j 2: stdin and pipes are read in one process\n"
    assert done.out == pcli("diagnose", "-r", "-", stdin=data).out
    assert pcli("diagnose", "-r", no_flow, "--packet-numbers", *several).err == (
        "pcli: -j 2: packet numbers are assigned in one process\n"
    )
    assert pcli("diagnose", "-r", no_flow, "--packet-numbers").err == ""


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_wrong_number_of_processes(pcli, no_flow, number):
    done = pcli("diagnose", "-r", no_flow, "-j", number)
    assert done.code == 2
    line = f"Error: Invalid value for '-j' / '--jobs': {number} is out of range: it must be at least 1."
    assert done.err.splitlines()[-1] == line
