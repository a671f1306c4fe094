"""What waits for its answer on one connection, and lookups that go wrong too often.

Rules of this file (ClientCnx, 4.2.4)
1. A request has one answer, or a Refusal: the broker's, ``TimeOut`` after ``operationTimeoutMs``, or why the connection
   ended. An answer that comes after its time-out is dropped.
2. A PRODUCER_SUCCESS that is not ready ends the time-out, and the next one answers.
3. A lookup that is refused with ServiceNotReady ends the connection (checkServerError). So does, within a minute, one
   more than 50 that are refused with TooManyRequests or time out (incrementRejectsAndMaybeClose).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.connection.errors import Refusal, refusal_of

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

__all__ = ["Answer", "Requests"]

Answer = Callable[[Event | Refusal], None]

_LOOKUPS: Final = (pb.CommandLookupTopic, pb.CommandPartitionedTopicMetadata)

_MOST_REJECTED: Final = 50
"""``maxNumberOfRejectedRequestPerConnection``."""

_MINUTE: Final = 60_000


class _Request:
    """One of them."""

    __slots__ = ("body", "done", "timer")

    def __init__(self, body: Any, done: Answer, timer: Timer) -> None:
        self.body = body
        self.done = done
        self.timer = timer


class Requests:
    """All of a connection; ``leave`` is called with the reason when it should end."""

    def __init__(self, engine: ClientContext, broker: str, leave: Callable[[Refusal], None]) -> None:
        self._engine = engine
        self._broker = broker
        self._leave = leave
        self._open: dict[int, _Request] = {}
        self._rejected = 0

    def add(self, body: Any, done: Answer) -> None:
        """This was sent, and has its request id."""
        engine, number = self._engine, body.request_id
        timer = engine.call_at(engine.now + engine.settings.operationTimeoutMs, lambda: self._time_out(number))
        self._open[number] = _Request(body, done, timer)

    def answer(self, event: Event) -> None:
        """An answer came; what is no answer to something open here is dropped."""
        number = getattr(event.request, "request_id", -1)
        request = self._open.get(number)
        if request is None:
            return
        request.timer.cancel()
        if event.name == "PRODUCER_SUCCESS" and not event.body.producer_ready:
            return
        del self._open[number]
        refusal = refusal_of(event.body)
        request.done(event if refusal is None else refusal)
        if refusal is not None and isinstance(request.body, _LOOKUPS):
            self._refused(refusal)

    def _refused(self, refusal: Refusal) -> None:
        if refusal.error == "ServiceNotReady":
            self._leave(Refusal("Disconnected", f"{self._broker} is not ready: {refusal.message}"))
        elif refusal.error == "TooManyRequests":
            self._reject()

    def _time_out(self, number: int) -> None:
        request = self._open.pop(number)
        name = request.body.DESCRIPTOR.name.removeprefix("Command")
        timeout = self._engine.settings.operationTimeoutMs
        request.done(Refusal("TimeOut", f"no answer to {name} within {timeout} ms by {self._broker}"))
        if isinstance(request.body, _LOOKUPS):
            self._reject()

    def _reject(self) -> None:
        if not self._rejected:
            self._engine.call_at(self._engine.now + _MINUTE, self._forget_rejected)
        self._rejected += 1
        if self._rejected > _MOST_REJECTED:
            self._leave(Refusal("Disconnected", f"{self._broker} refuses too many lookups"))

    def _forget_rejected(self) -> None:
        self._rejected = 0

    def fail(self, reason: Refusal) -> None:
        """There will be no more answers; who waits hears why, in order."""
        waiting, self._open = self._open, {}
        for request in waiting.values():
            request.timer.cancel()
            request.done(reason)
