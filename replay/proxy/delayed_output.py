"""What is on its way to one side, and goes on when its time has come.

Rules of this file
1. Nothing overtakes. Without faults nothing waits: bytes go on in the call that brings them.
2. What waits is bounded: above a limit the sender is not read from, until half of it has gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pcli.codec.faults import Step
from pcli.replay.event_loop import now_ns

if TYPE_CHECKING:
    from pcli.replay.proxy.byte_faults import Shaper

__all__ = ["Lane"]

_MOST: Final = 8 << 20
"""Bytes that may wait. At a latency of 100 ms that is 80 MB/s."""

_STEP: Final = 200
"""Bytes that a step takes beside its data; of slices of a byte that is nearly all."""


class Lane:
    """One direction of one connection."""

    def __init__(
        self, deliver: Callable[[bytes], None], finish: Callable[[], None], cut: Callable[[], None],
        hold: Callable[[int], None],
    ) -> None:  # fmt: skip
        """``deliver`` passes bytes on, ``finish`` the end of the stream, ``cut`` resets the connection.

        ``hold(1)``: the sender is not to be read from; ``hold(-1)``: it may be again.
        """
        self.shaper: Shaper | None = None
        self._deliver = deliver
        self._finish = finish
        self._cut = cut
        self._hold = hold
        self._steps: deque[Step | None] = deque()
        """What waits; None: the end of the stream."""
        self._size = 0
        self._full = False
        self._timer: asyncio.TimerHandle | None = None

    def send(self, data: bytes) -> None:
        """Bytes that no fault has seen."""
        if self.shaper is None and not self._steps:
            self._deliver(data)
        else:
            self.do(Step(now_ns(), to_broker=False, data=bytearray(data)))  # a lane has one direction

    def do(self, step: Step) -> None:
        """Something that a fault has to do with."""
        for later in [step] if self.shaper is None else self.shaper.feed(step):
            self._steps.append(later)
            self._size += len(later.data) + _STEP
        self._run()
        if self._size > _MOST and not self._full:
            self._full = True
            self._hold(1)

    def end(self) -> None:
        """The stream ends behind what waits."""
        self._steps.append(None)
        self._run()

    def clear(self) -> None:
        """Forget what waits."""
        self._steps.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> None:
        """Do what is due; wait for the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._steps:
            step = self._steps[0]
            wait = 0 if step is None else step.due_ns - now_ns()
            if wait > 0:
                self._timer = asyncio.get_running_loop().call_later(wait / 1e9, self._run)
                break
            self._steps.popleft()
            self._act(step)
        if self._full and self._size <= _MOST // 2:
            self._full = False
            self._hold(-1)

    def _act(self, step: Step | None) -> None:
        if step is None:
            self._finish()
        elif step.cut:
            self._cut()
        else:
            self._size -= len(step.data) + _STEP
            self._deliver(bytes(step.data))
