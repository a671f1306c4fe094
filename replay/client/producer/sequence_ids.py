"""The sequence ids of a producer, and which messages may be duplicates by theirs.

Rules of this file (ProducerImpl.serializeAndSendMessage, connectionOpened; 4.2.4)
1. A message without an id gets the next one: 0 at first, or one above what the broker (PRODUCER_SUCCESS) or
   ``initialSequenceId`` says. What the broker says counts only while no id was given out, and less than -1 as -1.
2. ``pushed`` is the highest id that was put into a batch or the queue, ``published`` the highest that has a receipt.
   What the broker says of the past moves ``published`` alone.
3. A message whose id is not above ``pushed`` may be a duplicate; one not above ``published`` is one. Both go alone into
   a batch of their own, so that the broker can judge them by their id, and the first clean message after them begins a
   new batch. Ids that go into no batch are not judged: they are alone anyway.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["DuplicateRisk", "SequenceIds"]


class DuplicateRisk(Enum):
    """What a sequence id says of a message."""

    NONE = ""
    MAYBE = "might be a duplicate, which cannot be known yet"
    SURE = "is a duplicate"


class SequenceIds:
    """The ids of one producer. ``initial``: ``initialSequenceId``."""

    __slots__ = ("_initial", "next", "published", "pushed", "suspected")

    def __init__(self, initial: int | None) -> None:
        self._initial = initial
        start = -1 if initial is None else initial
        self.next = start + 1
        """The id of the next message that has none."""
        self.pushed = start
        self.published = start
        self.suspected = False
        """The last message that was judged is suspect: what comes next does not join it."""

    def learn(self, last: int) -> None:
        """What the broker says: the last id that it has of this producer, -1: none."""
        if self.next == 0 and self._initial is None:
            self.published = max(-1, last)
            self.next = self.published + 1

    def peek(self, given: int | None) -> int:
        """The id of a message, ``given`` by the application or the next one; not given out yet."""
        return self.next if given is None else given

    def take(self, given: int | None) -> int:
        """The same, given out."""
        sequence_id = self.peek(given)
        self.next += given is None
        return sequence_id

    def judge(self, sequence_id: int) -> tuple[DuplicateRisk, bool]:
        """How suspect a message is that could join the batch, and whether it must begin a new one."""
        after_suspect = self.suspected
        self.suspected = sequence_id <= self.pushed
        if not self.suspected:
            return DuplicateRisk.NONE, after_suspect
        return DuplicateRisk.SURE if sequence_id <= self.published else DuplicateRisk.MAYBE, True
