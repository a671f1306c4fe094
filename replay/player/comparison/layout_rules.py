"""Rules for the layouts of scalable topics and for the assignments of their segments."""

from __future__ import annotations

import re
from typing import Final

from pcli.codec.proto import pb
from pcli.replay.player.comparison.compare_responses import EXTRA, MISSING, Difference, Outcome
from pcli.replay.player.comparison.rule_evidence import Evidence
from pcli.replay.player.segment_translation import LIVE_ONLY

_SEGMENT: Final = re.compile(r"(?:dag\.segments|dag\.segment_brokers|assignment\.segments)\.(\d+)")
_PARENTS: Final = re.compile(r"dag\.segments\.\d+\.parent_ids")


def number_of_layouts(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The number of layouts and assignments differs, but not the last one: some are repeated or soon replaced."""
    updates = evidence.scalable_updates
    return difference.field in (EXTRA, MISSING) and (updates.is_repeated(outcome) or updates.is_between(outcome))


def controller(difference: Difference, outcome: Outcome, evidence: Evidence) -> bool:
    """The controller of the topic was elected at another time, for example before the replay."""
    once = (difference.captured is None) != (difference.live is None)
    named = difference.field in ("dag.controller_broker_url", "dag.controller_broker_url_tls")
    return once and named and evidence.scalable_updates.was_controlled(outcome)


def earlier_segments(difference: Difference, _outcome: Outcome, _evidence: Evidence) -> bool:
    """The live topic had sealed segments from before the replay."""
    found = _SEGMENT.fullmatch(difference.field)
    if found is not None:
        sealed = getattr(difference.live, "state", pb.SEALED) == pb.SEALED
        return difference.captured is None and int(found[1]) >= LIVE_ONLY and sealed
    if _PARENTS.fullmatch(difference.field) is None or difference.captured is not None:
        return False
    return all(number >= LIVE_ONLY for number in difference.live or ())
