"""One capture, ready to be replayed any number of times against any broker.

The steps are: build the script (script/build_script.py), prepare the broker (script/broker_preparation.py,
script/seed_messages.py), replay the script (player.py), and report the differences (comparison).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pcli.replay.player.comparison.compare_responses import Outcome, compare
from pcli.replay.player.comparison.report import Report, report_of
from pcli.replay.player.comparison.rule_evidence import Evidence
from pcli.replay.player.comparison.rules import explain
from pcli.replay.player.id_translation import Ids, TopicRule
from pcli.replay.player.player import Pace, Player
from pcli.replay.player.script.broker_preparation import Preparation, prepare
from pcli.replay.player.script.script import SEED_STREAM, RestCall, Script
from pcli.replay.player.script.seed_messages import seed

_SAME_TIME_MS: Final = 1000
"""Maximum difference in ms between the starts of the capture and of the replay at which times are not shifted."""


@dataclass(slots=True)
class Replay:
    """A capture and the preparation of its replay."""

    script: Script
    settings: Mapping[str, str] = field(default_factory=dict)
    """The user's settings for the live broker."""
    topics: Sequence[TopicRule] = ()
    """Rules that rename topics."""
    calls: list[RestCall] = field(default_factory=list)
    """Calls to make before the replay, in order."""
    preparation: Preparation = field(default_factory=Preparation)

    def __post_init__(self) -> None:
        rename = Ids(topics=self.topics).topic
        subscriptions = seed(self.script, rename)
        self.preparation = prepare(self.script, self.settings, rename)
        self.calls = [*self.preparation.calls, *subscriptions]

    @property
    def start_ms(self) -> int:
        """The time of the first captured step, in milliseconds since 1970."""
        return int(self.script.steps[0].time_ms) if self.script.steps else 0

    def player(self, now: int, pace: Pace, *, administered: bool, auth: tuple[str, bytes] | None = None) -> Player:
        """Return a player for one replay. ``administered`` is true if REST calls can be made during the replay."""
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
            skipped=found.skipped,
            auth=auth,
        )

    def report(self, player: Player, *, own_broker: bool, administered: bool) -> Report:
        """Return the report of a finished replay."""
        outcomes = [one for one in compare(player.matcher, player.ids) if _is_captured(one)]
        restarted = {""} if not own_broker else set[str]()  # no REST call restarts a broker
        intervention_topics = self.preparation.topics & restarted if administered else self.preparation.topics
        evidence = Evidence(
            self.script,
            player.matcher,
            player.ids,
            outcomes,
            own_broker=own_broker,
            intervention_topics=intervention_topics,
        )
        explain(outcomes, evidence)
        report = report_of(outcomes, self.script, player.not_sent, player.ids)
        report.not_played |= player.refused
        undone = (
            0 if administered else sum(call.path.startswith(("scalable/", "segments/")) for call in self._all_calls())
        )
        if undone:
            report.not_played["requests for scalable topics, which require --admin"] = undone
        return report

    def _all_calls(self) -> Iterator[RestCall]:
        yield from self.calls
        for calls in (*self.preparation.before.values(), *self.preparation.instead.values()):
            yield from calls


def _is_captured(outcome: Outcome) -> bool:
    """Return whether an outcome does not concern a command that replay has added."""
    return outcome.stream != SEED_STREAM and (outcome.step is None or not outcome.step.composed)
