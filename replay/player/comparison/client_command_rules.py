"""Comparison of the commands of live clients with the captured commands, and explanation of the allowed differences.

Rules of this file
1. Commands are compared like responses (compare_responses.py), after the live ids have been replaced by the captured
   ids (recorded_broker_commands.py).
2. No rule allows a lost or different message, acknowledgement or request.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import EXTRA, MISSING, Difference, Outcome, compare
from pcli.replay.player.comparison.report import Report, report_of
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.response_matching import KEEP_ALIVE, ResponseMatcher
from pcli.replay.player.script.recorded_conversation import QUERIES
from pcli.replay.player.script.script import Script, Step

_GROUPED: Final = ("ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES")
_GENERATED_NAME: Final = re.compile(r"[0-9a-zA-Z]{5,10}|reader-[0-9a-f]{10}|[0-9a-f-]{36}")


class ClientCommandMatcher(ResponseMatcher):
    """A matcher of live and captured client commands. `ResponseMatcher` does the same for responses."""

    def __init__(self, script: Script) -> None:
        """Expect every client step except PINGs and PONGs."""
        super().__init__(())
        self._expected = [step for step in script.steps if step.from_client and step.type not in KEEP_ALIVE]

    def missing(self) -> list[Step]:
        """Return captured steps that no live client sent."""
        matched = {pair.step.index for pair in self.pairs if pair.step is not None}
        return [step for step in self._expected if step.index not in matched]


def report_on(matcher: ClientCommandMatcher, script: Script, not_sent: Collection[Step]) -> Report:
    """Return the report.

    ``not_sent`` contains captured steps of the broker that were not sent because their causes did not occur.
    """
    ids = Ids()
    outcomes = compare(matcher, ids)
    grouped = _grouped_alike(outcomes)
    live_queries = {_query_key(one) for one in outcomes if one.name in QUERIES and one.frame is not None}
    live_streams = {one.stream for one in outcomes if one.name == "CONNECT" and one.frame is not None}
    for outcome in outcomes:
        for difference in outcome.differences:
            if outcome.name in _GROUPED and (outcome.name, _consumer_key(outcome)) in grouped:
                outcome.rules[difference.field] = "grouping"
            elif difference.field in (EXTRA, MISSING) and (
                _query_key(outcome) in live_queries or _is_idle(outcome, live_streams)
            ):
                outcome.rules[difference.field] = "asked again"
            else:
                rule = next((name for name, explains in CLIENT_RULES.items() if explains(difference, outcome)), "")
                if rule:
                    outcome.rules[difference.field] = rule
    return report_of(outcomes, script, not_sent, ids)


# -- one difference --------------------------------------------------------------------------------------------------


def _clock(difference: Difference, outcome: Outcome) -> bool:
    """The messages of the live client contain different timestamps."""
    if difference.field not in ("entry", "checksum") or outcome.step is None or outcome.step.frame is None:
        return False
    captured, live = outcome.step.frame, outcome.frame
    return live is not None and captured.payload == live.payload and _untimed(captured) == _untimed(live)


def _untimed(frame: Frame) -> pb.MessageMetadata:
    metadata = pb.MessageMetadata()
    if frame.metadata is not None:
        metadata.CopyFrom(frame.metadata)
    metadata.publish_time = 0
    return metadata


def _version(difference: Difference, outcome: Outcome) -> bool:
    """The live client has a different version."""
    fields = "client_version", "protocol_version"
    matches = difference.field in fields or difference.field.startswith("feature_flags.")
    return outcome.name == "CONNECT" and matches


def _generated_name(difference: Difference, _outcome: Outcome) -> bool:
    """The client generated a random name."""
    names = str(difference.captured or ""), str(difference.live or "")
    return difference.field in ("consumer_name", "subscription") and all(map(_GENERATED_NAME.fullmatch, names))


CLIENT_RULES: Final[dict[str, Callable[[Difference, Outcome], bool]]] = {
    "clock": _clock,
    "version": _version,
    "given name": _generated_name,
}
"""The rules for single client commands; ``grouping`` and ``asked again`` need all steps."""


# -- all differences -------------------------------------------------------------------------------------------------


def _query_key(outcome: Outcome) -> tuple[str, str, str]:
    frame = outcome.frame if outcome.step is None or outcome.step.frame is None else outcome.step.frame
    body = frame.body if frame is not None else None
    return outcome.name, str(getattr(body, "topic", "")), str(getattr(body, "namespace", ""))


def _is_idle(outcome: Outcome, live_streams: Collection[int]) -> bool:
    """Return whether this is the end of a captured connection without a live counterpart."""
    return outcome.name == "END" and outcome.stream not in live_streams


def _consumer_key(outcome: Outcome) -> tuple[int, int]:
    """Return the connection and the captured id of a consumer."""
    frame = outcome.frame if outcome.step is None or outcome.step.frame is None else outcome.step.frame
    return outcome.stream, frame.body.consumer_id if frame is not None else -1


def _grouped_alike(outcomes: Iterable[Outcome]) -> set[tuple[str, tuple[int, int]]]:
    """Return each command and consumer with equal totals on both sides: acknowledged ids, permits, redelivered ids."""
    sums: dict[tuple[str, tuple[int, int]], list[Any]] = defaultdict(lambda: [_Sum(), _Sum()])
    for outcome in outcomes:
        if outcome.name in _GROUPED:
            captured = outcome.step.frame if outcome.step is not None else None
            for side, frame in enumerate((captured, outcome.frame)):
                if frame is not None:
                    sums[outcome.name, _consumer_key(outcome)][side].add(frame.body)
    return {key for key, (captured, live) in sums.items() if captured.value == live.value}


class _Sum:
    def __init__(self) -> None:
        self.value: tuple[int, frozenset[Any]] = 0, frozenset()

    def add(self, body: Any) -> None:
        permits, ids = self.value
        of_ids = getattr(body, "message_id", getattr(body, "message_ids", ()))
        kind = getattr(body, "ack_type", 0)
        permits += getattr(body, "messagePermits", 0)
        self.value = permits, ids | {(kind, one.SerializePartialToString()) for one in of_ids}
