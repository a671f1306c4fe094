"""The sequence ids of a producer, and the detection of possible duplicates.

Rules of this file (ProducerImpl.serializeAndSendMessage, connectionOpened; 4.2.4)
1. A message without an id is assigned the next id. The first id is the last id plus 1. The last id comes from the
   broker (PRODUCER_SUCCESS) or from ``initialSequenceId``; if there is none, the first id is 0. The broker's value is
   used only before the first id is assigned; values below -1 are treated as -1.
2. ``pushed`` is the highest id in a batch or in the queue, and ``published`` is the highest id with a receipt. The
   broker's value in PRODUCER_SUCCESS changes only ``published``.
3. A message is a possible duplicate if its id is not above ``pushed``, and a duplicate if its id is not above
   ``published``. Each duplicate or possible duplicate is sent in a separate batch, so that the broker can deduplicate
   by its id. The next message that is not a duplicate starts a new batch. Messages that are not batched are not
   checked.
"""

from __future__ import annotations

from enum import Enum


class DuplicateRisk(Enum):
    """The risk, according to the sequence id, that a message is a duplicate."""

    NONE = ""
    MAYBE = "may be a duplicate; this is not known yet"
    SURE = "is a duplicate"


class SequenceIds:
    """The sequence ids of one producer. ``initial`` is the setting ``initialSequenceId``."""

    def __init__(self, initial: int | None) -> None:
        self._initial = initial
        start = -1 if initial is None else initial
        self.next = start + 1
        """The id of the next message without an id."""
        self.pushed = start
        self.published = start
        self.suspected = False
        """Whether the last checked message is a possible duplicate. The next message is not added to its batch."""

    def learn(self, last: int) -> None:
        """Process the producer's last sequence id from the broker; -1 if there is none."""
        if self.next == 0 and self._initial is None:
            self.published = max(-1, last)
            self.next = self.published + 1

    def peek(self, given: int | None) -> int:
        """Return the id for a message without assigning it: the id ``given`` by the application, or the next id."""
        return self.next if given is None else given

    def take(self, given: int | None) -> int:
        """Return the id for a message and assign it."""
        sequence_id = self.peek(given)
        self.next += given is None
        return sequence_id

    def judge(self, sequence_id: int) -> tuple[DuplicateRisk, bool]:
        """Return the duplicate risk of a message that may fit into the batch, and whether it must start a new batch."""
        after_suspect = self.suspected
        self.suspected = sequence_id <= self.pushed
        if not self.suspected:
            return DuplicateRisk.NONE, after_suspect
        return DuplicateRisk.SURE if sequence_id <= self.published else DuplicateRisk.MAYBE, True
