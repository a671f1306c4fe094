"""One HTTP GET."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest

from pcli.minibroker import MiniBroker
from pcli.replay.client.connection.http_fetch import fetch


def test_responses_with_any_status_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # this proxy must not be used
    with MiniBroker() as broker:
        status, body = fetch(f"{broker.http_url}/admin/v2/clusters", {}, 10, None)
        assert (status, json.loads(body)) == (200, ["standalone"])
        status, body = fetch(f"{broker.http_url}/admin/v2/namespaces/no/where/topics", {}, 10, None)
        assert (status, b"reason" in body) == (404, True)


def test_a_missing_response_has_status_zero() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    assert fetch(url, {}, 10, None) == (0, b"connection refused")


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x01", b"HTTP/1.1 oh\r\n\r\n"])
def test_an_invalid_http_response_has_status_zero(data: bytes) -> None:
    def serve(server: Any) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        status, body = fetch(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, 10, None)
        thread.join()
    assert (status, body) in ((0, b"not an HTTP response"), (0, b"connection reset by peer"))
