"""Start, keep-alive and end of a connection: CONNECT, authentication, PING, ERROR, TCP.

Rules of this file
1. Any frame from a peer, not only PONG, answers a PING (PulsarHandler.java). A PING is open until the other side sends
   a frame.
2. The cause of a connection's end is an earlier event: a refused login or an unanswered PING. If there was none, only
   the side that ended the connection and the kind of end (FIN or RST) are recorded. Frames that the other side sends
   after the first FIN, for example a suspended process that continues, do not change the cause.
3. AUTH_CHALLENGE after the handshake requests new credentials. In this case AUTH_RESPONSE has no response.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.capture.frames import StreamEnd
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.connections.connection_state import NO_LIMIT, ConnectionState
from pcli.codec.observe.tracking.connections.frame_checks import deprecated
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.constants import FRAME_OVERHEAD
from pcli.codec.wire.texts import as_text

PATIENCE_NS: Final = 2_000_000_000
"""Minimum age in ns of an open PING that explains the end of a connection: shorter than any reasonable ping
interval."""

_LOGIN: Final = frozenset(BY_NAME[name].number for name in ("CONNECT", "AUTH_RESPONSE"))


def connect(connection: ConnectionState, facts: Facts) -> None:
    """Process CONNECT."""
    record, command = connection.record, facts.frame.command.connect
    connection.connected, connection.login_refused = False, False
    record.connect_frame = facts.frame.number
    record.client_version = as_text(command.client_version)
    record.protocol_version = command.protocol_version if command.HasField("protocol_version") else _absent(facts)
    record.proxy_to_broker_url = as_text(command.proxy_to_broker_url)
    if command.HasField("auth_method") and not command.auth_method_name:
        deprecated(connection, facts, "CONNECT.auth_method")


def connected(connection: ConnectionState, facts: Facts) -> None:
    """Process CONNECTED."""
    record, command = connection.record, facts.frame.command.connected
    connection.connected = True
    record.connected_ns = facts.frame.time_ns
    record.server_version = as_text(command.server_version)
    record.server_protocol_version = (
        command.protocol_version if command.HasField("protocol_version") else _absent(facts)
    )
    record.max_message_size = command.max_message_size
    connection.limit = record.max_message_size + FRAME_OVERHEAD if record.max_message_size > 0 else NO_LIMIT


def _absent(facts: Facts) -> int:
    """Return the value of an absent protocol version: 0, or -1 if the frame is truncated."""
    return -1 if facts.frame.missing else 0


def auth_challenge(connection: ConnectionState, facts: Facts) -> None:
    """Process AUTH_CHALLENGE."""
    if connection.connected:
        record, frame = connection.record, facts.frame
        record.challenges.add(frame.time_ns, frame.number)
        record.challenge_open_ns = frame.time_ns


def auth_response(connection: ConnectionState, facts: Facts) -> None:
    """Process AUTH_RESPONSE."""
    record = connection.record
    if record.challenge_open_ns >= 0:
        record.challenge_open_ns = -1
        record.refreshed_ns = facts.frame.time_ns


def error(connection: ConnectionState, facts: Facts) -> None:
    """Process ERROR."""
    request = facts.request
    if request is not None and request.type in _LOGIN:
        connection.login_refused = facts.error[0] in ("AuthenticationError", "AuthorizationError")


def ping(connection: ConnectionState, facts: Facts) -> None:
    """Process PING; ignore it if an earlier PING of the same side is open."""
    frame, opened = facts.frame, connection.record.ping_open
    side = frame.from_client
    if side not in opened or connection.last_frame_ns[not side] > opened[side][1]:
        opened[side] = (frame.number, frame.time_ns)


def end_open_ping(connection: ConnectionState, facts: Facts) -> None:
    """Close the other side's open PING, because this side has sent a frame."""
    side = not facts.frame.from_client
    opened = connection.record.ping_open.pop(side, None)
    if opened is not None:
        connection.answered_pings[side] = opened


def end_cause(connection: ConnectionState, end: StreamEnd) -> str:
    """Return how the connection ended, as a key of ENDS."""
    if connection.login_refused:
        return "auth"
    side, opened = end.from_client, connection.record.ping_open
    ping = opened.get(side) or connection.answered_pings.get(side)
    if ping is not None and ping[1] <= end.time_ns - PATIENCE_NS and _is_silent(connection, not side, ping[1], end):
        opened[side] = ping
        return "keep_alive"
    return f"{'reset' if end.reset else 'fin'}_{'client' if side else 'broker'}"


def _is_silent(connection: ConnectionState, side: bool, since_ns: int, end: StreamEnd) -> bool:
    """Return whether a side sent no frame from ``since_ns`` to the first FIN or RST of the connection."""
    began_ns, ended_ns = connection.silences[side]
    return connection.last_frame_ns[side] <= since_ns or began_ns <= since_ns <= end.time_ns < ended_ns
