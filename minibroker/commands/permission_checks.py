"""The permissions that commands require (ServerCnx). Without authorization, every command is permitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from pcli.codec.wire.topic_name import TopicName
    from pcli.minibroker.connection import Connection

__all__ = ["require_consume", "require_list", "require_lookup", "require_produce"]


def _roles(connection: Connection) -> tuple[str, ...]:
    """Return the roles that need the permission: the client's, and the proxy's if a proxy forwards the client."""
    role = connection.principal.role if connection.principal is not None else ""
    return (connection.original_principal, role) if connection.original_principal else (role,)


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


def require_consume(connection: Connection, name: TopicName, subscription: str) -> None:
    """Raise Refused if the client may not use a subscription."""
    authorization = connection.broker.authorization
    if authorization is not None and not authorization.may_consume(_roles(connection), name, subscription):
        raise _refuse("Client is not authorized to subscribe")


def require_list(connection: Connection, namespace: str, text: str) -> None:
    """Raise Refused with ``text`` if the client may not list the topics of a namespace."""
    authorization = connection.broker.authorization
    if authorization is not None and not authorization.may_list_topics(_roles(connection), namespace):
        raise _refuse(text)
