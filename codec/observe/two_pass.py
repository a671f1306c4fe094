"""Results of a first pass (`-2`): the response to each request, and the broker's own connections.

The numbers of the responses occupy eight bytes per frame up to the last answered request: 80 MB for ten million frames.
"""

from __future__ import annotations

from array import array

from pcli.codec.observe.observer_state import Facts


class AnswerIndex:
    """The number of the first response to each request, by request number."""

    __slots__ = ("_answers", "system_streams")

    def __init__(self) -> None:
        self._answers = array("Q")
        self.system_streams: set[int] = set()
        """Connections of the broker's own client. A single pass cannot identify a connection before its first topic."""

    def note(self, facts: Facts) -> None:
        """In the first pass, store the request that a frame answers."""
        request = facts.request_number
        if request <= 0:
            return
        answers = self._answers
        if request >= len(answers):
            # Growth by at least an eighth makes the cost per frame constant.
            answers.frombytes(bytes(8 * (request + 1 - len(answers) + (len(answers) >> 3))))
        if not answers[request]:
            answers[request] = facts.frame.number

    def answer_to(self, number: int) -> int:
        """Return the number of the frame that answers this frame, or 0."""
        return self._answers[number] if 0 <= number < len(self._answers) else 0
