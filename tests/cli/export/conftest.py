"""Backends of OTLP in the process of the test: HTTP with protobuf, and gRPC, with responses that the test selects."""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

_TRACES = "opentelemetry.proto.collector.trace.v1.TraceService"
_LOGS = "opentelemetry.proto.collector.logs.v1.LogsService"


@dataclass
class Receiver:
    """What a backend has received."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    logs: list[Any] = field(default_factory=list)
    scopes: list[Any] = field(default_factory=list)
    """The ScopeSpans of all requests."""
    resources: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answers: deque[Any] = field(default_factory=deque)
    """The responses to the next requests, each a status code, a number of rejected spans as text, ``close``, or
    an event to wait for; then success. Redirects refer to ``/new`` with a token."""
    always: Any = None
    """The response to every request that is not in ``answers``."""
    arrived: threading.Event = field(default_factory=threading.Event)
    """Set when spans have arrived."""

    def take(self, request: Any) -> None:
        for resource in getattr(request, "resource_spans", ()):
            self.resources.append(_attributes(resource.resource))
            for scope in resource.scope_spans:
                self.scopes.append(scope)
                self.spans += scope.spans
        for resource in getattr(request, "resource_logs", ()):
            self.logs += [record for scope in resource.scope_logs for record in scope.log_records]
        if self.spans:
            self.arrived.set()

    def answer(self) -> Any:
        return self.answers.popleft() if self.answers else self.always


def _attributes(one: Any) -> dict[str, Any]:
    """Return the attributes of a span, an event, a log record or a resource."""
    return {pair.key: _value(pair.value) for pair in one.attributes}


def _value(value: Any) -> Any:
    if value.WhichOneof("value") == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, value.WhichOneof("value"))


@contextmanager
def http_receiver(certificate: tuple[str, str] | None = None) -> Iterator[Receiver]:
    """Run a backend over HTTP, or over HTTPS with the files of a certificate and its key."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.headers.append(dict(self.headers))
            kind = {"/v1/traces": ExportTraceServiceRequest, "/v1/logs": ExportLogsServiceRequest}.get(self.path)
            answer = receiver.answer()
            body = b""
            if answer == "close":
                self.close_connection = True
                return
            if isinstance(answer, threading.Event):
                answer.wait(60)
                answer = 503
            if kind is None:
                answer = 404
            elif answer is None or isinstance(answer, str):
                receiver.take(kind.FromString(data))
                response = ExportTraceServiceResponse()
                if answer is not None:
                    response.partial_success.rejected_spans = int(answer)
                    response.partial_success.error_message = "too old"
                body, answer = response.SerializeToString(), 200
            self.send_response(answer)
            if 300 <= answer < 400:
                self.send_header("Location", f"{receiver.url}/new?token=secret")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that refuses the certificate
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def grpc_receiver() -> Iterator[Receiver]:
    """Run a backend over gRPC. Responses are names of status codes, or numbers of rejected items as text."""
    receiver = Receiver()

    def handler(request_type: Any, response_type: Any) -> Any:
        def export(request: Any, context: grpc.ServicerContext) -> Any:
            receiver.headers.append({one.key: one.value for one in context.invocation_metadata()})
            answer = receiver.answer()
            if answer is not None and not answer.isdecimal():
                context.abort(grpc.StatusCode[answer], "no room")
            receiver.take(request)
            # The field numbers of both responses are the same.
            partial = ExportTraceServiceResponse()
            if answer is not None:
                partial.partial_success.rejected_spans = int(answer)
                partial.partial_success.error_message = "too old"
            return response_type.FromString(partial.SerializeToString())

        return grpc.method_handlers_generic_handler(
            _TRACES if request_type is ExportTraceServiceRequest else _LOGS,
            {
                "Export": grpc.unary_unary_rpc_method_handler(
                    export, request_type.FromString, lambda one: one.SerializeToString()
                )
            },
        )

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (
            handler(ExportTraceServiceRequest, ExportTraceServiceResponse),
            handler(ExportLogsServiceRequest, ExportLogsServiceResponse),
        )
    )
    receiver.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A backend over HTTP."""
    with http_receiver() as one:
        yield one


@pytest.fixture
def https_receiver(tmp_path: Path) -> Iterator[Receiver]:
    """A backend over HTTPS, whose certificate is in the file ``ca.pem``."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a backend")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
    )
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    paths = tmp_path / "ca.pem", tmp_path / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with http_receiver((str(paths[0]), str(paths[1]))) as one:
        yield one


@pytest.fixture
def grpc_backend() -> Iterator[Receiver]:
    """A backend over gRPC."""
    with grpc_receiver() as one:
        yield one


@pytest.fixture
def attributes() -> Callable[[Any], dict[str, Any]]:
    """The attributes of a span, an event, a log record or a resource."""
    return _attributes
