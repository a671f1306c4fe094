"""CONNECT, AUTH_RESPONSE, PING, PONG.

Rules of this file (ServerCnx.handleConnect, handleAuthResponse, refreshAuthenticationCredentials; 4.2.4)
1. A client whose authentication fails gets ERROR, and the connection closes.
2. Expired credentials are detected every ``authenticationRefreshCheckSeconds``. A client that supports AUTH_CHALLENGE
   gets one; if it does not respond until the next check, or does not support it, the connection closes.
3. AUTH_RESPONSE must authenticate the same role. It gets no response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.minibroker.error_responses import NOBODY
from pcli.minibroker.errors import Refused
from pcli.minibroker.security.authentication import AuthenticationError, Credentials

if TYPE_CHECKING:
    from pcli.codec.wire.frame import Frame
    from pcli.minibroker.connection import Connection, Handler
    from pcli.minibroker.security.authentication import AuthenticationService, Principal

_FAILED: Final = Refused(pb.AuthenticationError, "Failed to authenticate")
_REFRESH: Final = b"PulsarAuthRefresh"


def _connect(connection: Connection, command: pb.CommandConnect, frame: Frame) -> None:
    """Handle CONNECT. Without authentication, any method and any data are accepted."""
    broker = connection.broker
    if broker.authentication is not None:
        method = command.auth_method_name or pb.AuthMethod.Name(command.auth_method).removeprefix("AuthMethod").lower()
        principal = _authenticate(connection, broker.authentication, method, command.auth_data)
        if broker.authorization is not None:
            try:
                broker.authorization.check_original_principal(
                    principal.role, command.original_principal, command.proxy_version
                )
            except Refused as refused:
                connection.answer_error(NOBODY, refused)
                raise RemoteError(refused.text) from None
        connection.principal, connection.original_principal = principal, command.original_principal
        _schedule_refresh(connection, challenged=False)
    connection.send_command(connection.session.connect(command))


def _authenticate(connection: Connection, authentication: AuthenticationService, method: str, data: bytes) -> Principal:
    """Return the principal of a client. If authentication fails, send ERROR and raise RemoteError."""
    credentials = Credentials(data, connection.certificate_role)
    try:
        return authentication.authenticate(method, credentials, connection.broker.now)
    except AuthenticationError as fault:
        connection.answer_error(NOBODY, _FAILED)
        raise RemoteError(f"authentication failed: {fault}") from None


def _schedule_refresh(connection: Connection, *, challenged: bool) -> None:
    """Check the credentials after the next interval. ``challenged`` is true if a challenge was sent at this time."""
    principal = connection.principal
    if principal is not None and principal.expires is not None:
        interval = max(1, connection.broker.settings.authenticationRefreshCheckSeconds) * 1000
        connection.credentials_timer = connection.broker.call_later(
            interval, lambda: _refresh(connection, principal if challenged else None)
        )


def _refresh(connection: Connection, challenged: Principal | None) -> None:
    """Challenge a client whose credentials have expired. ``challenged`` is the principal of an earlier challenge."""
    principal = connection.principal
    if connection.closing or principal is None or principal.expires is None:
        return
    expired = principal.expires <= connection.broker.now
    if expired and (challenged is principal or "supports_auth_refresh" not in connection.session.features):
        connection.close("the credentials have expired")
        return
    if expired:
        challenge = pb.AuthData(auth_method_name=principal.method, auth_data=_REFRESH)
        connection.send_command(
            pb.CommandAuthChallenge(challenge=challenge, protocol_version=connection.session.version)
        )
    _schedule_refresh(connection, challenged=expired)


def _auth_response(connection: Connection, command: pb.CommandAuthResponse, frame: Frame) -> None:
    """Handle AUTH_RESPONSE. Without authentication there is no challenge: send ERROR, and close the connection."""
    if not (
        command.HasField("response") and command.response.auth_method_name and command.response.HasField("auth_data")
    ):
        raise RemoteError("AUTH_RESPONSE without authentication data")
    authentication, before = connection.broker.authentication, connection.principal
    if authentication is None or before is None:
        connection.answer_error(NOBODY, _FAILED)
        raise RemoteError("AUTH_RESPONSE without a challenge")
    response = command.response
    principal = _authenticate(connection, authentication, response.auth_method_name, response.auth_data)
    if principal.role != before.role:
        raise RemoteError(f"AUTH_RESPONSE with the role {principal.role} instead of {before.role}")
    connection.principal = principal
    if before.expires is None:
        _schedule_refresh(connection, challenged=False)


def _ping(connection: Connection, command: pb.CommandPing, frame: Frame) -> None:
    connection.send_command(pb.CommandPong())


def _pong(connection: Connection, command: pb.CommandPong, frame: Frame) -> None:
    """Ignore PONG: the connection has already recorded that the client is alive."""


HANDLERS: Final[dict[str, Handler]] = {
    "CONNECT": _connect,
    "AUTH_RESPONSE": _auth_response,
    "PING": _ping,
    "PONG": _pong,
}
