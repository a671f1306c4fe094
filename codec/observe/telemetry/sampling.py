"""The selection of messages whose spans are exported.

Rules of this file
1. The rate is compared with the last 56 bits of the trace id, which are random in every trace id (W3C Trace Context
   Level 2). All programs with the same rate therefore select the same messages.
2. If the application has decided not to export a trace, its messages are not selected: their spans would have no
   parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_BITS: Final = 56
_MASK: Final = (1 << _BITS) - 1


@dataclass(frozen=True, slots=True)
class Sampler:
    """A sampler of traces with a rate from 0 to 1."""

    rate: float = 1.0

    def keeps(self, trace_id: int, *, sampled: bool | None = None) -> bool:
        """Return whether the spans of a trace are exported. ``sampled`` is the decision of the application."""
        return sampled is not False and trace_id & _MASK >= round((1 - self.rate) * (1 << _BITS))
