"""The table of mutants. A mutant replaces one function of the broker with a defective one.

Rules of this file
1. A mutant is a function that receives the original function and returns its replacement. It is called anew for each
   run, so its counters start at 0.
2. The docstring of a mutant states the defect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

_Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Mutant:
    """One defect."""

    name: str
    description: str
    owner: Any
    attribute: str
    make: _Make

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the broker inside the context."""
        original = self.owner.__dict__[self.attribute]
        with patch.object(self.owner, self.attribute, self.make(original)):
            yield


MUTANTS: dict[str, Mutant] = {}
"""All mutants by name."""


def mutant(owner: Any, attribute: str) -> Callable[[_Make], _Make]:
    """Register a mutant of a method of a class, or of a function of a module."""

    def register(make: _Make) -> _Make:
        name = make.__name__
        MUTANTS[name] = Mutant(name, (make.__doc__ or "").strip(), owner, attribute, make)
        return make

    return register


def nth(interval: int) -> Callable[[], bool]:
    """Return a function that returns True in every ``interval``-th call."""
    calls = 0

    def is_nth() -> bool:
        nonlocal calls
        calls += 1
        return calls % interval == 0

    return is_nth
