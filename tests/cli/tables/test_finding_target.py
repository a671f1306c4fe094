"""--on-finding: each finding is sent to a command or to a URL."""

import json
import shlex
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pcli.cli.tables.finding_target import FindingTarget
from pcli.codec.errors import LocalError

FINDING = {
    "rule": "never-acked",
    "severity": "warning",
    "what": "4 messages",
    "since_ns": 5,
    "frames": [1, 2],
    "run": 3,
}


def python(script):
    return shlex.join([sys.executable, "-c", script])


def target(where, rules=("any",), severities=("error", "warning", "note")):
    return FindingTarget(where, rules, severities)


def test_a_command_receives_json(tmp_path):
    one = target(python(f"import sys; open({str(tmp_path / 'got')!r}, 'w').write(sys.stdin.read())"))
    one.check()
    one.send(FINDING)
    assert json.loads((tmp_path / "got").read_text()) == FINDING


@pytest.mark.parametrize(
    ("rules", "severities", "sent"),
    [
        ((), ("error",), False),
        ((), ("error", "warning"), True),
        (("never-acked",), (), True),
        (("rewound",), (), False),
    ],
)
def test_only_chosen_findings_are_sent(rules, severities, sent):
    one = target(python("import sys; sys.exit(7)"), rules, severities)
    if sent:
        with pytest.raises(LocalError, match="exit code 7"):
            one.send(FINDING)
    else:
        one.send(FINDING)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (" ", "--on-finding: the command is empty"),
        ("no-such-command -H 'token: SECRET'", "--on-finding no-such-command: there is no such command"),
        ("curl -H 'token: SECRET", "--on-finding: no closing quotation"),
    ],
)
def test_a_command_that_cannot_run_is_refused_without_its_arguments(words, message):
    with pytest.raises(LocalError) as caught:
        target(words).check()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "url",
    [
        "http://me:SECRET@hooks/", "HTTPS://me:SECRET@hooks/", "https://SECRET@hooks/", "http://me%3ASECRET%40hooks/",
        "http://me:SEC/RET@hooks/", "ftp://me:SECRET@hooks/", "http://host name/", "http://hooks/a b", "http://hooks/é",
        "http:///path", "http://hooks:x/", "http://hooks:65536/", "http://[::1/", "'http://me:SECRET@hooks/'",
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_used_is_refused_without_its_text(url):
    with pytest.raises(LocalError, match=r"^--on-finding: invalid URL: write ") as caught:
        target(url).check()
    assert "SEC" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://hooks", "HTTPS://hooks.example:8443/a@b?x=y", "http://[::1]:80/", "http://a?b"]
)
def test_a_url_with_a_host_is_accepted(url):
    target(url).check()


@pytest.fixture
def server():
    """A server that answers with its ``status``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            data = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.got.append((self.path, self.headers["Content-Type"], json.loads(data)))
            self.send_response(self.server.status)
            self.send_header("Location", "/login")
            self.end_headers()

        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.got, server.status = [], 204
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_url_receives_json(server):
    one = target(f"http://127.0.0.1:{server.server_port}/hook")
    one.check()
    one.send(FINDING)
    assert server.got == [("/hook", "application/json", FINDING)]


@pytest.mark.parametrize("status", [302, 307, 404, 503])
def test_a_finding_that_the_server_does_not_accept(server, status):
    """A redirect is not followed: urllib would send a GET without the finding."""
    server.status = status
    with pytest.raises(LocalError, match=rf"^--on-finding 127\.0\.0\.1:{server.server_port}: HTTP {status}$"):
        target(f"HTTP://127.0.0.1:{server.server_port}/SECRET").send(FINDING)


def test_a_server_without_http():
    def answer():
        with listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(b"220 SECRET ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(LocalError) as caught:
            target(f"http://{where}/").send(FINDING)
        thread.join()
    assert str(caught.value) == f"--on-finding {where}: the server does not answer with HTTP"


def test_a_server_that_is_not_there(server):
    port = server.server_port
    server.server_close()
    with pytest.raises(LocalError, match=rf"^--on-finding 127\.0\.0\.1:{port}: .*Connection"):
        target(f"http://127.0.0.1:{port}/").send(FINDING)
