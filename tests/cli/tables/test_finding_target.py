"""--on-finding: each finding is sent to a command or to a URL."""

import json
import shlex
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


@pytest.mark.parametrize("words", ["", "no-such-command --x", "'open"])
def test_a_command_that_cannot_run_is_refused(words):
    with pytest.raises(LocalError, match="--on-finding"):
        target(words).check()


@pytest.fixture
def server():
    """A server that answers with its ``status``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            data = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.got.append((self.path, self.headers["Content-Type"], json.loads(data)))
            self.send_response(self.server.status)
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
    server.status = 503
    with pytest.raises(LocalError, match=rf"^--on-finding 127\.0\.0\.1:{server.server_port}: HTTP 503$"):
        one.send(FINDING)


def test_a_server_that_is_not_there(server):
    port = server.server_port
    server.server_close()
    with pytest.raises(LocalError, match=rf"^--on-finding 127\.0\.0\.1:{port}: "):
        target(f"http://me:secret@127.0.0.1:{port}/").send(FINDING)
