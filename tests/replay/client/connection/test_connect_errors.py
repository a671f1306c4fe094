"""Descriptions of failed connection attempts."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from pcli.replay.client.connection.connect_errors import reason_for

_SEVERAL = "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 113] Connect call failed"


@pytest.mark.parametrize(
    ("fault", "tls", "text"),
    [
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"),
            False,
            "connection refused",
        ),
        (OSError(_SEVERAL), False, "connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), True, "no route to host"),
        (socket.gaierror(-2, "Name or service not known"), False, "there is no host with this name"),
        (ConnectionResetError(errno.ECONNRESET, "x"), False, "connection reset by peer"),
        (
            ConnectionResetError(errno.ECONNRESET, "x"),
            True,
            "the port does not use TLS: write pulsar://",
        ),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong"), True, "the port does not use TLS: write"),
        (OSError("something that has no number"), False, "something that has no number"),
    ],
)
def test_reasons(fault: Exception, tls: bool, text: str) -> None:
    assert reason_for(fault, tls=tls).startswith(text)
