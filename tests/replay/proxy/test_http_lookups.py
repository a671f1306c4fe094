"""HTTP lookups through the proxy."""

import contextlib
import json
import socket
import threading
import urllib.error
import urllib.request

import pytest

from pcli.replay.proxy.http_lookups import Lookups

WAIT = 10
LOOKUP = "/lookup/v2/topic/persistent/public/default/orders"


def get(url):
    with urllib.request.urlopen(url, timeout=WAIT) as response:
        return response.read()


def test_an_http_lookup_contains_the_proxy_address(start, broker, tmp_path):
    path = tmp_path / "talk.pcapng"
    proxy = start(http_listen=0, http_to=broker.http_url, capture=path)
    assert json.loads(get(proxy.http_url + LOOKUP))["brokerUrl"] == proxy.service_url
    assert get(proxy.http_url + "/admin/v2/clusters") == get(broker.http_url + "/admin/v2/clusters")
    proxy.stop()
    assert b"GET " + LOOKUP.encode() in path.read_bytes()


def test_requests_pass_with_headers_and_body(start, broker):
    proxy = start(http_listen=0, http_to=broker.http_url)
    request = urllib.request.Request(
        f"{proxy.http_url}/admin/v2/persistent/public/default/jobs/partitions",
        method="PUT",
        data=b"3",
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=WAIT) as response:
        assert response.status == 204
    assert len(broker.topics) == 3
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(proxy.http_url + "/admin/v2/nothing")


def test_an_unreachable_web_service_is_a_502_and_a_note(start):
    gone = socket.create_server(("127.0.0.1", 0))
    port = gone.getsockname()[1]
    gone.close()
    proxy = start(http_listen=0, http_to=f"http://127.0.0.1:{port}")
    with pytest.raises(urllib.error.HTTPError, match="502"):
        get(proxy.http_url + LOOKUP)
    assert proxy.notes == [f"no web service at http://127.0.0.1:{port}: connection refused"]


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"GET /\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"])
def test_an_invalid_request_closes_the_connection(start, broker, peers, request_):
    client = peers(start(http_listen=0, http_to=broker.http_url).http_url)
    client.send(request_)
    assert client.end() == b""


class Web:
    """A web service with a list of responses, each for one connection."""

    def __init__(self, *answers):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.heard = []
        self.thread = threading.Thread(target=self.serve, args=(answers,))
        self.thread.start()

    def serve(self, answers):
        for response in answers:
            line, _ = self.listener.accept()
            with line:
                self.heard.append(line.recv(1 << 16))
                if response:
                    line.sendall(response)
                else:
                    line.recv(1)

    def stop(self):
        self.thread.join(WAIT)
        self.listener.close()


def test_a_redirected_lookup_is_followed(start):
    """The proxy follows the redirect, because the client would bypass the proxy."""
    body = b'{"brokerUrl": "pulsar://b2:6650"}'
    second = Web(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    there = f"{second.url}{LOOKUP}?authoritative=true".encode()
    first = Web(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % there)
    proxy = start(http_listen=0, http_to=first.url)
    assert json.loads(get(proxy.http_url + LOOKUP))["brokerUrl"].startswith("pulsar://127.0.0.1:")
    assert second.heard[0].startswith(f"GET {LOOKUP}?authoritative=true HTTP/1.1\r\n".encode())
    first.stop()
    second.stop()


def test_a_silent_web_service_times_out(start, peers):
    silent = Web(b"")
    proxy = start(http_listen=0, http_to=silent.url)
    client = peers(proxy.http_url)
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    while not silent.heard:
        silent.thread.join(0.01)
    proxy.stop()
    silent.stop()


def test_a_connection_attempt_to_the_web_service_times_out(start, peers, monkeypatch):
    """The listen queue is full: connecting takes forever."""
    current, request = threading.Event(), Lookups._request_from_service

    async def seen(*words):
        current.set()
        return await request(*words)

    monkeypatch.setattr(Lookups, "_request_from_service", seen)
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            line = stack.enter_context(socket.socket())
            line.setblocking(False)
            line.connect_ex(full.getsockname())
        proxy = start(http_listen=0, http_to=f"http://127.0.0.1:{full.getsockname()[1]}")
        client = peers(proxy.http_url)
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert current.wait(WAIT)
        stopping = threading.Thread(target=proxy.stop)
        stopping.start()
        stopping.join(WAIT)
        assert not stopping.is_alive()


CHUNKED = b"PUT /admin/v2/persistent/public/default/jobs/partitions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_chunked_body_passes(start, broker, peers, tmp_path):
    path = tmp_path / "talk.pcapng"
    proxy = start(http_listen=0, http_to=broker.http_url, capture=path)
    client = peers(proxy.http_url)
    body = b"1;name=value\r\n1\r\n1\r\n2\r\n0\r\nTrailer: value\r\n\r\n"
    client.send(CHUNKED + body)
    assert client.end().startswith(b"HTTP/1.1 204 ")
    assert len(broker.topics) == 12
    proxy.stop()
    assert CHUNKED + body in path.read_bytes()


@pytest.mark.parametrize("body", [b"x\r\n", b"-1\r\n", b"FFFFFFFF\r\n"])
def test_invalid_chunks_close_the_connection(start, broker, peers, body):
    client = peers(start(http_listen=0, http_to=broker.http_url).http_url)
    client.send(CHUNKED + body)
    assert client.end() == b""
    assert list(broker.topics) == []


def test_a_response_without_a_body_has_no_length(start, peers):
    web = Web(b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n")
    client = peers(start(http_listen=0, http_to=web.url).http_url)
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert client.end() == b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nConnection: close\r\n\r\n"
    web.stop()
