"""A player that records everything sent and received, in order and with times. `pcli reproduce` writes a test from it.

The records contain live ids, and the outcomes of the comparison contain the differences from the capture.
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


@dataclass(slots=True)
class TimedEvent:
    """An action or a response."""

    what: Action | Pair
    position: int
    """The index of the last step of the script that was sent."""
    ms: int
    """The time in milliseconds since 1970."""


class RecordingPlayer(Player):
    """One replay with the timing of the capture."""

    def __init__(self, replay: Replay) -> None:
        """Start with no step sent."""
        found = replay.preparation
        super().__init__(
            replay.script,
            Ids(topics=replay.topics),
            replay.start_ms,
            pace=Pace(speed=1),
            before=found.before,
            instead=found.instead,
            skipped=found.skipped,
        )
        self.events: list[TimedEvent] = []
        self._undated = 0

    def actions(self, now: int) -> list[Action]:
        """Return the actions to execute now."""
        self.date(now)
        found = super().actions(now)
        self.events += [TimedEvent(action, self.last_sent, now) for action in found]
        self._undated = len(self.events)
        return found

    def receive(self, stream: int, data: bytes) -> list[Action]:
        """Process bytes from the live broker. They arrived before the time of the next call."""
        count = len(self.matcher.pairs)
        found = super().receive(stream, data)
        self._note(count)
        return found

    def lost(self, stream: int) -> None:
        """Process the end of a connection that the live broker closed."""
        count = len(self.matcher.pairs)
        super().lost(stream)
        self._note(count)

    def _note(self, count: int) -> None:
        self.events += [TimedEvent(pair, self.last_sent, 0) for pair in islice(self.matcher.pairs, count, None)]

    def date(self, now: int) -> None:
        """Set the time of the events that have occurred since the previous call."""
        for event in islice(self.events, self._undated, None):
            event.ms = now
        self._undated = len(self.events)

    def outcomes(self) -> list[Outcome]:
        """Return the differences between the live and the captured responses, and the rules that explain them."""
        found = compare(self.matcher, self.ids)
        explain(found, Evidence(self.script, self.matcher, self.ids, found, own_broker=True))
        return found
