"""Sequence ids of one producer session: whether they leave any out, or go back.

Rules of this file
1. A SEND takes the ids from ``sequence_id`` to ``highest_sequence_id``. Without the latter a batch may take one id
   (pulsar-flex), or as many as it has messages (the C++, Go and old Java clients), and no frame says which.
2. Key-based batchers send the ids of one flush in another order: 3, 5, then a batch that brings 4 and 6. So ids that
   are left out are a debt, messages beyond the ids that a SEND names pay it or are kept for the next; only a debt
   that stays is a gap. An application that sets ids may bring the ones left out later: what is left of the gap counts.
3. The first SEND of a session may have any id.
"""

from __future__ import annotations

from typing import Final

__all__ = ["PATIENCE", "SequenceIds"]

PATIENCE: Final = 64
"""SENDs after which a debt is a gap: more than any flush of a key-based batcher has batches of the same ids."""

Gap = tuple[int, int, int, int]
"""Time and frame of the SEND behind the gap, the last id before it, the first after it."""


class SequenceIds:
    """What ids a session has used."""

    __slots__ = ("_credit", "_debt", "_since", "highest", "pending", "vague")

    def __init__(self) -> None:
        self.highest = -1
        """The highest id seen; -1: none yet."""
        self._credit = 0
        self._debt = 0
        self._since = 0
        self.vague = False
        """Whether a SEND had more messages than ids."""
        self.pending: list[Gap] = []
        """Ids left out that may still come."""

    def take(self, sequence_id: int, highest: int, messages: int, time_ns: int, frame: int) -> bool:
        """A SEND with these ids (``highest`` -1: not given); whether it is above all before."""
        top = highest if highest > sequence_id else sequence_id
        before = self.highest
        if sequence_id <= before:
            if self.pending:
                self._fill(sequence_id, top)
            return False
        self.highest = top
        more = messages - (top - sequence_id + 1)
        if more <= 0 and not self._debt and sequence_id == before + 1:
            return True
        if more > 0:
            self._credit += more
            self.vague = True
        if before >= 0 and sequence_id > before + 1:
            self._debt += sequence_id - before - 1
            self.pending.append((time_ns, frame, before, sequence_id))
        self._settle()
        return True

    def _fill(self, low: int, top: int) -> None:
        """Ids that come late, with both ends: they are left out no more."""
        left: list[Gap] = []
        for time_ns, frame, before, after in self.pending:
            filled = min(top, after - 1) - max(low, before + 1) + 1
            parts = ((before, min(low, after)), (max(top, before), after)) if filled > 0 else ((before, after),)
            left += [(time_ns, frame, start, end) for start, end in parts if start + 1 < end]
            self._debt -= max(0, filled)
        self.pending = left
        if self._debt <= 0 or not left:
            self._debt = self._since = 0
            left.clear()

    def skip(self, sequence_id: int, highest: int, messages: int) -> None:
        """A resend of these ids: what follows goes on behind them."""
        top = max(sequence_id, highest)
        if top > self.highest:
            self.highest = top
            self._credit += max(0, messages - (top - sequence_id + 1))

    def _settle(self) -> None:
        paid = min(self._credit, self._debt)
        self._credit -= paid
        self._debt -= paid
        if not self._debt:
            self.pending.clear()
            self._since = 0
        else:
            self._since += 1

    def gaps(self, *, over: bool) -> list[Gap]:
        """The gaps that nothing will fill any more, each once; ``over``: no more SENDs will come."""
        if not self.pending or not (over or self._since > PATIENCE):
            return []
        found, self.pending = self.pending, []
        self._debt = self._since = 0
        return found
