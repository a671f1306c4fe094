"""What the broker does with each command: one module a group, one table of all.

A module exports ``HANDLERS``: command name to function(connection, body, frame). It raises Refused for a request that
is not granted, and the connection makes the answer; RemoteError where the connection must end. ``HOT`` holds what the
connection calls with plain numbers instead, for the two commands beside SEND of which traffic consists:
ACK(connection, consumer id, kind, ids, request id) and FLOW(connection, consumer id, permits), as `codec.wire.hot`
reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.wire.commands import BY_NAME
from pcli.minibroker.commands import (
    acknowledge,
    connect,
    consumer,
    flow,
    lookup,
    producer,
    schema,
    send,
    subscribe,
    topic_lists,
    transactions,
)

if TYPE_CHECKING:
    from pcli.minibroker.connection import Handler

__all__ = ["HANDLERS", "HOT"]

_MODULES: Final[tuple[Any, ...]] = (
    acknowledge,
    connect,
    consumer,
    flow,
    lookup,
    producer,
    schema,
    send,
    subscribe,
    topic_lists,
    transactions,
)

HANDLERS: Final[dict[int, Handler]] = {
    BY_NAME[name].number: handler for module in _MODULES for name, handler in module.HANDLERS.items()
}
"""By command type."""

HOT: Final[dict[int, Callable[..., None]]] = {
    BY_NAME[name].number: handler for module in (acknowledge, flow) for name, handler in module.HOT.items()
}
"""By command type."""
