"""The broker's response to each command: one module per group of commands, and the table of all commands.

A module exports ``HANDLERS``, which maps command names to functions (connection, body, frame). A function raises
Refused to reject a request; the connection then sends the error. It raises RemoteError to close the connection. The
functions in ``HOT_HANDLERS`` have plain numbers as arguments, not a body. They handle the two most frequent commands
besides SEND: ACK(connection, consumer id, ack type, ids, request id) and FLOW(connection, consumer id, permits), as
decoded by `codec.wire.hot`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.codec.wire.commands import BY_NAME
from pcli.minibroker.commands import (
    acknowledge,
    connect,
    consumer,
    lookup,
    producer,
    scalable_topics,
    schema,
    subscribe,
    topic_lists,
    transactions,
)

if TYPE_CHECKING:
    from pcli.minibroker.connection import Handler

__all__ = ["HANDLERS", "HOT_HANDLERS", "SCALABLE_HANDLERS"]

_MODULES: Final[tuple[Any, ...]] = (
    acknowledge,
    connect,
    consumer,
    lookup,
    producer,
    schema,
    subscribe,
    topic_lists,
    transactions,
)

HANDLERS: Final[dict[int, Handler]] = {
    BY_NAME[name].number: handler for module in _MODULES for name, handler in module.HANDLERS.items()
}
"""Handlers by command type, without the commands of scalable topics."""

SCALABLE_HANDLERS: Final[dict[int, Handler]] = {
    BY_NAME[name].number: handler
    for handlers in (scalable_topics.HANDLERS, transactions.SCALABLE_HANDLERS)
    for name, handler in handlers.items()
}
"""Handlers of the commands of scalable topics. If these are disabled, the commands are unknown."""

HOT_HANDLERS: Final = {BY_NAME[name].number: handler for name, handler in acknowledge.HOT_HANDLERS.items()}
"""Handlers that accept plain numbers, by command type."""
