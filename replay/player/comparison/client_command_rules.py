"""Compare the commands of live clients with the captured ones, and explain the allowed differences.

Rules of this file
1. Commands are compared like responses (compare_responses.py), after the live ids were replaced by the captured ones
   (recorded_broker_commands.py).
2. The reasons are few: none allows a lost or different message, acknowledgement or request.
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
from pcli.replay.player.response_matching import KEEP_ALIVE, Book
from pcli.replay.player.script.recorded_conversation import QUESTIONS
from pcli.replay.player.script.script import Line, Script

__all__ = ["RULES_OF_CLIENTS", "Heard", "report_on"]

_GROUPED: Final = ("ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES")
_GIVEN: Final = re.compile(r"[0-9a-zA-Z]{5,10}|reader-[0-9a-f]{10}|[0-9a-f-]{36}")


class Heard(Book):
    """Matches live client commands to captured ones, as `Book` does for responses."""

    def __init__(self, script: Script) -> None:
        """Expect every client line except PINGs and PONGs."""
        super().__init__(())
        self._wanted = [line for line in script.lines if line.from_client and line.type not in KEEP_ALIVE]

    def missing(self) -> list[Line]:
        """Return captured lines that no live client sent."""
        came = {pair.line.index for pair in self.pairs if pair.line is not None}
        return [line for line in self._wanted if line.index not in came]


def report_on(heard: Heard, script: Script, unsaid: Collection[Line]) -> Report:
    """Return the report. ``unsaid``: lines of the captured broker that were not sent because they had no cause."""
    outcomes = compare(heard, Ids())
    grouped = _grouped_alike(outcomes)
    asked = {_question(one) for one in outcomes if one.name in QUESTIONS and one.frame is not None}
    came = {one.part for one in outcomes if one.name == "CONNECT" and one.frame is not None}
    for outcome in outcomes:
        for difference in outcome.differences:
            if outcome.name in _GROUPED and (outcome.name, _whose(outcome)) in grouped:
                outcome.rules[difference.field] = "grouping"
            elif difference.field in (EXTRA, MISSING) and (_question(outcome) in asked or _is_idle(outcome, came)):
                outcome.rules[difference.field] = "asked again"
            else:
                rule = next((name for name, explains in RULES_OF_CLIENTS.items() if explains(difference, outcome)), "")
                if rule:
                    outcome.rules[difference.field] = rule
    return report_of(outcomes, script.left_out, unsaid)


# -- one difference --------------------------------------------------------------------------------------------------


def _clock(difference: Difference, outcome: Outcome) -> bool:
    """The live client stamps its messages with its own time."""
    if difference.field not in ("entry", "checksum") or outcome.line is None or outcome.line.frame is None:
        return False
    captured, live = outcome.line.frame, outcome.frame
    return live is not None and captured.payload == live.payload and _untimed(captured) == _untimed(live)


def _untimed(frame: Frame) -> pb.MessageMetadata:
    metadata = pb.MessageMetadata()
    if frame.metadata is not None:
        metadata.CopyFrom(frame.metadata)
    metadata.publish_time = 0
    return metadata


def _version(difference: Difference, outcome: Outcome) -> bool:
    """The live client has another version."""
    told = difference.field in ("client_version", "protocol_version") or difference.field.startswith("feature_flags.")
    return outcome.name == "CONNECT" and told


def _given_name(difference: Difference, _outcome: Outcome) -> bool:
    """The client generated a random name."""
    names = str(difference.captured or ""), str(difference.live or "")
    return difference.field in ("consumer_name", "subscription") and all(map(_GIVEN.fullmatch, names))


RULES_OF_CLIENTS: Final[dict[str, Callable[[Difference, Outcome], bool]]] = {
    "clock": _clock,
    "version": _version,
    "given name": _given_name,
}
"""The rules for single client commands; ``grouping`` and ``asked again`` need all lines."""


# -- all differences -------------------------------------------------------------------------------------------------


def _question(outcome: Outcome) -> tuple[str, str, str]:
    frame = outcome.frame if outcome.line is None or outcome.line.frame is None else outcome.line.frame
    body = frame.body if frame is not None else None
    return outcome.name, str(getattr(body, "topic", "")), str(getattr(body, "namespace", ""))


def _is_idle(outcome: Outcome, came: Collection[int]) -> bool:
    """Return whether this is the end of a captured connection without a live counterpart."""
    return outcome.name == "END" and outcome.part not in came


def _whose(outcome: Outcome) -> tuple[int, int]:
    """Return the connection and the captured id of a consumer."""
    frame = outcome.frame if outcome.line is None or outcome.line.frame is None else outcome.line.frame
    return outcome.part, frame.body.consumer_id if frame is not None else -1


def _grouped_alike(outcomes: Iterable[Outcome]) -> set[tuple[str, tuple[int, int]]]:
    """Return the commands and consumers with equal totals on both sides: acknowledged ids, permits, redelivered ids."""
    sums: dict[tuple[str, tuple[int, int]], list[Any]] = defaultdict(lambda: [_Sum(), _Sum()])
    for outcome in outcomes:
        if outcome.name in _GROUPED:
            captured = outcome.line.frame if outcome.line is not None else None
            for side, frame in enumerate((captured, outcome.frame)):
                if frame is not None:
                    sums[outcome.name, _whose(outcome)][side].add(frame.body)
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
