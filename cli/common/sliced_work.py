"""Long work on the state of live traffic, in slices, so that frames wait only for milliseconds."""

from __future__ import annotations

import threading
import time
from typing import Final, TypeVar

from pcli.codec.steps import Steps

_T = TypeVar("_T")

_SLICE_S: Final = 0.005
"""Maximum duration of a slice in seconds, apart from the duration of its last step."""

_PAUSE_S: Final = 0.001
"""Time between two slices, so that a thread that waits for the lock receives it."""


def in_slices(steps: Steps[_T], lock: threading.Lock) -> _T:
    """Do the steps, and return the result. The lock is released and acquired between two slices."""
    while True:
        with lock:
            end = time.monotonic() + _SLICE_S
            try:
                while time.monotonic() < end:
                    next(steps)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
        time.sleep(_PAUSE_S)
