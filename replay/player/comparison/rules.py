"""Reasons why a live response may differ from the captured response. Any other difference is an error.

Rules of this file
1. A rule is one function that returns whether it explains a difference. It checks the field, and evidence that no other
   reason produces. A similar difference that a broker's error causes must remain unexplained; a test verifies this.
2. A rule has one of three kinds: ``timing`` (both brokers are correct, but one was faster), ``policy`` (the live broker
   has a different configuration, address or limits) or ``capture`` (the capture is incomplete).
3. There is no rule for a difference that a better replay or preparation can avoid. response_content_rules.py contains
   rules for the content of responses, delivery_rules.py contains rules for the receiver and number of deliveries, and
   missing_feature_rules.py contains rules for features that the live broker lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pcli.replay.player.comparison import delivery_rules, layout_rules
from pcli.replay.player.comparison import missing_feature_rules as feature_rules
from pcli.replay.player.comparison import response_content_rules as content_rules
from pcli.replay.player.comparison.compare_responses import Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence


@dataclass(frozen=True, slots=True)
class Rule:
    """A named reason."""

    name: str
    kind: str
    explains: Callable[[Difference, Outcome, Evidence], bool]

    @property
    def text(self) -> str:
        """The reason in one sentence."""
        return (self.explains.__doc__ or "").partition("\n")[0]


def explain(outcomes: Iterable[Outcome], evidence: Evidence) -> None:
    """Record the first rule that explains each difference."""
    for outcome in outcomes:
        for difference in outcome.differences:
            rule = next((rule for rule in RULES if rule.explains(difference, outcome, evidence)), None)
            if rule is not None:
                outcome.rules[difference.field] = rule.name


RULES: Final = (
    Rule("address", "policy", content_rules.address),
    Rule("version", "policy", content_rules.version),
    Rule("clock", "timing", content_rules.clock),
    Rule("wording", "policy", content_rules.wording),
    Rule("other topics", "capture", content_rules.other_topics),
    Rule("choice of Shared", "timing", delivery_rules.choice),
    Rule("left over", "timing", delivery_rules.redelivered),
    Rule("overshoot", "timing", delivery_rules.overshoot),
    Rule("end of capture", "capture", delivery_rules.end_of_capture),
    Rule("told again", "timing", delivery_rules.repeated_notification),
    Rule("number of layouts", "timing", layout_rules.number_of_layouts),
    Rule("controller", "timing", layout_rules.controller),
    Rule("earlier segments", "policy", layout_rules.earlier_segments),
    Rule("crossed", "timing", delivery_rules.crossed),
    Rule("unanswered", "capture", delivery_rules.unanswered),
    Rule("no administrator", "policy", feature_rules.administrator),
    Rule("no authentication", "policy", feature_rules.authentication),
    Rule("no compaction", "policy", feature_rules.compaction),
    Rule("no quotas", "policy", feature_rules.quotas),
    Rule("no transactions", "policy", feature_rules.transactions),
)
"""All rules in order of precedence."""
