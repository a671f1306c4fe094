"""A watchdog for tests: code that does not end fails instead of blocking the test suite."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StepsExceededError(Exception):
    """Raised in the code under test when it has made more calls than its budget."""


@contextmanager
def step_budget(calls: int) -> Iterator[None]:
    """Raise StepsExceededError in the body after this number of calls of functions, including built-in ones."""
    left = calls

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        left -= event in ("call", "c_call")
        if left < 0:
            raise StepsExceededError(f"more than {calls} calls, in {frame.f_code.co_name}")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
