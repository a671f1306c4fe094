"""The attributes ``clock`` and ``faults`` and the method ``wait_until`` of a MiniBroker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pcli.codec.errors import LocalError
from pcli.minibroker.embedded import operations
from pcli.minibroker.server.clock import Clock, ManualClock

if TYPE_CHECKING:
    from pcli.codec.faults import Fault, Faults
    from pcli.minibroker.embedded.conversation_log import Frames
    from pcli.minibroker.server.intercepting_server import InterceptingServer

RunInBroker = Callable[[Callable[["InterceptingServer"], Any]], Any]
"""A function that runs a given function in the broker's thread and returns its result."""


class BrokerClock:
    """The broker's clock."""

    def __init__(self, clock: Clock, run_in_broker: RunInBroker) -> None:
        self._clock = clock
        self._run_in_broker = run_in_broker

    @property
    def now(self) -> float:
        """The time in seconds since 1970."""
        return self._clock.time_ns() / 1e9

    def advance(self, seconds: float) -> None:
        """Advance a manual clock, and run all timers that are due by then, each at its scheduled time.

        Raises LocalError if the clock is not manual or the time is negative.
        """
        clock = self._clock
        if not isinstance(clock, ManualClock):
            raise LocalError("the clock is real; only MiniBroker(clock='manual') can be advanced")
        if seconds < 0:
            raise LocalError(f"advance({seconds}): must not be negative")

        def go_on(server: InterceptingServer) -> None:
            clock.advance(seconds)
            server.run_due()

        self._run_in_broker(go_on)


class BrokerFaults:
    """The injected faults. To list them, iterate over this object."""

    def __init__(self, first: Iterable[Fault], frames: Frames | None, run_in_broker: RunInBroker) -> None:
        """``first`` contains faults that are active from the start. ``frames`` provides the open connections."""
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
        """Add a fault for matching frames. ``fired`` of the returned Fault counts its uses.

        ``on`` is a filter; an empty filter matches every frame. ``do`` is drop, delay (by ``ms``), duplicate, reorder,
        corrupt, error (named by ``error``, for example ``ServiceNotReady``) or close. ``after`` is the number of
        matches to skip first. ``times`` is the maximum number of uses, or None for no limit. Raises LocalError for
        invalid arguments.
        """
        from pcli.codec.faults import Fault

        fault = Fault(on, do, after=after, times=times, ms=ms, error=error)
        self._run_in_broker(lambda server: self.inject(server).add(fault))
        return fault

    def remove(self, fault: Fault) -> None:
        """Remove a fault."""
        self._run_in_broker(lambda server: self.inject(server).remove(fault))

    def clear(self) -> None:
        """Remove all faults."""
        self._run_in_broker(lambda server: self.inject(server).clear())

    def inject(self, server: InterceptingServer) -> Faults:
        """Start applying faults to the connections. Called in the broker's thread."""
        if self._all is None:
            from pcli.codec.faults import Faults, Injector

            if not server.intercept:
                raise LocalError("with max_log=0, faults can only be given at the start")
            self._all = Faults(self._first)
            server.injector = Injector(self._all, operations.live_frames(server, self._frames))
        return self._all


_T = TypeVar("_T")


class Waiter(Generic[_T]):
    """A predicate that is called in the broker's thread until it is true."""

    def __init__(self, predicate: Callable[[], _T]) -> None:
        self.result: Future[_T] = Future()
        self._predicate = predicate
        self._last: object = None
        self._missing: Exception | None = None

    def check(self) -> None:
        """Call the predicate."""
        if self.result.done():
            return
        with suppress(InvalidStateError):  # the caller has stopped waiting
            try:
                value = self._predicate()
            except (LookupError, LocalError) as missing:
                self._missing = missing
            except Exception as fault:
                self.result.set_exception(fault)
            else:
                self._last, self._missing = value, None
                if value:
                    self.result.set_result(value)

    def timed_out(self, timeout: float, seen: list[str]) -> TimeoutError:
        """Return the TimeoutError. ``seen`` contains the state as lines."""
        if self._missing is not None:
            last = f"the predicate failed with {type(self._missing).__name__}: {self._missing}"
        else:
            last = f"the predicate returned {self._last!r}"
        return TimeoutError("\n  ".join([f"not reached in {timeout:g} s: {last}", *seen]))
