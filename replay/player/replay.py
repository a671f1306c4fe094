"""One capture, ready to be played any number of times, against any broker.

The way: a script (script.py), what the broker must have (preparation.py, seeding.py), a player for each time
(player.py), and when it is done a report (compare.py, rules.py, report.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pcli.replay.player.comparison.compare_responses import compare
from pcli.replay.player.comparison.report import Report, report_of
from pcli.replay.player.comparison.rule_evidence import Evidence
from pcli.replay.player.comparison.rules import explain
from pcli.replay.player.id_translation import Ids, TopicRule
from pcli.replay.player.player import Pace, Player
from pcli.replay.player.script.broker_preparation import Preparation, prepare
from pcli.replay.player.script.rest_calls import Call
from pcli.replay.player.script.script import Script
from pcli.replay.player.script.seed_messages import SEED_PART, seed

__all__ = ["Replay"]

_SAME_TIME_MS: Final = 1000
"""A live broker whose clock is nearer than this to the capture's lives in its time."""


@dataclass(slots=True)
class Replay:
    """A capture and what it needs."""

    script: Script
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the live broker that the user named."""
    topics: Sequence[TopicRule] = ()
    """How topics are renamed."""
    calls: list[Call] = field(default_factory=list)
    """To be made before the play, in order."""
    preparation: Preparation = field(default_factory=Preparation)

    def __post_init__(self) -> None:
        rename = Ids(topics=self.topics).topic
        subscriptions = seed(self.script, rename)
        self.preparation = prepare(self.script, self.settings, rename)
        self.calls = [*self.preparation.calls, *subscriptions]

    @property
    def start_ms(self) -> int:
        """When the play begins, milliseconds since 1970."""
        return int(self.script.lines[0].time_ms) if self.script.lines else 0

    def player(self, now: int, pace: Pace, *, administered: bool, auth: tuple[str, bytes] | None = None) -> Player:
        """Somebody who plays it once. ``administered``: whether calls can be made while it is played."""
        ids = Ids(topics=self.topics)
        if abs(now - self.start_ms) > _SAME_TIME_MS:
            ids.shift_ms = now - self.start_ms
        found = self.preparation
        return Player(
            self.script,
            ids,
            now,
            pace=pace,
            before=found.before if administered else {},
            instead=found.instead if administered else {},
            unsaid=found.unsaid,
            auth=auth,
        )

    def report(self, player: Player, *, own_broker: bool, administered: bool) -> Report:
        """How it went."""
        outcomes = [one for one in compare(player.book, player.ids) if one.part != SEED_PART]
        undone = {""} if not own_broker else set[str]()  # nobody's call restarts a broker
        deeds = self.preparation.topics & undone if administered else self.preparation.topics
        evidence = Evidence(self.script, player.book, player.ids, outcomes, own_broker=own_broker, deeds=deeds)
        explain(outcomes, evidence)
        return report_of(outcomes, self.script.left_out, player.unsaid)
