"""A player that notes what was said and heard, in order and with its time: what `pcli reproduce` writes a test of.

Notes are live words: ids are those of the broker that was played to. What the capture says otherwise is found in the
outcomes of the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from pcli.replay.player.comparison.compare_responses import Outcome, compare
from pcli.replay.player.comparison.rule_evidence import Evidence
from pcli.replay.player.comparison.rules import explain
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.player import Action, Pace, Player
from pcli.replay.player.replay import Replay
from pcli.replay.player.response_matching import Pair

__all__ = ["Noting", "Step"]


@dataclass(slots=True)
class Step:
    """Something that was done, or an answer that came."""

    what: Action | Pair
    place: int
    """Of the last line of the play that was said."""
    ms: int
    """When, milliseconds since 1970."""


class Noting(Player):
    """One replay in the capture's own time."""

    def __init__(self, replay: Replay) -> None:
        """Nothing was said yet."""
        found = replay.preparation
        super().__init__(
            replay.script,
            Ids(topics=replay.topics),
            replay.start_ms,
            pace=Pace(speed=1),
            before=found.before,
            instead=found.instead,
            unsaid=found.unsaid,
        )
        self.steps: list[Step] = []
        self._undated = 0

    def actions(self, now: int) -> list[Action]:
        """What to do now."""
        self.date(now)
        found = super().actions(now)
        self.steps += [Step(action, self.said, now) for action in found]
        self._undated = len(self.steps)
        return found

    def receive(self, part: int, data: bytes) -> list[Action]:
        """Bytes of the live broker; they came before the time that is told next."""
        count = len(self.book.pairs)
        found = super().receive(part, data)
        self._note(count)
        return found

    def lost(self, part: int) -> None:
        """The live broker closed a connection."""
        count = len(self.book.pairs)
        super().lost(part)
        self._note(count)

    def _note(self, count: int) -> None:
        self.steps += [Step(pair, self.said, 0) for pair in islice(self.book.pairs, count, None)]

    def date(self, now: int) -> None:
        """It is so late, and was so since the last time was told."""
        for step in islice(self.steps, self._undated, None):
            step.ms = now
        self._undated = len(self.steps)

    def outcomes(self) -> list[Outcome]:
        """How the answers differ from the captured ones, and which rules say why."""
        found = compare(self.book, self.ids)
        explain(found, Evidence(self.script, self.book, self.ids, found, own_broker=True))
        return found
