"""AdminApi: responses of a hostile web service are errors of one line."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


@pytest.fixture
def web_service():
    """Return a function that starts a web service with one response, and returns its URL."""
    servers = []

    def start(status, body):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"[" * 100_000, " returned a response that is not JSON"),
        (500, b"[" * 100_000, ": status 500"),
        (500, b'{"reason":"full"}', ": status 500: full"),
        (500, b'{"reason":"\\u001b[2J\\n\\u202efull"}', ": status 500: \\x1b[2J \\u202efull"),
        (200, b" " * (64 << 20) + b"[]", ": the response has more than 64 MB"),
        (500, b" " * (65 << 20), ": the response has more than 64 MB"),
    ],
)
def test_an_unusable_response_is_reported_in_one_line(pcli, web_service, status, body, reason):
    url = web_service(status, body)
    result = pcli("top", "--broker", url, "--once")
    assert (result.code, result.out, result.err) == (2, "", f"pcli: {url}{reason}\n")
