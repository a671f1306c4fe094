"""The Prometheus endpoint: what a scraper reads, and clients that behave badly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.observe.metrics.metric_table import METRICS
from pcli.codec.observe.metrics.series_values import Exemplar, Histogram, Sample

pytest.importorskip("prometheus_client", reason="the extra pulsar-pcli[prometheus] is not installed")

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
SECOND = 1_000_000_000


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve samples by the name of their metric; return the URL."""
    from pcli.cli.common.metrics_endpoint import MetricsEndpoint

    with ExitStack() as stack:

        def start(samples: dict[str, list[Sample]], address: str = "0") -> str:
            families = [(METRICS[name], found) for name, found in samples.items()]
            return stack.enter_context(MetricsEndpoint(address, lambda: families)).url

        yield start


def scrape(url: str, accept: str = "text/plain") -> str:
    with urlopen(Request(url, headers={"Accept": accept}), timeout=10) as response:
        return str(response.read().decode())


def test_names_from_the_wire_are_label_values(serve):
    """Quotes, line ends and backslashes are escaped; the parser of the library reads the same names."""
    from prometheus_client.openmetrics import parser as openmetrics
    from prometheus_client.parser import text_string_to_metric_families

    names = ('a"b', "a\nb", "a\\b", "a{b}=c,d", "ä 🙂", "\x00", "")
    labels = [("public/default", f"persistent://public/default/{name}") for name in names]
    url = serve({"pulsar_in_messages_total": [Sample(one, 1) for one in labels]})
    for read, accept in (
        (text_string_to_metric_families, "text/plain"),
        (openmetrics.text_string_to_metric_families, OPEN_METRICS),
    ):
        [family] = [one for one in read(scrape(url, accept)) if one.name == "pulsar_in_messages"]
        assert [(one.labels["namespace"], one.labels["topic"]) for one in family.samples] == labels


def test_a_histogram_with_exemplars(serve):
    histogram = Histogram()
    for duration in (400_000, 3 * SECOND, 400 * SECOND):
        histogram.exemplars[histogram.observe(duration)] = Exemplar(0xABC, duration, 9 * SECOND)
    url = serve({"pcli_publish_latency_seconds": [Sample(("public/default", "t"), histogram)]})
    lines = [line for line in scrape(url, OPEN_METRICS).splitlines() if line.startswith("pcli_publish")]
    trace = f"{0xABC:032x}"
    start = 'pcli_publish_latency_seconds_bucket{le="'
    assert lines[0] == f'{start}0.0005",namespace="public/default",topic="t"}} 1.0 # {{trace_id="{trace}"}} 0.0004 9.0'
    assert lines[-3].startswith(f'{start}+Inf",namespace="public/default",topic="t"}} 3.0 # {{trace_id="{trace}"}} 400')
    assert float(lines[-1].split()[-1]) == 403.0004
    assert "trace_id" not in scrape(url)


@pytest.mark.parametrize("accept", ["text/plain", OPEN_METRICS])
def test_head_is_answered_like_get_without_the_body(serve, accept):
    """RFC 9110, section 9.3.2: a server that supports GET supports HEAD."""
    url = serve({"pulsar_in_messages_total": [Sample(("public/default", "t"), 1)]})
    found = []
    for method in ("GET", "HEAD"):
        with urlopen(Request(url, headers={"Accept": accept}, method=method), timeout=10) as response:
            found.append((response.status, response.headers["Content-Type"], response.read()))
            assert int(response.headers["Content-Length"]) > 100
    assert found[1] == (*found[0][:2], b"")


def test_other_methods_are_refused_with_those_that_are_allowed(serve):
    with pytest.raises(HTTPError, match="405") as raised:
        urlopen(Request(serve({}), method="POST"), timeout=10)
    with raised.value as response:
        assert {*response.headers["Allow"].split(",")} == {"OPTIONS", "GET", "HEAD"}


def test_the_process_is_measured(serve):
    assert "\nprocess_resident_memory_bytes " in scrape(serve({}))


@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", ":0"])
def test_an_address_to_listen_on(serve, address):
    url = serve({}, address)
    assert url.endswith("/metrics")
    assert scrape(url.replace("0.0.0.0", "127.0.0.1")).endswith("\n")


@pytest.mark.parametrize("address", ["", "x", "70000", "-1", "localhost:", "localhost:http", "1.5", "9" * 5000])
def test_an_address_without_a_port_is_refused(serve, address):
    with pytest.raises(LocalError, match="write a port from 0 to 65535, or HOST:PORT"):
        serve({}, address)


def test_a_host_that_does_not_exist(serve):
    with pytest.raises(LocalError, match=r"--prometheus no\.such\.host\.invalid:0: "):
        serve({}, "no.such.host.invalid:0")


@pytest.mark.parametrize("host", ["ü..b", "\udcff"])
def test_a_host_that_is_no_name(serve, host):
    with pytest.raises(LocalError, match=f"--prometheus {host}:0: {host} is no name of a host"):
        serve({}, f"{host}:0")


def test_a_port_in_use(serve):
    url = serve({})
    port = url.split(":")[2].split("/")[0]
    with pytest.raises(LocalError, match=f"--prometheus {port}: the port is in use"):
        serve({}, port)


def test_clients_that_do_not_send_or_read_delay_no_other(serve):
    """More bytes than the buffers of a socket hold, so the threads of these clients wait."""
    samples = [Sample(("public/default", f"persistent://public/default/{number}"), 1) for number in range(50_000)]
    url = serve({"pulsar_in_messages_total": samples})
    place = ("127.0.0.1", int(url.split(":")[2].split("/")[0]))
    with ExitStack() as stack:
        for request in (b"", b"GET /met", b"GET /metrics HTTP/1.0\r\n\r\n"):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(place)
            client.sendall(request)
        assert scrape(url).count("pulsar_in_messages_total{") == 50_000


def test_a_client_that_stops_reading_prints_nothing(serve, monkeypatch, capsys):
    from pcli.cli.common.metrics_endpoint import _Handler

    monkeypatch.setattr(_Handler, "timeout", 0.05)
    samples = [Sample(("public/default", f"persistent://public/default/{number}"), 1) for number in range(100_000)]
    url = serve({"pulsar_in_messages_total": samples})
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", int(url.split(":")[2].split("/")[0])))
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert client.recv(1)
        writing = [one for one in threading.enumerate() if "process_request_thread" in one.name]
        for one in writing:
            one.join(20)
        assert not any(one.is_alive() for one in writing)
    assert capsys.readouterr().err == ""


def test_a_client_that_does_not_send_is_disconnected(serve, monkeypatch):
    from pcli.cli.common.metrics_endpoint import _Handler

    monkeypatch.setattr(_Handler, "timeout", 0.05)
    url = serve({})
    with socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0])), 10) as client:
        assert client.recv(1) == b""
