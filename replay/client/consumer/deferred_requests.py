"""Requests of a consumer that wait for its connection (ConsumerImpl.seekAsyncInternal, internalGetLastMessageIdAsync).

While there is no subscription, a request is retried after 100 ms. The delay doubles with each retry, up to
``operationTimeoutMs`` in total.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.errors import ClientFailure

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.consumer import Consumer

__all__ = ["once_connected"]


def once_connected(
    consumer: Consumer, what: str, action: Callable[[ClientConnection], None], refuse: Callable[[ClientFailure], None]
) -> None:
    """Call ``action`` with the connection, or ``refuse`` after the timeout. ``what`` names the request in errors."""
    engine = consumer.engine
    left = engine.settings.operationTimeoutMs
    backoff = Backoff(100, 2 * left, 0, engine.random)

    def attempt() -> None:
        nonlocal left
        connection = consumer.connected
        if connection is not None:
            action(connection)
            return
        delay = min(backoff.next(engine.now), left)
        if not consumer.may_connect:
            refuse(ClientFailure("Closed", f"{what}: the consumer is closed"))
        elif delay <= 0:
            refuse(ClientFailure("TimeOut", f"{what}: there was no connection"))
        else:
            left -= delay
            engine.call_at(engine.now + delay, attempt)

    attempt()
