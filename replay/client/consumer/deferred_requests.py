"""Requests of a consumer that wait for its connection (ConsumerImpl.seekAsyncInternal, internalGetLastMessageIdAsync).

What is asked for while there is no subscription is tried again after 100 ms, then after twice as long each time, for
``operationTimeoutMs`` in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.errors import Refusal

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import Link
    from pcli.replay.client.consumer.consumer import Consumer

__all__ = ["once_connected"]


def once_connected(
    consumer: Consumer, what: str, action: Callable[[Link], None], refuse: Callable[[Refusal], None]
) -> None:
    """Do ``action`` with the link, or ``refuse`` when there is none for too long; ``what`` is for people."""
    engine = consumer.engine
    left = engine.settings.operationTimeoutMs
    backoff = Backoff(100, 2 * left, 0, engine.random)

    def attempt() -> None:
        nonlocal left
        link = consumer.connected
        if link is not None:
            action(link)
            return
        delay = min(backoff.next(engine.now), left)
        if not consumer.lives:
            refuse(Refusal("Closed", f"{what}: the consumer is closed"))
        elif delay <= 0:
            refuse(Refusal("TimeOut", f"{what}: there was no connection"))
        else:
            left -= delay
            engine.call_at(engine.now + delay, attempt)

    attempt()
