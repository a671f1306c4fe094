"""`pcli broker --prometheus` and `pcli proxy --prometheus`, scraped by a real Prometheus that answers PromQL."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from pcli.cli.servers.diagnosis_tap import DiagnosisTap
from pcli.codec.observe.metrics.collector import MetricsCollector
from pcli.codec.observe.metrics.metric_table import METRICS
from pcli.codec.observe.metrics.series_values import Sample
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame

pytest.importorskip("prometheus_client", reason="the extra pulsar-pcli[prometheus] is not installed")

TOPIC = "persistent://public/default/orders"
OF_TOPIC = f'namespace="public/default",topic="{TOPIC}"'
OF_WORK = f'namespace="public/default",subscription="work",topic="{TOPIC}"'


def read(url: str) -> str:
    with urlopen(url, timeout=10) as response:
        return str(response.read().decode())


def scrape(url: str) -> dict[str, float]:
    found = (line.rpartition(" ") for line in read(url).splitlines() if line[:1] != "#")
    return {name: float(value) for name, _, value in found}


def until(url: str, name: str, value: float) -> dict[str, float]:
    """Scrape until a series has a value; the metrics are updated every second."""
    while (seen := scrape(url)).get(name) != value:
        pass
    return seen


@pytest.fixture
def command() -> Iterator[Callable[..., tuple[Any, dict[str, Any]]]]:
    """Start a command of pcli; return the process and the object that it prints."""
    with ExitStack() as stack:

        def start(*arguments: object) -> tuple[Any, dict[str, Any]]:
            words = [sys.executable, "-m", "pcli.cli", *map(str, arguments), "-T", "json"]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate(timeout=20)
            return process, json.loads(line)

        yield start


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., Callable[..., Any]]]:
    """Start a Prometheus that scrapes a URL every second; return a function that asks it."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    with ExitStack() as stack:

        def start(url: str) -> Callable[..., Any]:
            config = tmp_path / "prometheus.yml"
            job: dict[str, Any] = {"job_name": "pcli", "scrape_interval": "1s", "scrape_timeout": "1s"}
            job |= {"static_configs": [{"targets": [url.split("/")[2]]}]}
            rules = Path(__file__).parents[3] / "docs" / "monitoring" / "alerts.yaml"
            config.write_text(json.dumps({"scrape_configs": [job], "rule_files": [str(rules)]}))
            words = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
            words += ["--web.listen-address=127.0.0.1:0", "--enable-feature=exemplar-storage"]
            log = tmp_path / "prometheus.log"
            with log.open("w") as file:
                process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT)
            stack.enter_context(process)
            stack.callback(process.kill)
            while "Server is ready" not in log.read_text():
                assert process.poll() is None, log.read_text()
            address = re.search(r"Listening on.* address=(\S+:\d+)", log.read_text())
            assert address is not None
            return lambda path: json.loads(read(f"http://{address[1]}/api/v1/{path}"))["data"]

        yield start


def value_of(ask: Callable[..., Any], query: str) -> list[tuple[dict[str, str], float]]:
    found = ask(f"query?query={quote(query)}")["result"]
    return [(one["metric"], float(one["value"][1])) for one in found]


def answer(ask: Callable[..., Any], query: str, value: float) -> None:
    """Ask until Prometheus has scraped this value."""
    while [one for _, one in value_of(ask, query)] != [value]:
        pass


@pytest.fixture
def traffic() -> Iterator[Callable[[str], None]]:
    """Ten messages with a trace header, of which a consumer with a queue of five receives some and acknowledges two."""
    pulsar = pytest.importorskip("pulsar", reason="the Python client is not installed")
    with ExitStack() as stack:

        def run(url: str) -> None:
            client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
            stack.callback(client.close)
            consumer = client.subscribe(
                TOPIC, "work", consumer_type=pulsar.ConsumerType.Shared, consumer_name="w1", receiver_queue_size=5
            )
            producer = client.create_producer(TOPIC, batching_enabled=False)
            for number in range(10):
                producer.send(b"%d" % number, properties={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
            for _ in range(2):
                consumer.acknowledge(consumer.receive())

        yield run


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.slow
def test_the_broker_and_pcli_agree(command, traffic):
    """The metrics from the traffic equal those that the mini-broker counts itself."""
    setting = "exposeConsumerLevelMetricsInPrometheus=true"
    process, urls = command("broker", "--port", 0, "--http-port", 0, "--prometheus", 0, "--set", setting)
    traffic(urls["service_url"])
    seen = until(urls["metrics_url"], f"pcli_acknowledge_latency_seconds_count{{{OF_WORK}}}", 2)
    broker = {}
    for name, value in scrape(f"{urls['http_url']}/metrics/").items():
        metric, _, labels = name.removesuffix("}").partition("{")
        parts = sorted(one for one in labels.split(",") if one.partition("=")[0] not in ("cluster", "consumer_id"))
        broker[f"{metric}{{{','.join(parts)}}}"] = value
    ours = {name: value for name, value in seen.items() if name.startswith("pulsar_")}
    common = ours.keys() & broker.keys()
    assert {name: ours[name] for name in common} == {name: broker[name] for name in common}
    assert {name.partition("{")[0] for name in common} >= {
        "pulsar_in_messages_total", "pulsar_in_bytes_total", "pulsar_out_messages_total", "pulsar_msg_backlog",
        "pulsar_subscription_back_log", "pulsar_subscription_unacked_messages", "pulsar_producers_count",
        "pulsar_subscriptions_count", "pulsar_consumers_count", "pulsar_consumer_available_permits",
        "pulsar_consumer_unacked_messages", "pulsar_consumer_blocked_on_unacked_messages",
    }  # fmt: skip
    process.send_signal(signal.SIGTERM)
    assert "Traceback" not in process.communicate(timeout=20)[1]
    assert process.returncode == 0


@pytest.mark.slow
def test_prometheus_answers_questions_about_the_traffic(command, traffic, ask, broker):
    """PromQL gives the numbers of the mini-broker's REST API, and the exemplars contain the application's trace id."""
    process, urls = command("proxy", "--listen", 0, "--to", broker.service_url, "--log", "quiet", "--prometheus", 0)
    prometheus = ask(urls["metrics_url"])
    traffic(urls["service_url"])
    answer(prometheus, 'pcli_acknowledge_latency_seconds_count{subscription="work"}', 2)
    stats = json.loads(read(f"{broker.http_url}/admin/v2/persistent/public/default/orders/stats"))
    [work] = stats["subscriptions"].values()
    [consumer] = work["consumers"]
    for query, value in (
        ("sum by (topic) (pulsar_in_messages_total)", stats["msgInCounter"]),
        ("pulsar_in_bytes_total", stats["bytesInCounter"]),
        ("pulsar_out_messages_total", work["msgOutCounter"]),
        ("pulsar_subscription_back_log", work["msgBacklog"]),
        ("pulsar_subscription_unacked_messages", work["unackedMessages"]),
        ('pulsar_consumer_available_permits{consumer_name="w1"}', consumer["availablePermits"]),
        ("pcli_publish_latency_seconds_count", 10),
        ("pcli_dispatch_latency_seconds_count", work["msgOutCounter"]),
        ("histogram_quantile(0.99, pcli_acknowledge_latency_seconds_bucket) < bool 300", 1),
        ("count(pcli_findings_total == 0) > bool 100", 1),
        ("pcli_open_connections", 1),
        ("up", 1),
    ):
        answer(prometheus, query, value)
    found = prometheus("query_exemplars?query=pcli_publish_latency_seconds_bucket&start=0&end=9999999999")
    assert {one["labels"]["trace_id"] for series in found for one in series["exemplars"]} == {TRACE}
    [rules] = prometheus("rules")["groups"]
    assert {one["health"] for one in rules["rules"]} <= {"ok", "unknown"}
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0
    answer(prometheus, "up", 0)


@pytest.mark.slow
def test_prometheus_scrapes_top_on_an_interface(top, traffic, ask, broker):
    """The traffic of a client and a mini-broker on the loopback interface, without a proxy."""
    port = int(broker.service_url.rpartition(":")[2])
    process, url = top("-f", f"tcp port {port}")
    frames = 0.0
    while not frames:  # the capture program has no signal for its start
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(push_frame(pb.CommandConnect(client_version="tester", protocol_version=20)))
            assert client.recv(1)
        frames = scrape(url).get("pcli_frames_total", 0.0)
    prometheus = ask(url)
    traffic(broker.service_url)
    answer(prometheus, 'pcli_acknowledge_latency_seconds_count{subscription="work"}', 2)
    stats = json.loads(read(f"{broker.http_url}/admin/v2/persistent/public/default/orders/stats"))
    [work] = stats["subscriptions"].values()
    answer(prometheus, f'increase(pulsar_in_messages_total{{topic="{TOPIC}"}}[1h]) >= bool 0', 1)
    answer(prometheus, "pulsar_in_messages_total", stats["msgInCounter"])
    answer(prometheus, "pulsar_subscription_back_log", work["msgBacklog"])
    answer(prometheus, "pulsar_consumer_available_permits", work["consumers"][0]["availablePermits"])
    answer(prometheus, "pcli_source_up", 1)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == ""
    assert process.returncode == 0


@pytest.fixture
def top() -> Iterator[Callable[..., tuple[Any, str]]]:
    """Start ``pcli top -i lo --prometheus``; return the process and the URL. Skip the test if that is not possible."""
    if not (shutil.which("tcpdump") or shutil.which("dumpcap")):
        pytest.skip("no live capture here: neither tcpdump nor dumpcap is installed")
    with ExitStack() as stack:

        def start(*arguments: str) -> tuple[Any, str]:
            words = [sys.executable, "-m", "pcli.cli", "top", "-i", "lo", "--prometheus", "0", *arguments]
            pipe = subprocess.PIPE
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                pytest.skip(f"no live capture here: {process.communicate(timeout=20)[1]}")
            return process, line.split()[-1]

        yield start


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("broker", "--port", "0", "--http-port", "0"), "--prometheus {port}: the port is in use"),
        (("proxy", "--listen", "0", "--to", "localhost:1"), "--prometheus {port}: the port is in use"),
    ],
)
def test_a_port_in_use_is_one_line(pcli, arguments, message):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ran = pcli(*arguments, "--prometheus", port)
    assert (ran.code, ran.out, ran.err) == (2, "", f"pcli: {message.format(port=port)}\n")


def test_after_an_error_no_old_metrics_are_served(monkeypatch):
    """The thread that updates the metrics ends with an error, and the proxy or broker continues."""
    metrics = MetricsCollector(50)
    tap = DiagnosisTap(metrics, prints=False)
    tap.evaluate()
    assert len(metrics.read()) == len(METRICS)
    monkeypatch.setattr(metrics.diagnosis, "poll_steps", Mock(side_effect=ZeroDivisionError))
    with pytest.raises(ZeroDivisionError):
        tap.evaluate()
    assert [(metric.name, samples) for metric, samples in metrics.read()] == [("pcli_source_up", [Sample((), 0)])]
