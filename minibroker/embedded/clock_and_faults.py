"""The handles of a MiniBroker: its time, and its faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pcli.codec.errors import LocalError
from pcli.minibroker.embedded import operations
from pcli.minibroker.server.clock import Clock, ManualClock

if TYPE_CHECKING:
    from pcli.codec.faults import Fault, Faults
    from pcli.minibroker.embedded.conversation_log import Frames
    from pcli.minibroker.server.intercepting_server import InterceptingServer

__all__ = ["BrokerClock", "BrokerFaults"]

RunInBroker = Callable[[Callable[["InterceptingServer"], Any]], Any]
"""Runs something in the broker's thread and gives what it gave."""


class BrokerClock:
    """The broker's time."""

    def __init__(self, clock: Clock, run_in_broker: RunInBroker) -> None:
        self._clock = clock
        self._run_in_broker = run_in_broker

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock.time_ns() / 1e9

    def advance(self, seconds: float) -> None:
        """Let that much time pass: the timers due until then run now, each at its own time. For a manual clock only.

        LocalError: the clock is real, or time would run backwards.
        """
        clock = self._clock
        if not isinstance(clock, ManualClock):
            raise LocalError("the clock is real: MiniBroker(clock='manual') has one that can be advanced")
        if seconds < 0:
            raise LocalError(f"advance({seconds}): time does not run backwards")

        def go_on(server: InterceptingServer) -> None:
            clock.advance(seconds)
            server.run_due()

        self._run_in_broker(go_on)


class BrokerFaults:
    """What goes wrong on purpose. Iterate for all faults there are."""

    def __init__(self, first: Iterable[Fault], frames: Frames | None, run_in_broker: RunInBroker) -> None:
        """``first``: those from the start; ``frames``: what knows the connections there are when one is added."""
        self._first = list(first)
        self._frames = frames
        self._run_in_broker = run_in_broker
        self._all: Faults | None = None

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._first if self._all is None else list(self._all))

    def __len__(self) -> int:
        return len(self._first if self._all is None else self._all)

    def add(
        self, on: str = "", do: str = "drop", *, after: int = 0, times: int | None = None, ms: int = 0, error: str = ""
    ) -> Fault:
        """Let something go wrong with the frames that match, from now on; ``fired`` of the Fault counts.

        ``on``: a filter, empty for every frame; ``do``: drop, delay (by ``ms``), duplicate, corrupt, error (``error``
        names it: ``ServiceNotReady``) or close; ``after``: so many matches pass first; ``times``: None is always.
        LocalError for what makes no sense.
        """
        from pcli.codec.faults import Fault

        fault = Fault(on, do, after=after, times=times, ms=ms, error=error)
        self._run_in_broker(lambda server: self.inject(server).add(fault))
        return fault

    def remove(self, fault: Fault) -> None:
        """Let it not happen any more."""
        self._run_in_broker(lambda server: self.inject(server).remove(fault))

    def clear(self) -> None:
        """Let nothing happen any more."""
        self._run_in_broker(lambda server: self.inject(server).clear())

    def inject(self, server: InterceptingServer) -> Faults:
        """Let faults see the connections from now on; runs in the broker's thread."""
        if self._all is None:
            from pcli.codec.faults import Faults, Injector

            if not server.intercept:
                raise LocalError("with max_log=0 faults are given at the start")
            self._all = Faults(self._first)
            server.injector = Injector(self._all, operations.live_frames(server, self._frames))
        return self._all
