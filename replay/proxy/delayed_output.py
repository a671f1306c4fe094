"""Output to one side that is delivered at a later time.

Rules of this file
1. Bytes are never reordered. If there are no faults, nothing is delayed: bytes are delivered in the call that receives
   them.
2. Waiting output is limited. Above the limit, reading from the sender pauses until half of the output is delivered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pcli.codec.faults import Step
from pcli.replay.event_loop import now_ns

if TYPE_CHECKING:
    from pcli.replay.proxy.byte_faults import TrafficShaper

_MAX_WAITING: Final = 8 << 20
"""Limit on waiting bytes. At a latency of 100 ms, it permits 80 MB/s."""

_STEP: Final = 200
"""Overhead of a step in bytes. A slice of one byte consists almost entirely of overhead."""


@dataclass(frozen=True, slots=True)
class _End:
    """The end of the stream."""

    due_ns: int


class DelayedOutput:
    """One direction of one connection."""

    def __init__(
        self, deliver: Callable[[bytes], None], finish: Callable[[], None], cut: Callable[[Step], None],
        hold: Callable[[int], None],
    ) -> None:  # fmt: skip
        """``deliver`` forwards bytes, ``finish`` forwards the end of the stream, and ``cut`` ends the connection.

        ``hold(1)`` stops reading from the sender; ``hold(-1)`` allows it again.
        """
        self.shaper: TrafficShaper | None = None
        self._deliver = deliver
        self._finish = finish
        self._cut = cut
        self._hold = hold
        self._steps: deque[Step | _End] = deque()
        """The waiting steps."""
        self._size = 0
        self._full = False
        self._timer: asyncio.TimerHandle | None = None

    def shape(self, shaper: TrafficShaper | None) -> None:
        """Apply other faults from now on. Waiting bytes keep their times, but are no longer withheld."""
        self.shaper = shaper
        self._run()

    def send(self, data: bytes) -> None:
        """Deliver bytes to which no fault applies."""
        if self.shaper is None and not self._steps:
            self._deliver(data)
        elif data:
            self.execute(Step(now_ns(), to_broker=False, data=bytearray(data)))  # the direction is ignored

    def execute(self, step: Step) -> None:
        """Execute a step that a fault produced."""
        for later in [step] if self.shaper is None else self.shaper.feed(step):
            self._steps.append(later)
            self._size += len(later.data) + _STEP
        self._run()
        if self._size > _MAX_WAITING and not self._full:
            self._full = True
            self._hold(1)

    def end(self) -> None:
        """End the stream after the waiting bytes."""
        self._steps.append(_End(now_ns() + self.shaper.slow_close if self.shaper is not None else 0))
        self._run()

    def clear(self) -> None:
        """Drop the waiting bytes."""
        self._steps.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        """Deliver the bytes that are due, and set a timer for the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.shaper is not None and self.shaper.withholds:
            if not (self._steps and isinstance(self._steps[-1], _End)):
                return
            self._steps = deque([self._steps[-1]])  # the end of the stream is not withheld
        while self._steps:
            step = self._steps[0]
            wait = step.due_ns - now_ns()
            if wait > 0:
                self._timer = asyncio.get_running_loop().call_later(wait / 1e9, self._run)
                break
            self._steps.popleft()
            self._execute(step)
        if self._full and self._size <= _MAX_WAITING // 2:
            self._full = False
            self._hold(-1)

    def _execute(self, step: Step | _End) -> None:
        if isinstance(step, _End):
            self._finish()
        elif step.cut:
            self._cut(step)
        else:
            self._size -= len(step.data) + _STEP
            self._deliver(bytes(step.data))
