"""Requests of one connection that wait for their responses, and the limit on rejected lookups.

Rules of this file (ClientCnx, 4.2.4)
1. Each request has one result: the broker's response, or a ClientFailure with the broker's error, ``TimeOut`` after
   ``operationTimeoutMs``, or the reason why the connection ended. A response after the timeout is dropped.
2. A PRODUCER_SUCCESS with ``producer_ready`` false cancels the timeout. The next PRODUCER_SUCCESS is the response.
3. A lookup that fails with ServiceNotReady ends the connection (checkServerError). The connection also ends if more
   than 50 lookups within a minute fail with TooManyRequests or time out (incrementRejectsAndMaybeClose).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.connection.errors import ClientFailure, failure_in_response

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

Answer = Callable[[Event | ClientFailure], None]

_LOOKUPS: Final = (pb.CommandLookupTopic, pb.CommandPartitionedTopicMetadata)

_MOST_REJECTED: Final = 50
"""The default of the Java setting ``maxNumberOfRejectedRequestPerConnection``."""

_MINUTE: Final = 60_000


class _Request:
    """A request that waits for its response."""

    __slots__ = ("body", "done", "timer")

    def __init__(self, body: Any, done: Answer, timer: Timer) -> None:
        self.body = body
        self.done = done
        self.timer = timer


class PendingRequests:
    """The pending requests of a connection. ``leave`` is called with the reason if the connection must end."""

    def __init__(self, engine: ClientContext, broker: str, leave: Callable[[ClientFailure], None]) -> None:
        self._engine = engine
        self._broker = broker
        self._leave = leave
        self._open: dict[int, _Request] = {}
        self._rejected = 0

    def add(self, body: Any, done: Answer) -> None:
        """Add a request that contains a request id and was sent."""
        engine, number = self._engine, body.request_id
        timer = engine.call_at(engine.now + engine.settings.operationTimeoutMs, lambda: self._time_out(number))
        self._open[number] = _Request(body, done, timer)

    def response(self, event: Event) -> None:
        """Process a response. A response to an unknown request is dropped."""
        number = getattr(event.request, "request_id", -1)
        request = self._open.get(number)
        if request is None:
            return
        request.timer.cancel()
        if event.name == "PRODUCER_SUCCESS" and not event.body.producer_ready:
            return
        del self._open[number]
        failure = failure_in_response(event.body)
        request.done(event if failure is None else failure)
        if failure is not None and isinstance(request.body, _LOOKUPS):
            self._refused(failure)

    def _refused(self, failure: ClientFailure) -> None:
        if failure.error == "ServiceNotReady":
            self._leave(ClientFailure("Disconnected", f"{self._broker} is not ready: {failure.message}"))
        elif failure.error == "TooManyRequests":
            self._reject()

    def _time_out(self, number: int) -> None:
        request = self._open.pop(number)
        name = request.body.DESCRIPTOR.name.removeprefix("Command")
        timeout = self._engine.settings.operationTimeoutMs
        request.done(ClientFailure("TimeOut", f"no response to {name} from {self._broker} within {timeout} ms"))
        if isinstance(request.body, _LOOKUPS):
            self._reject()

    def _reject(self) -> None:
        if not self._rejected:
            self._engine.call_at(self._engine.now + _MINUTE, self._forget_rejected)
        self._rejected += 1
        if self._rejected > _MOST_REJECTED:
            self._leave(ClientFailure("Disconnected", f"{self._broker} refused too many lookups"))

    def _forget_rejected(self) -> None:
        self._rejected = 0

    def fail(self, reason: ClientFailure) -> None:
        """Fail all pending requests with the reason, in order."""
        waiting, self._open = self._open, {}
        for request in waiting.values():
            request.timer.cancel()
            request.done(reason)
