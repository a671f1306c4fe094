"""Spans in Jaeger, joined to those of an application that is itself instrumented.

Jaeger is the all-in-one of the Go module, without its user interface. The first build takes minutes; build/jaeger keeps
the program for the next run.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pcli.replay.proxy import Proxy

pulsar = pytest.importorskip("pulsar", exc_type=ImportError)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

MODULE, VERSION = "github.com/jaegertracing/jaeger", "v1.76.0"
FOLDER = Path(__file__).parents[3] / "build" / "jaeger"
BUILD_SECONDS = 1800
_PORTS = ("query.http-server", "collector.otlp.http", "collector.otlp.grpc", "query.grpc-server",
          "collector.grpc-server", "collector.http-server", "admin.http")  # fmt: skip


@dataclass
class Jaeger:
    """A running Jaeger."""

    query: str
    otlp: str
    otlp_grpc: str

    def trace(self, trace_id: str) -> dict[str, Any]:
        """Return the spans of a trace by span id, each with its service, parents, links, tags and events."""
        with urllib.request.urlopen(f"{self.query}/api/traces/{trace_id}", timeout=30) as response:
            (data,) = json.load(response)["data"]
        spans = {}
        for span in data["spans"]:
            # Jaeger proposes to move every span that begins after its parent has ended, as consumers' spans do.
            assert all(one.startswith("clock skew") for one in span["warnings"] or ()), span["warnings"]
            span["service"] = data["processes"][span["processID"]]["serviceName"]
            span["tags"] = {tag["key"]: tag["value"] for tag in span["tags"]}
            span["events"] = [
                next(field["value"] for field in log["fields"] if field["key"] == "event") for log in span["logs"]
            ]
            span["parents"] = [one["spanID"] for one in span["references"] if one["refType"] == "CHILD_OF"]
            span["links"] = [one["spanID"] for one in span["references"] if one["refType"] == "FOLLOWS_FROM"]
            spans[span["spanID"]] = span
        return spans


def _program() -> Path:
    """Return the program; build it if necessary. Skip the test if that is not possible."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    program = FOLDER / f"all-in-one-{VERSION}"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        if shutil.which("go") is None:
            pytest.skip("Jaeger is not available: go is not installed")
        (FOLDER / "go.mod").write_text("module build\n\ngo 1.24\n")
        part = FOLDER / "part"
        for command in (
            ("go", "get", "-tool", f"{MODULE}/cmd/all-in-one@{VERSION}"),
            ("go", "build", "-buildvcs=false", "-o", str(part), f"{MODULE}/cmd/all-in-one"),
        ):
            env = os.environ | {"CGO_ENABLED": "0"}
            built = subprocess.run(
                command, cwd=FOLDER, env=env, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
            )
            if built.returncode:
                pytest.skip(f"Jaeger is not available: {built.stderr.strip()[-300:]}")
        part.rename(program)
    return program


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    """A Jaeger that keeps its spans in memory."""
    program = _program()
    ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
    options = [f"--{name}.host-port=127.0.0.1:{port}" for name, port in ports.items()]
    log = tmp_path_factory.mktemp("jaeger") / "log"
    env = os.environ | {"COLLECTOR_OTLP_ENABLED": "true"}
    with (
        log.open("w") as output,
        subprocess.Popen([program, *options], env=env, stdout=output, stderr=output) as process,
    ):
        http, otlp, grpc = (f"http://127.0.0.1:{ports[name]}" for name in _PORTS[:3])
        try:
            for _ in range(600):
                assert process.poll() is None, log.read_text()
                try:
                    urllib.request.urlopen(f"{http}/api/services", timeout=5).close()
                    break
                except URLError:
                    threading.Event().wait(0.1)
            yield Jaeger(http, otlp, grpc)
        finally:
            process.terminate()


class Shop:
    """An application that exports its own spans and writes their contexts into its messages."""

    def __init__(self, service_url: str, otlp: str) -> None:
        self.provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
        self.provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{otlp}/v1/traces")))
        self.tracer = self.provider.get_tracer("shop")
        self.propagator = TraceContextTextMapPropagator()
        self.client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))

    def publish(self, topic: str, payload: bytes) -> str:
        """Send a message in a span. Return the id of the trace."""
        producer = self.client.create_producer(topic)
        with self.tracer.start_as_current_span("checkout") as root:
            with self.tracer.start_as_current_span(f"publish {topic}", kind=SpanKind.PRODUCER):
                headers: dict[str, str] = {}
                self.propagator.inject(headers)
                producer.send(payload, properties=headers)
            return f"{root.get_span_context().trace_id:032x}"

    def process(self, consumer: Any, *, fails: bool) -> None:
        """Process a message in a span that is a child of the producer's."""
        message = consumer.receive(30_000)
        context = self.propagator.extract(message.properties())
        with self.tracer.start_as_current_span("handle order", context, kind=SpanKind.CONSUMER):
            (consumer.negative_acknowledge if fails else consumer.acknowledge)(message)

    def close(self) -> None:
        self.client.close()
        self.provider.shutdown()


@pytest.fixture
def dead_lettered(broker: Any, jaeger: Jaeger, tmp_path: Path) -> tuple[str, Path]:
    """The trace id and the capture of a message that is redelivered, dead-lettered, and processed as a dead letter."""
    capture = tmp_path / "shop.pcapng"
    with Proxy(to=broker.service_url, capture=capture) as proxy:
        shop = Shop(proxy.service_url, jaeger.otlp)
        letters = shop.client.subscribe("orders-DLQ", "audit")
        policy = pulsar.ConsumerDeadLetterPolicy(max_redeliver_count=1, dead_letter_topic="orders-DLQ")
        orders = shop.client.subscribe(
            "orders", "billing", pulsar.ConsumerType.Shared, dead_letter_policy=policy,
            negative_ack_redelivery_delay_ms=100,
        )  # fmt: skip
        trace_id = shop.publish("orders", b"an order")
        for _ in range(2):
            shop.process(orders, fails=True)
        shop.process(letters, fails=False)
        shop.close()
    return trace_id, capture


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_dead_lettered_message_is_one_trace_with_the_spans_of_the_application(pcli, jaeger, dead_lettered, protocol):
    trace_id, capture = dead_lettered
    url = jaeger.otlp_grpc if protocol == "grpc" else jaeger.otlp
    ran = pcli("export", "-r", capture, "--otlp", url, "--otlp-protocol", protocol)
    assert ran.code == 0, ran.err
    spans = jaeger.trace(trace_id)
    by_name: dict[str, list[Any]] = {}
    for span in sorted(spans.values(), key=lambda one: one["startTime"]):
        by_name.setdefault(f"{span['service']}: {span['operationName']}", []).append(span)
    orders, letters = (f"persistent://public/default/{name}" for name in ("orders", "orders-DLQ"))
    assert {name: len(some) for name, some in by_name.items()} == {
        "shop: checkout": 1,
        "shop: publish orders": 1,
        "shop: handle order": 3,
        f"pulsar: send {orders}": 1,
        f"pulsar: process {orders}": 2,
        f"pulsar: send {letters}": 1,
        f"pulsar: process {letters}": 1,
    }
    (publish,) = by_name["shop: publish orders"]
    (send,) = by_name[f"pulsar: send {orders}"]
    process = by_name[f"pulsar: process {orders}"]
    of_pulsar = [span for span in spans.values() if span["service"] == "pulsar"]
    assert {tuple(span["parents"]) for span in of_pulsar} == {(publish["spanID"],)}
    assert all(send["spanID"] in span["links"] for span in process)
    assert [span["tags"]["messaging.pulsar.redelivery.count"] for span in process] == [0, 1]
    assert [span["tags"].get("error", False) for span in process] == [True, False]
    assert "dead_letter" in process[-1]["events"]
    assert process[0]["events"][0] in ("negative_acknowledgement", "redelivery_request")
    assert [event for span in process for event in span["events"] if event in ("redelivery", "acknowledged")] == [
        "redelivery", "acknowledged",
    ]  # fmt: skip
