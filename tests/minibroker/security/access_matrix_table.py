"""Prints the access matrix: `python -m tests.minibroker.security.access_matrix_table [PORT HTTP_PORT]`.

With PORT and HTTP_PORT of a real 4.2.4 on 127.0.0.1 that runs with `SETTINGS`, the outcomes of the commands are written
to access-matrix.jsonl first. The broker also needs brokerClientAuthenticationPlugin and a superuser's token for it.
"""

from __future__ import annotations

import json
import socket
import sys
import urllib.request
from typing import Any

from pcli.codec.session import ClientSession
from pcli.codec.wire.commands import COMMANDS
from tests.minibroker.security import access_matrix as matrix

WAIT = 0.25
"""Time in seconds after which a command is considered to have no further response."""


class RealClient:
    """A client of a real broker."""

    def __init__(self, port: int, client: dict[str, str] | None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.session = ClientSession()
        self.closed = False
        if client is not None:
            self.session.connect(**matrix.connect_fields(client))
            self.receive()

    def send(self, body: Any) -> list[Any]:
        self.session.post(body, matrix.entry_of(body))
        return self.receive()

    def leave(self) -> None:
        self.socket.close()

    def receive(self) -> list[Any]:
        events: list[Any] = []
        self.socket.settimeout(WAIT)
        try:
            self.socket.sendall(self.session.output())
            while data := self.socket.recv(1 << 16):
                events += self.session.receive(data)
            self.closed = True
        except TimeoutError:
            pass
        except ConnectionError:
            self.closed = True
        return events


def record(port: int, http_port: int) -> None:
    """Write the outcomes of all commands on a real broker."""
    for method, path, body in matrix.GRANTS:
        headers = {"Authorization": f"Bearer {matrix.token('admin')}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{http_port}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
        urllib.request.urlopen(request).close()

    def open_client(client: dict[str, str] | None) -> RealClient:
        return RealClient(port, client)

    matrix.prepare(open_client(matrix.CLIENTS["admin"]).send)

    def new_transaction() -> dict[str, int]:
        return matrix.new_transaction(open_client(matrix.CLIENTS["admin"]).send)

    with matrix.RECORDED.open("w") as file:
        for row in COMMANDS.values():
            outcomes = matrix.attempt(row.name, open_client, new_transaction)
            file.write(json.dumps({"command": row.name, **outcomes}, separators=(",", ":")) + "\n")


def print_table() -> None:
    """Print the recorded outcomes of commands, and the requests that each role is refused."""
    names = list(matrix.CLIENTS)
    print(" | ".join(("command", *names)))
    for name, outcomes in matrix.recorded().items():
        print(" | ".join((name, *(outcomes[client] for client in names))))
    print()
    print(" | ".join(("endpoint", *matrix.REST_ROLES)))
    for (method, path), refused in matrix.recorded_requests().items():
        print(" | ".join((f"{method} {path}", *(refused.get(role, "-")[:3] for role in matrix.REST_ROLES))))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record(*map(int, sys.argv[1:]))
    print_table()
