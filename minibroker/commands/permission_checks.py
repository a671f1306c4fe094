"""The permissions that commands require (ServerCnx). Without authorization, every command is permitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused
from pcli.minibroker.security.authorization import required_roles

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.connection import Connection


def _roles(connection: Connection) -> tuple[str, ...]:
    return required_roles(connection.role, connection.original_principal)


def _refuse(text: str) -> Refused:
    return Refused(pb.AuthorizationError, text)


def require_lookup(connection: Connection, name: TopicName, operation: str) -> None:
    """Raise Refused if the client may not look up a topic. ``operation`` is its name in the error."""
    authorization = connection.broker.authorization
    if authorization is not None and not authorization.may_look_up(_roles(connection), name):
        raise _refuse(f"Client is not authorized to {operation}")


def require_produce(connection: Connection, name: TopicName, initial_subscription: str) -> None:
    """Raise Refused if the client may not publish to a topic, or not create the initial subscription."""
    authorization, roles = connection.broker.authorization, _roles(connection)
    if authorization is None:
        return
    permitted = authorization.may_produce(roles, name)
    if not permitted or (initial_subscription and not authorization.may_consume(roles, name, initial_subscription)):
        raise _refuse("Client is not authorized to Produce")


def require_consume(connection: Connection, name: TopicName, subscription: str, operation: str = "subscribe") -> None:
    """Raise Refused if the client may not use a subscription. ``operation`` is its name in the error."""
    authorization = connection.broker.authorization
    if authorization is not None and not authorization.may_consume(_roles(connection), name, subscription):
        raise _refuse(f"Client is not authorized to {operation}")


def require_list(connection: Connection, namespace: str, text: str) -> None:
    """Raise Refused with ``text`` if the client may not list the topics of a namespace."""
    authorization = connection.broker.authorization
    if authorization is not None and not authorization.may_list_topics(_roles(connection), namespace):
        raise _refuse(text)


def is_superuser(connection: Connection) -> bool:
    """Return whether a client has all permissions. Without authorization, every client has.

    If a proxy forwards the principal of its client, both roles must be superusers (ServerCnx.isSuperUser).
    """
    authorization = connection.broker.authorization
    return authorization is None or all(authorization.is_superuser(role) for role in _roles(connection))


def principal_of(connection: Connection) -> str:
    """Return the original principal if a proxy gives one, or else the client's role (ServerCnx.getPrincipal)."""
    return connection.original_principal or connection.role
