"""Sequence ids of one producer session: gaps, and ids that are not above the preceding id.

Rules of this file
1. A SEND uses the ids from ``sequence_id`` to ``highest_sequence_id``. If ``highest_sequence_id`` is absent, a batch
   may use one id (pulsar-flex) or one id per message (the C++, Go and old Java clients), and no frame shows the
   difference.
2. Key-based batchers send the ids of one flush out of order: 3, 5, then a batch with 4 and 6. At first, skipped ids are
   therefore only counted as missing. If a SEND has more messages than ids, the surplus reduces that count, now or
   later. The ids that remain missing are a gap. An application that sets ids may also send skipped ids later.
3. The first SEND of a session may have any id.
"""

from __future__ import annotations

from typing import Final

MAX_DEBT_SENDS: Final = 64
"""Number of SENDs after which missing ids are a gap: more than a key-based batcher sends in one flush."""

Gap = tuple[int, int, int, int]
"""Time and frame of the SEND after the gap, the last id before the gap, and the first id after the gap."""


class SequenceIds:
    """The sequence ids of a session."""

    __slots__ = ("_credit", "_debt", "_since", "ambiguous", "highest", "pending")

    def __init__(self) -> None:
        self.highest = -1
        """The highest id, or -1 if there is none yet."""
        self._credit = 0
        self._debt = 0
        self._since = 0
        self.ambiguous = False
        """Whether a SEND had more messages than ids."""
        self.pending: list[Gap] = []
        """Skipped ids that may still be sent."""

    def take(self, sequence_id: int, highest: int, messages: int, time_ns: int, frame: int) -> bool:
        """Record the ids of a SEND (``highest`` is -1 if absent); return whether they are above all earlier ids."""
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
            self.ambiguous = True
        if before >= 0 and sequence_id > before + 1:
            self._debt += sequence_id - before - 1
            self.pending.append((time_ns, frame, before, sequence_id))
        self._offset_debt()
        return True

    def _fill(self, low: int, top: int) -> None:
        """Remove ids that are sent late (both ends included) from the skipped ids."""
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
        """Record the ids of a resend, so that later SENDs continue after them."""
        top = max(sequence_id, highest)
        if top > self.highest:
            self.highest = top
            self._credit += max(0, messages - (top - sequence_id + 1))

    def _offset_debt(self) -> None:
        paid = min(self._credit, self._debt)
        self._credit -= paid
        self._debt -= paid
        if not self._debt:
            self.pending.clear()
            self._since = 0
        else:
            self._since += 1

    @property
    def lasting(self) -> list[Gap]:
        """The gaps that later SENDs are not expected to fill."""
        return self.pending if self._since > MAX_DEBT_SENDS else []
