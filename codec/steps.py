"""Long work in steps, between which other work can be done, such as processing frames."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

_T = TypeVar("_T")

Steps = Generator[None, None, _T]
"""Work that can be interrupted after each item, and returns a result. Objects can appear or end meanwhile."""


def run_steps(steps: Steps[_T]) -> _T:
    """Do all steps without an interruption, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
