"""`pcli top --prometheus` in its own process."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip("prometheus_client", reason="the extra pulsar-pcli[prometheus] is not installed")


@pytest.fixture
def serving() -> Iterator[Callable[..., tuple[Any, str]]]:
    """Start ``pcli top --prometheus 0`` without a terminal; return the process and the URL."""
    with ExitStack() as stack:

        def start(*arguments: object) -> tuple[Any, str]:
            command = [sys.executable, "-m", "pcli.cli", "top", "--prometheus", "0", *map(str, arguments)]
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            first = process.stdout.readline()
            found = re.fullmatch(r"metrics URL  (http://127\.0\.0\.1:\d+/metrics)\n", first)
            assert found, process.communicate(timeout=20)
            return process, found[1]

        yield start


def scrape(url: str) -> dict[str, float]:
    with urlopen(url, timeout=10) as response:
        lines = response.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def at_the_end(url: str) -> dict[str, float]:
    """Return the metrics at the end of the capture."""
    while (seen := scrape(url))["pcli_source_up"]:
        pass
    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_without_a_terminal_until_a_signal(serving, small_captures, number):
    process, url = serving("-r", small_captures / "go" / "nack.pcap", "--speed", "max", "--interval", "0.1")
    labels = '{namespace="public/default",topic="persistent://public/default/go-nack"}'
    assert at_the_end(url)[f"pulsar_in_messages_total{labels}"] == 9
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")


def test_the_metrics_are_those_of_the_other_commands(serving, small_captures, pcli):
    """`stats`, `trace` and `diagnose` of the same capture; the capture lasts seconds and is read at full speed."""
    path = small_captures / "python" / "10-shared-redelivery.pcap"
    _, url = serving("-r", path, "--speed", "max", "--interval", "0.1")
    seen = at_the_end(url)
    truth = Counter(
        (one["rule"], one["severity"]) for one in json.loads(pcli("diagnose", "-r", path, "-T", "json").out)["findings"]
    )
    series = {rule: f'pcli_findings_total{{rule="{rule[0]}",severity="{rule[1]}"}}' for rule in truth}
    assert {rule: seen[name] for rule, name in series.items()} == truth
    assert sum(count for name, count in seen.items() if name.startswith("pcli_findings_total")) == truth.total()
    [(topic, stats)] = json.loads(pcli("stats", "consumers", "-r", path, "-T", "json").out).items()
    [(subscription, one)] = stats["subscriptions"].items()
    of_topic = f'namespace="public/10-shared-redelivery",topic="{topic}"'
    of_subscription = f'namespace="public/10-shared-redelivery",subscription="{subscription}",topic="{topic}"'
    assert seen[f"pulsar_in_messages_total{{{of_topic}}}"] == stats["msgInCounter"]
    assert seen[f"pulsar_out_messages_total{{{of_subscription}}}"] == one["msgOutCounter"]
    assert seen[f"pulsar_subscription_back_log{{{of_subscription}}}"] == one["msgBacklog"]
    steps = [step for line in pcli("trace", "-r", path, "-T", "ndjson").lines for step in json.loads(line)["steps"]]
    receipts = [step["after_ms"] / 1000 for step in steps if step["what"] == "receipt"]
    assert seen[f"pcli_publish_latency_seconds_count{{{of_topic}}}"] == len(receipts)
    assert seen[f"pcli_publish_latency_seconds_sum{{{of_topic}}}"] == pytest.approx(sum(receipts))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="prometheus is not installed")
def test_promtool_accepts_the_metrics(serving, small_captures):
    """It objects only to names that are Pulsar's."""
    _, url = serving("-r", small_captures / "go" / "nack.pcap", "--speed", "max", "--interval", "0.1")
    at_the_end(url)
    with urlopen(url, timeout=10) as response:
        ran = subprocess.run(["promtool", "check", "metrics"], input=response.read(), capture_output=True, check=False)
    assert ran.returncode in (0, 3)
    lines = ran.stderr.decode().splitlines()
    assert lines
    assert all(line.startswith("pulsar_") and '"_count" suffix' in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-r", "x.pcap", "--prometheus", "http"), "write a port from 0 to 65535, or HOST:PORT"),
        (("-r", "x.pcap", "--prometheus", "0"), "x.pcap: "),
        (("-r", "x.pcap", "--prometheus", "0", "--top", "0"), "--top"),
        (("-r", "x.pcap", "--prometheus", "0", "--once"), "omit --once"),
        (("--broker", "http://localhost:1", "--prometheus", "0"), "a broker serves its own metrics"),
        (("--prometheus", "0"), "use exactly one of"),
    ],
)
def test_invalid_options_are_refused(pcli, arguments, message):
    ran = pcli("top", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_without_the_library(pcli, monkeypatch):
    monkeypatch.setattr("pcli.cli.common.metrics_options.find_spec", lambda _: None)
    ran = pcli("top", "-r", "x.pcap", "--prometheus", "0")
    assert (ran.code, ran.err) == (2, "pcli: --prometheus requires pulsar-pcli[prometheus]\n")
