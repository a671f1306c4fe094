"""A scalable topic that is split and merged, or merged and split, within minutes.

## What it means

The same range of hashes was divided and joined again shortly afterwards. Each change seals segments, closes their
producers, and moves keys between consumers, so latency rises although nothing was gained. The automatic merge compares
rates that the broker updates only every 60 s: if the window of the policy is shorter, new segments seem idle and are
merged at once.

## On the wire

SCALABLE_TOPIC_UPDATEs with a split and a merge of the same segments.

## What would disprove it

Two changes that an administrator requested on purpose.

## What to do

Set `mergeWindowSeconds` of the policy to more than 60 s and increase `mergeCooldownSeconds`, or raise the distance
between the thresholds for splits and merges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, certainty, rule
from pcli.codec.observe.rules.finding_text import span, times
from pcli.codec.observe.rules.segment_text import topic_text
from pcli.codec.observe.tracking.records.scalable_records import LayoutChange, ScalableTopicRecord

_WITHIN: Final = Threshold("layout-swings.within", 600_000_000_000, "maximum time between the two changes")

_POLICY: Final = Cause(
    "broker",
    "likely",
    ("changes that an administrator requested",),
    "The log of the controller's broker: `Auto split`, `Auto merge`.",
)
_REVERSE: Final = {"split": "merge", "merge": "split"}


@rule(
    "scalable_topic",
    facts=("changes",),
    title="a scalable topic that is split and merged again within minutes",
    issue="PIP-483",
    effect=("change of the layout was reversed", "changes of the layout were reversed"),
    thresholds=(_WITHIN,),
)
def evaluate(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if segments that one change created were sealed by its reverse within the limit."""
    born = {number: one for one in topic.changes for number in one.change.after}
    swings: list[tuple[LayoutChange, LayoutChange]] = []
    for later in topic.changes:
        parents = {born[number].frame: born[number] for number in later.change.before if number in born}
        for first in parents.values():
            reverse = first.change.kind == _REVERSE.get(later.change.kind)
            if reverse and 0 < later.time_ns - first.time_ns <= moment.value(_WITHIN):
                swings.append((first, later))
    if not swings:
        return
    first, later = swings[0]
    yield Finding(
        "note" if len(swings) == 1 else "warning",
        certainty(topic.doubts),
        _POLICY,
        {"topic": topic.name},
        f"The layout of {topic_text(topic)} changed back {times(len(swings))}: first "
        f"{first.change} (frame {first.frame}), then {later.change} (frame {later.frame}) after "
        f"{span(later.time_ns - first.time_ns)}.",
        first.time_ns,
        [frame for pair in swings for frame in (pair[0].frame, pair[1].frame)],
        "Requests of an administrator for both changes would disprove the cause.",
        "Set mergeWindowSeconds to more than 60 s, and increase mergeCooldownSeconds.",
        count=len(swings),
        until_ns=swings[-1][1].time_ns,
    )
