"""The Prometheus endpoint of commands that read live traffic. It requires the extra ``pulsar-pcli[prometheus]``.

Rules of this file
1. A scrape reads the metrics of the last update, so a scraper never waits for the traffic and never delays it. Each
   scrape has its own thread; a client that does not read or write is disconnected after _PATIENCE.
2. Numbers that Prometheus libraries export for every process (memory, CPU) are included.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from io import StringIO
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.samples import Exemplar

from pcli.codec.errors import LocalError
from pcli.codec.observe.metrics.series_values import BOUNDS, Histogram
from pcli.codec.observe.telemetry.trace_ids import trace_text
from pcli.replay.sources.lazy_file import reason_of

if TYPE_CHECKING:
    from pcli.codec.observe.metrics.collector import Families
    from pcli.codec.observe.metrics.metric_table import Metric
    from pcli.codec.observe.metrics.series_values import Sample

_LOCAL: Final = "127.0.0.1"

_PATIENCE: Final = 10.0
"""Seconds to wait for a client that does not send its request, or does not read the response."""


def _parse(text: str) -> tuple[str, int]:
    """Return the host and the port of ``[HOST:]PORT``. Raises LocalError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= len("65535") and int(port) < 1 << 16):
        raise LocalError(f"--prometheus {text}: write a port from 0 to 65535, or HOST:PORT")
    return host.removeprefix("[").removesuffix("]") or _LOCAL, int(port)


class MetricsEndpoint:
    """An HTTP server of metrics. It listens when it is created."""

    def __init__(self, address: str, families: Callable[[], Families]) -> None:
        """``address`` is ``[HOST:]PORT``; ``families`` returns the metrics of the last update.

        Raises LocalError if the address is invalid or its port is in use.
        """
        host, port = _parse(address)
        registry = CollectorRegistry()
        registry.register(_Collector(families))
        ProcessCollector(registry=registry)
        try:
            self._server = make_server(
                host, port, _with_head(make_wsgi_app(registry)), _Server6 if ":" in host else _Server, _Handler
            )
        except OSError as error:
            reason = "the port is in use" if error.errno == errno.EADDRINUSE else reason_of(error)
            raise LocalError(f"--prometheus {address}: {reason}") from None
        except (TypeError, UnicodeError):
            raise LocalError(f"--prometheus {address}: {host} is no name of a host") from None
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()


def _with_head(application: Callable[..., list[bytes]]) -> Callable[..., list[bytes]]:
    """Return a WSGI application that answers HEAD like GET, without the body. That of prometheus_client refuses it."""

    def respond(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        head = environ["REQUEST_METHOD"] == "HEAD"
        started: list[tuple[str, list[tuple[str, str]]]] = []
        body = application(
            environ | {"REQUEST_METHOD": "GET"} if head else environ, lambda *given: started.append(given)
        )
        [(status, headers)] = started
        headers = [(name, f"{value},HEAD" if name == "Allow" else value) for name, value in headers]
        start_response(status, [*headers, ("Content-Length", str(sum(map(len, body))))])
        return [] if head else body

    return respond


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a thread for each client. Its end does not wait for them."""

    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        """Listen, without the query for the name of the host that HTTPServer sends."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that has disconnected or does not read."""


class _Server6(_Server):
    """A server on an IPv6 address."""

    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    """A handler that prints no log, and no traceback of a client that does not read."""

    timeout = _PATIENCE

    def get_stderr(self) -> Any:
        """Return a file that nobody reads."""
        return StringIO()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""


class _Collector:
    """The metrics as objects of prometheus_client."""

    def __init__(self, families: Callable[[], Families]) -> None:
        self._families = families

    def describe(self) -> list[Any]:
        """Return nothing: the names need no check for duplicates."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metrics of the last update."""
        for metric, samples in self._families():
            yield _family(metric, samples)


def _family(metric: Metric, samples: list[Sample]) -> Any:
    classes: dict[str, Any] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    base = metric.name.removesuffix("_total")
    unit = metric.unit if base.endswith(f"_{metric.unit}") else ""
    family = classes[metric.type](metric.name, metric.help, labels=metric.labels, unit=unit)
    for labels, value in samples:
        if isinstance(value, Histogram):
            family.add_metric(labels, buckets=_buckets(value), sum_value=value.sum_ns / 1e9)
        else:
            family.add_metric(labels, value)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, int, Exemplar | None]]:
    """Return the buckets with their bounds, cumulative counts and exemplars."""
    found: list[tuple[str, int, Exemplar | None]] = []
    total = 0
    for place, bound in enumerate((*map(str, BOUNDS), "+Inf")):
        total += histogram.counts[place]
        one = histogram.exemplars.get(place)
        shown = one and Exemplar({"trace_id": trace_text(one.trace)}, one.value_ns / 1e9, one.time_ns / 1e9)
        found.append((bound, total, shown))
    return found
