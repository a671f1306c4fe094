"""The violation of an invariant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.history import WireFrame


@dataclass(frozen=True)
class Violation:
    """One violation."""

    invariant: str
    """The name of the function that found it."""
    step: int
    """The number of the plan's step, from 1; 0 for the preparation."""
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}, step {self.step}: {self.text}"


def at(invariant: str, frame: WireFrame, text: str) -> Violation:
    """Return the violation that a frame shows."""
    return Violation(invariant, frame.step, f"frame {frame.index}, {frame.name} at {frame.time} ms: {text}")
