"""`pcli export -r`: spans of captures at a backend, and backends that fail."""

from __future__ import annotations

import threading

import pytest

from pcli.cli.common.otlp_options import OtlpOptions
from pcli.cli.export.otlp_backend import Outcome, open_backend
from pcli.codec.observe.telemetry.spans import SCHEMA_URL, Span

SHARED = "python/10-shared-redelivery.pcap"
FINDINGS = "python/25-no-flow.pcapng"


@pytest.fixture
def export(pcli, small_captures):
    """Export a capture."""
    return lambda name, url, *arguments, **more: pcli(
        "export", "-r", small_captures / name, "--otlp", url, *arguments, **more
    )


def test_the_spans_of_a_capture_arrive(export, receiver, attributes):
    ran = export(SHARED, receiver.url)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines() == [
        f"pcli: exported 136 spans and 2 log records of findings to {receiver.url}",
        "pcli: 60 messages of 60 exported",
    ]
    assert len(receiver.spans) == 136
    assert {scope.schema_url for scope in receiver.scopes} == {SCHEMA_URL}
    assert {scope.scope.name for scope in receiver.scopes} == {"pcli"}
    assert receiver.resources[0]["service.name"] == "pulsar"
    by_trace = {}
    for span in receiver.spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    assert len(by_trace) == 60
    roots = {span.span_id for span in receiver.spans if not span.parent_span_id}
    assert {span.parent_span_id for span in receiver.spans if span.parent_span_id} <= roots
    redelivered = [one for one in receiver.spans if attributes(one).get("messaging.pulsar.redelivery.count")]
    assert redelivered
    assert all(one.events[0].name == "redelivery" for one in redelivered)


def test_findings_are_log_records_and_events(export, receiver, attributes):
    assert export(FINDINGS, receiver.url).code == 0
    records = {attributes(one)["pcli.finding.rule"]: one for one in receiver.logs}
    assert "stuck-no-permits" in records
    assert records["stuck-no-permits"].severity_text == "ERROR"
    assert "never-asks" in records["stuck-no-permits"].body.string_value


def test_grpc_delivers_the_same_spans(export, receiver, grpc_backend):
    export(SHARED, receiver.url)
    ran = export(SHARED, grpc_backend.url, "--otlp-protocol", "grpc")
    assert ran.code == 0
    spans = [{one.SerializeToString() for one in backend.spans} for backend in (receiver, grpc_backend)]
    assert spans[0] == spans[1]


def test_a_filter_selects_messages_and_a_rate_selects_traces(export, receiver, attributes):
    """Messages with findings are exported, too: 12 of the 60."""
    export(SHARED, receiver.url, "-Y", "pulsar.metadata.sequence_id == 30")
    found = {one.trace_id for one in receiver.spans if any(event.name == "finding" for event in one.events)}
    others = {attributes(one)["messaging.pulsar.sequence_id"] for one in receiver.spans if one.trace_id not in found}
    assert (len(found), others) == (12, {30})
    del receiver.spans[:]
    export(SHARED, receiver.url, "--sample", "0.5")
    assert 20 < len({one.trace_id for one in receiver.spans}) < 55


def test_the_cluster_the_service_and_the_headers(export, receiver, attributes):
    export(SHARED, receiver.url, "--cluster", "east", "--service", "orders", "--otlp-header", "X-Tenant=a=b")
    assert attributes(receiver.spans[0])["messaging.pulsar.cluster"] == "east"
    assert receiver.resources[0]["service.name"] == "orders"
    assert receiver.headers[0]["X-Tenant".lower()] == "a=b"


@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=orders,service.version=2"}, "orders"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=orders", "OTEL_SERVICE_NAME": "billing"}, "billing"),
    ],
)
def test_the_service_in_variables(export, receiver, monkeypatch, variables, service):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    export(SHARED, receiver.url)
    assert receiver.resources[0]["service.name"] == service
    export(SHARED, receiver.url, "--service", "own")
    assert receiver.resources[-1]["service.name"] == "own"


def test_the_end_of_a_consumer_ends_the_spans_of_its_messages(export, receiver):
    export("python/01-exclusive-unbatched.pcapng", receiver.url)
    assert [event.name for one in receiver.spans for event in one.events].count("taken_back") == 3


def test_a_truncated_capture_is_exported_up_to_the_damage(pcli, receiver, small_captures, tmp_path):
    path = tmp_path / "cut.pcap"
    path.write_bytes((small_captures / SHARED).read_bytes()[:-100])
    ran = pcli("export", "-r", path, "--otlp", receiver.url)
    assert (ran.code, len(receiver.spans)) == (3, 136)
    assert ran.err.count("cut.pcap") == 1


def test_a_capture_on_stdin(pcli, receiver, small_captures):
    ran = pcli("export", "-r", "-", "--otlp", receiver.url, stdin=(small_captures / SHARED).read_bytes())
    assert (ran.code, len(receiver.spans)) == (0, 136)


def test_the_reader_waits_while_the_queue_is_full(export, receiver):
    ran = export(SHARED, receiver.url, "--otlp-queue", "7")
    assert (ran.code, len(receiver.spans)) == (0, 136)
    assert len(receiver.scopes) >= 136 / 7


def test_text_and_numbers_of_a_peer_that_protobuf_does_not_accept(receiver, attributes):
    backend = open_backend(OtlpOptions(otlp=receiver.url))
    span = Span(1, 2, "send a\udcff", "producer", 1, 2, attributes={"name": "\ud800", "number": 1 << 63, "low": -1})
    assert backend.export([span]) == Outcome()
    assert receiver.spans[0].name == "send a?"
    assert attributes(receiver.spans[0]) == {"name": "?", "number": str(1 << 63), "low": -1}


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_backend_receives_every_span_later(export, receiver, status):
    receiver.answers.append(status)
    ran = export(SHARED, receiver.url)
    assert (ran.code, len(receiver.spans)) == (0, 136)


def test_a_backend_that_refuses_loses_the_spans_and_says_so_once(export, receiver):
    receiver.always = 401
    ran = export(SHARED, receiver.url)
    assert ran.code == 2
    assert ran.err.splitlines()[:3] == [
        f"pcli: {receiver.url}: HTTP status 401 Unauthorized",
        f"pcli: exported 0 spans and 0 log records of findings to {receiver.url}",
        "pcli: lost 136 spans and 2 log records: HTTP status 401 Unauthorized",
    ]


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_loses_the_spans_and_shows_the_address(export, receiver, status):
    receiver.always = status
    ran = export(SHARED, receiver.url)
    assert (ran.code, receiver.spans) == (2, [])
    assert ran.err.splitlines()[0].endswith(f": --otlp {receiver.url}/new is the new address")
    assert "lost 136 spans" in ran.err


def test_a_backend_that_closes_the_connection(export, receiver):
    receiver.always = "close"
    ran = export(SHARED, receiver.url, "--otlp-timeout", "1")
    assert (ran.code, receiver.spans) == (2, [])
    assert ran.err.splitlines()[0].endswith(": the backend closed the connection; the request is repeated")


@pytest.mark.parametrize("kind", ["CLIENT_CERTIFICATE", "TRACES_CLIENT_KEY"])
def test_a_variable_with_the_name_of_a_missing_file(export, receiver, monkeypatch, kind):
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{kind}", "no.pem")
    ran = export(SHARED, receiver.url)
    assert (ran.code, ran.err) == (2, f"pcli: OTEL_EXPORTER_OTLP_{kind}=no.pem: no such file or directory\n")


def test_messages_with_one_sequence_id_and_time_have_their_own_spans(export, receiver, attributes):
    """Deduplication dropped two messages of a producer that have the sequence id 1 and one publish time."""
    export("python/23-dedup.pcap", receiver.url)
    frames = {one.span_id: attributes(one)["pcli.frame"] for one in receiver.spans}
    assert len(frames) == len(receiver.spans) == 41
    assert {84, 86} <= {*frames.values()}


@pytest.mark.parametrize("backend", ["receiver", "grpc_backend"])
def test_spans_and_log_records_that_the_backend_rejects_are_lost(export, request, backend):
    found = request.getfixturevalue(backend)
    found.answers.extend(["7", "1"])
    ran = export(SHARED, found.url, "--otlp-protocol", "grpc" if backend == "grpc_backend" else "auto")
    assert ran.code == 2
    assert "exported 129 spans and 1 log record" in ran.err
    assert "lost 7 spans and 1 log record: too old" in ran.err


def test_a_channel_that_is_opened_again_counts_rejected_spans(export, grpc_backend):
    """The exporter opens a new channel after UNAVAILABLE."""
    grpc_backend.answers.extend(["UNAVAILABLE", "7"])
    ran = export(SHARED, grpc_backend.url, "--otlp-protocol", "grpc")
    assert (ran.code, "lost 7 spans: " in ran.err) == (2, True)


def test_a_backend_of_traces_alone(export, receiver):
    receiver.always = None
    ran = export(FINDINGS, f"{receiver.url}/", "--otlp-timeout", "1")
    assert ran.code == 0
    receiver.answers.extend([None, 404])
    ran = export(FINDINGS, receiver.url)
    assert ran.code == 0
    assert "the backend accepts no log records (HTTP status 404 Not Found)" in ran.err


@pytest.mark.parametrize(("code", "text"), [("UNAVAILABLE", "UNAVAILABLE"), ("UNAUTHENTICATED", "UNAUTHENTICATED")])
def test_a_grpc_backend_that_refuses(export, grpc_backend, code, text):
    grpc_backend.always = code
    ran = export(SHARED, grpc_backend.url, "--otlp-protocol", "grpc", "--otlp-timeout", "0.5")
    assert ran.code == 2
    assert f"gRPC status {text}: no room" in ran.err
    assert "lost 136 spans" in ran.err


def test_a_backend_that_is_down(export):
    ran = export(SHARED, "http://127.0.0.1:9", "--otlp-timeout", "0.2", "--otlp-queue", "10")
    assert ran.code == 2
    assert ran.err.splitlines()[0] == "pcli: http://127.0.0.1:9: Connection refused; the request is repeated"
    assert "exported 0 spans" in ran.err
    assert "spans and 2 log records: Connection refused; the backend failed for 0.2 s" in ran.err


@pytest.mark.slow
def test_a_slow_backend_receives_every_span_later(export, receiver):
    slow = threading.Event()
    receiver.answers.append(slow)
    ran = export(SHARED, receiver.url, "--otlp-timeout", "1")
    slow.set()
    assert (ran.code, len(receiver.spans)) == (0, 136)
    assert ran.err.splitlines()[:2] == [
        f"pcli: {receiver.url}: no response in time; the request is repeated",
        f"pcli: {receiver.url}: accepts spans again",
    ]


@pytest.mark.parametrize("protocol", ["http/protobuf", pytest.param("grpc", marks=pytest.mark.slow)])
def test_a_certificate_that_is_not_trusted(export, https_receiver, protocol):
    ran = export(SHARED, https_receiver.url, "--otlp-protocol", protocol)
    assert ran.code == 2
    assert "certificate" in ran.err.splitlines()[0].lower()
    assert "repeated" not in ran.err


def test_a_certificate_that_is_trusted(export, https_receiver, tmp_path):
    assert export(SHARED, https_receiver.url, "--otlp-trust", tmp_path / "ca.pem").code == 0
    assert len(https_receiver.spans) == 136


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--otlp", "localhost:4318"], "--otlp localhost:4318: write http://HOST:PORT or https://HOST:PORT"),
        (["--otlp", "http://:4318"], "--otlp http://:4318: write http://HOST:PORT or https://HOST:PORT"),
        (["--otlp", "http://a/?key=b"], "--otlp http://a/: write the URL without a query"),
        (["--otlp", "http://a:70000"], "--otlp http://a:70000: Port out of range 0-65535"),
        (["--otlp", "http://a", "--otlp-header", "key"], "--otlp-header: write NAME=VALUE"),
        (["--otlp", "http://a", "--otlp-trust", "no.pem"], "--otlp-trust no.pem: no such file or directory"),
        ([], "--otlp URL is missing: for example --otlp http://localhost:4318"),
        (["--otlp", "http://a", "-i", "lo"], "use exactly one of -r FILE, -i IFACE and --proxy HOST:PORT"),
        (["--otlp", "http://a", "-Y", "pulsar.nothing"], "pulsar.nothing"),
    ],
)
def test_wrong_options_are_reported_before_the_capture_is_read(pcli, small_captures, arguments, text):
    ran = pcli("export", "-r", small_captures / SHARED, *arguments)
    assert ran.code == 2
    assert text in ran.err.splitlines()[0]


@pytest.mark.parametrize("name", ["--sample", "--otlp-timeout", "--horizon"])
def test_nan_is_not_a_number(export, receiver, name):
    ran = export(SHARED, receiver.url, name, "nan")
    assert (ran.code, receiver.spans) == (2, [])
    assert f"Invalid value for '{name}': 'nan' is not a number." in ran.err


def test_without_the_extra(export, receiver, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk", None)
    ran = export(SHARED, receiver.url)
    assert (ran.code, ran.err) == (
        2, "pcli: --otlp requires opentelemetry-sdk: pip install 'pulsar-pcli[otel]'\n",
    )  # fmt: skip
