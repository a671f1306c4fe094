"""`pcli broker --exit-with-parent`: the broker ends with the process that started it."""

import json
import signal
import socket
import subprocess
import sys

import pytest

BROKER = [sys.executable, "-m", "pcli.cli", "broker", "--port", "0", "--http-port", "0", "--ready-json"]
WATCHING = [*BROKER, "--exit-with-parent"]

PARENT = """
import subprocess, sys, threading
stdin = {"pipe": subprocess.PIPE, "null": subprocess.DEVNULL}[sys.argv[1]]
broker = []
# The thread that starts the broker ends before its process, as a thread of Java or Go does.
thread = threading.Thread(target=lambda: broker.append(subprocess.Popen(sys.argv[2:], stdin=stdin)))
thread.start()
thread.join()
broker[0].wait()
"""

STOPPED = """
from pcli.cli.common.signals import StopEvent
from pcli.cli.servers.parent_watch import stop_with_parent
stop = StopEvent()
stop_with_parent(stop)
stop.set()
print(all(stop.wait(0) for _ in range(10_000)))
"""


def connect(line):
    """Connect to the broker that printed this line."""
    return socket.create_connection(("127.0.0.1", json.loads(line)["port"]), 10)


@pytest.mark.parametrize(
    ("stdin", "command"),
    [
        ("null", WATCHING),
        ("pipe", WATCHING),
        ("pipe", ["sh", "-c", '"$@"; true', "sh", *WATCHING]),  # the shell waits, although its parent has ended
    ],
    ids=["parent", "parent with a pipe", "parent of a shell"],
)
def test_a_parent_that_is_killed_ends_the_broker(stdin, command):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, stdin, *command], stdout=subprocess.PIPE, text=True)
    with parent.stdout as out:
        line = out.readline()
        connect(line).close()
        parent.kill()
        parent.wait()
        assert out.read() == ""  # the broker has closed its end
    with pytest.raises(ConnectionRefusedError):
        connect(line)


def test_a_parent_that_closes_the_pipe_ends_the_broker():
    broker = subprocess.Popen(WATCHING, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert broker.stdout.readline()
    assert broker.communicate(b"", timeout=20) == (b"", b"")
    assert broker.returncode == 0


def test_the_end_of_a_socket_ends_the_broker():
    """Node opens a pair of sockets in place of a pipe."""
    ours, theirs = socket.socketpair()
    with theirs:
        broker = subprocess.Popen(WATCHING, stdin=theirs, stdout=subprocess.PIPE)
    with broker.stdout as out, ours:
        assert out.readline()
        ours.close()
        assert broker.wait(20) == 0


def test_without_the_option_the_end_of_stdin_has_no_effect():
    broker = subprocess.Popen(BROKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with broker.stdout as out:
        line = out.readline()
        broker.stdin.close()
        connect(line).close()
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(20) == 0


def test_without_stdin_the_sockets_of_the_stop_event_are_not_read():
    """The first of them then has the number of stdin."""
    words = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", STOPPED]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "True\n"
