"""Why a live answer may differ from the captured one. A difference that no rule explains is one.

Rules of this file
1. A rule is one function: of one difference it says yes or no. It looks at the field, and at evidence that only its own
   reason leaves; a fault of the broker that merely looks alike must stay unexplained, and has a test.
2. Kinds: ``timing`` (both brokers are right, one was faster), ``policy`` (the live broker is set up, addressed or
   limited otherwise), ``capture`` (the capture does not have it).
3. Few: what playing or preparing better would do away with is no rule. What an answer says is judged in
   rules_of_words.py, whom it goes to and how often in rules_of_deliveries.py, what the live broker has not in
   rules_of_absence.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pcli.replay.player.comparison import delivery_rules as deliveries
from pcli.replay.player.comparison import missing_feature_rules as absence
from pcli.replay.player.comparison import response_content_rules as words
from pcli.replay.player.comparison.compare_responses import Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence

__all__ = ["RULES", "Rule", "explain"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason with a name."""

    name: str
    kind: str
    explains: Callable[[Difference, Outcome, Evidence], bool]

    @property
    def text(self) -> str:
        """The reason, one sentence."""
        return (self.explains.__doc__ or "").partition("\n")[0]


def explain(outcomes: Iterable[Outcome], evidence: Evidence) -> None:
    """Note for every difference the first rule that explains it."""
    for outcome in outcomes:
        for difference in outcome.differences:
            rule = next((rule for rule in RULES if rule.explains(difference, outcome, evidence)), None)
            if rule is not None:
                outcome.rules[difference.field] = rule.name


RULES: Final = (
    Rule("address", "policy", words.address),
    Rule("version", "policy", words.version),
    Rule("clock", "timing", words.clock),
    Rule("wording", "policy", words.wording),
    Rule("other topics", "capture", words.other_topics),
    Rule("choice of Shared", "timing", deliveries.choice),
    Rule("left over", "timing", deliveries.left_over),
    Rule("overshoot", "timing", deliveries.overshoot),
    Rule("end of capture", "capture", deliveries.end_of_capture),
    Rule("told again", "timing", deliveries.told_again),
    Rule("crossed", "timing", deliveries.crossed),
    Rule("unanswered", "capture", deliveries.unanswered),
    Rule("no administrator", "policy", absence.administrator),
    Rule("no authentication", "policy", absence.authentication),
    Rule("no compaction", "policy", absence.compaction),
    Rule("no quotas", "policy", absence.quotas),
    Rule("no transactions", "policy", absence.transactions),
)
"""The first that explains a difference is named."""
