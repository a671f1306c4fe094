"""CONNECT, AUTH_RESPONSE, PING, PONG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.minibroker.error_responses import NOBODY
from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler

__all__ = ["HANDLERS"]


def _connect(connection: Connection, command: pb.CommandConnect, frame: Frame) -> None:
    """Handle CONNECT. Authentication is not supported: any method and any data are accepted."""
    connection.send_command(connection.session.connect(command))


def _auth_response(connection: Connection, command: pb.CommandAuthResponse, frame: Frame) -> None:
    """Reject AUTH_RESPONSE, because no challenge was sent. If the command is complete, first send ERROR."""
    if not (
        command.HasField("response") and command.response.auth_method_name and command.response.HasField("auth_data")
    ):
        raise RemoteError("AUTH_RESPONSE without authentication data")
    connection.answer_error(NOBODY, Refused(pb.AuthenticationError, "Failed to authenticate"))
    raise RemoteError("AUTH_RESPONSE without a challenge")


def _ping(connection: Connection, command: pb.CommandPing, frame: Frame) -> None:
    connection.pong()


def _pong(connection: Connection, command: pb.CommandPong, frame: Frame) -> None:
    """Ignore PONG: the connection has already recorded that the client is alive."""


HANDLERS: Final[dict[str, Handler]] = {
    "CONNECT": _connect,
    "AUTH_RESPONSE": _auth_response,
    "PING": _ping,
    "PONG": _pong,
}
