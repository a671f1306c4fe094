"""What is known only at the end of a recording, and needs a first pass (`-2`).

Which frame answers which request, and which connections turn out to be the broker's own.

For answers eight bytes per frame up to the last request that was answered, in one array: 80 MB for ten million frames.
"""

from __future__ import annotations

from array import array

from pcli.codec.observe.observer_state import Facts

__all__ = ["AnswerIndex"]


class AnswerIndex:
    """From the number of a request to the number of its (first) answer."""

    __slots__ = ("_answers", "system_streams")

    def __init__(self) -> None:
        self._answers = array("Q")
        self.system_streams: set[int] = set()
        """Connections of the broker's own client; in one pass nothing says so before their first topic."""

    def note(self, facts: Facts) -> None:
        """Keep what was seen of one frame, in the first pass."""
        request = facts.request_number
        if request <= 0:
            return
        answers = self._answers
        if request >= len(answers):
            # Grown by an eighth at least, so that growing costs nothing in the end.
            answers.frombytes(bytes(8 * (request + 1 - len(answers) + (len(answers) >> 3))))
        if not answers[request]:
            answers[request] = facts.frame.number

    def answer_to(self, number: int) -> int:
        """The number of the frame that answers this one; 0: none does."""
        return self._answers[number] if 0 <= number < len(self._answers) else 0
