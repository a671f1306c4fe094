"""An OTLP backend: the exporters of OpenTelemetry's SDK, and what became of each request.

Rules of this file
1. The exporters report only whether a request failed. The HTTP session, and the log and the stub of the gRPC exporter,
   show why, which determines whether it is repeated, and how many items were rejected (OTLP specification, "Failures").
2. The exporters print nothing: their loggers write to this file.
3. A backend of traces alone refuses log records with 404 or UNIMPLEMENTED. That is not a loss, because the spans
   contain the findings as events.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import RemoteDisconnected
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pcli.codec.errors import LocalError
from pcli.codec.observe.telemetry.spans import LogRecord, Span

if TYPE_CHECKING:
    import requests

    from pcli.cli.common.otlp_options import OtlpOptions

REQUEST_S: Final = 5.0
"""Maximum duration of one request in seconds, including the retries of the SDK."""

_REPEATED: Final = frozenset({429, 502, 503, 504})
"""Status codes after which a request is repeated."""

_CLIENT_FILE: Final = re.compile(r"OTEL_EXPORTER_OTLP_(TRACES_|LOGS_)?CLIENT_(CERTIFICATE|KEY)")
"""Variables that name files of the SDK's exporters."""

_MISSING: Final = "--otlp requires opentelemetry-sdk: pip install 'pulsar-pcli[otel]'"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a request."""

    error: str = ""
    """Why it failed; empty if it succeeded."""
    repeat: bool = False
    """Whether the request may succeed later."""
    rejected: int = 0
    """Number of items that the backend rejected although the request succeeded."""
    unsupported: bool = False
    """Whether the backend does not accept this kind of data."""


class _Failures(logging.Handler):
    """The last failure of a request, as the HTTP session or the gRPC exporter reports it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.outcome = Outcome()

    def emit(self, record: logging.LogRecord) -> None:
        """Take the status and the details from a message of the gRPC exporter."""
        import grpc

        arguments = record.args if isinstance(record.args, tuple) else ()
        codes = [one for one in arguments if isinstance(one, grpc.StatusCode)]
        if codes:
            (code,) = codes
            repeated = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED")
            details = str(arguments[-1]).split("\n")[0]
            certificate = "certificate" in details.lower() or "handshake" in details.lower()
            self.outcome = Outcome(
                f"gRPC status {code.name}: {details}",
                repeat=code.name in repeated and not certificate,
                unsupported=code.name == "UNIMPLEMENTED",
            )


class Backend:
    """The exporters of one backend."""

    def __init__(self, address: str, spans: Any, logs: Any, failures: _Failures, service: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        from pcli.cli import __version__
        from pcli.codec.observe.telemetry.spans import SCHEMA_URL

        self.address = address
        """Scheme, host and port."""
        self._exporters = {Span: spans, LogRecord: logs}
        self._failures = failures
        # With OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
        self._resource = Resource.create({"service.name": service} if service else {}, SCHEMA_URL)
        if str(self._resource.attributes["service.name"]).startswith("unknown_service"):
            self._resource = self._resource.merge(Resource({"service.name": "pulsar"}))
        self._scope = InstrumentationScope("pcli", __version__, SCHEMA_URL)

    def export(self, items: Sequence[Span] | Sequence[LogRecord]) -> Outcome:
        """Send items of one kind."""
        from pcli.cli.export.sdk_records import sdk_log, sdk_span

        kind: type[Span] | type[LogRecord] = type(items[0])
        convert: Any = sdk_span if kind is Span else sdk_log
        self._failures.outcome = Outcome()
        try:
            result = self._exporters[kind].export([convert(one, self._resource, self._scope) for one in items])
        except Exception as error:  # the sender must go on with the next request
            return Outcome(f"{type(error).__name__}: {error}")
        outcome = self._failures.outcome
        if result.name == "SUCCESS":
            return Outcome(rejected=outcome.rejected, error=outcome.error if outcome.rejected else "")
        return outcome if outcome.error else Outcome("no response", repeat=True)

    def close(self) -> None:
        """Close the connections."""
        for one in self._exporters.values():
            one.shutdown()


def open_backend(options: OtlpOptions) -> Backend:
    """Return the backend of the options, without connecting to it.

    Raises LocalError if an option is wrong or the extra is not installed.
    """
    address, endpoint, protocol = _endpoint(options)
    headers = _headers(options.otlp_headers or [])
    if options.otlp_trust:
        _check_certificates(options.otlp_trust)
    for name in sorted(filter(_CLIENT_FILE.fullmatch, os.environ)):
        _check_readable(name)
    # The C core of gRPC prints failed handshakes on stderr.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        import opentelemetry.sdk  # noqa: F401
    except ModuleNotFoundError:
        raise LocalError(_MISSING) from None
    failures = _Failures()
    logger = logging.getLogger("opentelemetry")
    logger.handlers, logger.propagate = [failures], False
    timeout = min(REQUEST_S, options.otlp_timeout)
    make = _grpc_exporters if protocol == "grpc" else _http_exporters
    spans, logs = make(endpoint, headers, options.otlp_trust, timeout, failures)
    return Backend(address, spans, logs, failures, options.service)


def _endpoint(options: OtlpOptions) -> tuple[str, str, str]:
    """Return the address without credentials, the endpoint for the exporters, and the protocol."""
    url = options.otlp
    shown = url.rpartition("@")[2]  # without credentials
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise LocalError(f"--otlp {shown}: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise LocalError(f"--otlp {shown}: write http://HOST:PORT or https://HOST:PORT")
    if parts.query or parts.fragment:
        raise LocalError(f"--otlp {shown.partition('?')[0]}: write the URL without a query")  # it can contain a token
    named = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    protocol = options.otlp_protocol
    if protocol == "auto":
        protocol = "grpc" if named == "grpc" or (not named and port == 4317) else "http/protobuf"
    name = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")
    if protocol == "grpc":
        return address, f"{parts.scheme}://{name}:{port or 4317}", protocol
    return address, url.rstrip("/").removesuffix("/v1/traces"), protocol


def _headers(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not (separator and name.strip() and name.isascii() and value.isprintable()):
            raise LocalError("--otlp-header: write NAME=VALUE")  # without the text, which may be a secret
        found[name.strip().lower()] = value.strip()
    return found


def _check_certificates(path: str) -> None:
    """Raise LocalError unless the file contains certificates."""
    import ssl

    from pcli.replay.sources.lazy_file import reason_of

    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise LocalError(f"--otlp-trust {path}: the file contains no certificate in PEM format") from None
    except OSError as error:
        raise LocalError(f"--otlp-trust {path}: {reason_of(error)}") from None


def _check_readable(name: str) -> None:
    """Raise LocalError unless the file that this variable names is readable."""
    from pcli.replay.sources.lazy_file import reason_of

    try:
        Path(os.environ[name]).open("rb").close()
    except OSError as error:
        raise LocalError(f"{name}={os.environ[name]}: {reason_of(error)}") from None


def _http_exporters(
    endpoint: str, headers: dict[str, str], trust: str, timeout: float, failures: _Failures
) -> tuple[Any, Any]:
    try:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError:
        raise LocalError(_MISSING) from None
    common: dict[str, Any] = {"certificate_file": trust or None, "headers": headers, "timeout": timeout}
    return (
        OTLPSpanExporter(f"{endpoint}/v1/traces", session=_session(failures), **common),
        OTLPLogExporter(f"{endpoint}/v1/logs", session=_session(failures), **common),
    )


def _session(failures: _Failures) -> Any:
    """Return an HTTP session that records the result of each request."""
    import requests

    class Session(requests.Session):
        def request(self, *arguments: Any, **named: Any) -> requests.Response:
            try:
                # Without verify, the variable REQUESTS_CA_BUNDLE would replace --otlp-trust.
                response = super().request(*arguments, **{"verify": self.verify, **named})
            except requests.exceptions.SSLError as error:
                failures.outcome = Outcome(_reason(error))
                # The exporter repeats every error of a connection, but the certificate stays the same.
                raise ValueError(str(error)) from None
            except requests.exceptions.RequestException as error:
                repeat = isinstance(error, (requests.exceptions.ConnectionError, requests.exceptions.Timeout))
                failures.outcome = Outcome(_reason(error), repeat=repeat)
                raise
            failures.outcome = _http_outcome(response)
            if 300 <= response.status_code < 400:
                raise ValueError(failures.outcome.error)  # the exporter reports a redirect as a success
            return response

    return Session()


def _http_outcome(response: requests.Response) -> Outcome:
    status = response.status_code
    if 200 <= status < 300:
        return _partial_success(response.content)
    text = f"HTTP status {status} {response.reason}".rstrip()
    if address := response.headers.get("Location", ""):
        text += f": --otlp {address.partition('?')[0]} is the new address"  # a query can contain a token
    return Outcome(text, repeat=status in _REPEATED, unsupported=status == 404)


def _partial_success(data: bytes) -> Outcome:
    """Return the number of rejected items in a response. It is empty if the backend accepted all items."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    # The field numbers of the response to log records are the same.
    try:
        partial = ExportTraceServiceResponse.FromString(data).partial_success
    except Exception:
        return Outcome()  # a JSON response, or none: the status decides
    return Outcome(partial.error_message or "rejected", rejected=partial.rejected_spans)


def _reason(error: Exception) -> str:
    """Return the cause of an error of a connection, without the names of the libraries that report it."""
    import requests

    if isinstance(error, requests.exceptions.Timeout):
        return "no response in time"
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if isinstance(cause, RemoteDisconnected):
            return "the backend closed the connection"
        if isinstance(cause, OSError) and cause.strerror and "HTTPConnectionPool" not in text:
            return cause.strerror
        reason = getattr(cause, "reason", None)
        inner = reason if isinstance(reason, BaseException) else cause.args[0] if cause.args else None
        cause = cause.__cause__ or cause.__context__ or (inner if isinstance(inner, BaseException) else None)
    return type(error).__name__


def _grpc_exporters(
    endpoint: str, headers: dict[str, str], trust: str, timeout: float, failures: _Failures
) -> tuple[Any, Any]:
    try:
        import grpc
        from opentelemetry.exporter.otlp.proto.grpc import exporter
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError:
        raise LocalError(_MISSING) from None
    exporter.logger.filters.clear()  # they drop failures that repeat, and each one decides about a batch
    credentials = grpc.ssl_channel_credentials(Path(trust).read_bytes()) if trust else None
    common: dict[str, Any] = {
        "endpoint": endpoint, "insecure": endpoint.startswith("http:"), "credentials": credentials,
        "headers": headers or None, "timeout": timeout,
    }  # fmt: skip

    class WithResponses:
        """A part of an exporter that records responses, which the exporter drops."""

        _client: Any

        def _initialize_channel_and_stub(self) -> None:
            """Open a channel: at the start, and again after UNAVAILABLE."""
            super()._initialize_channel_and_stub()  # type: ignore[misc]
            export = self._client.Export

            def record(**request: Any) -> None:
                failures.outcome = _partial_success(export(**request).SerializeToString())

            self._client.Export = record

    class SpanExporter(WithResponses, OTLPSpanExporter):
        pass

    class LogExporter(WithResponses, OTLPLogExporter):
        pass

    return SpanExporter(**common), LogExporter(**common)
