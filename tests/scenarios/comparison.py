"""The differences between two recordings of one plan.

Rules of this file
1. Frames are compared as in a replay: ids of the second run are mapped to those of the first run, and a difference that
   a named rule explains is not reported (pcli.replay.player.comparison).
2. A frame that arrived during a different step of the plan differs in the field ``step``.
3. Of the layouts of a scalable topic in a step, only the last one is compared, if the step changed it
   (scalable/last_layouts.py).
4. REST calls are compared in order: status, and JSON without times, rates and addresses (rest_comparison.py).
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from scenarios.recording import Event, Recording
from scenarios.rest_comparison import differences_of_exchanges
from scenarios.scalable.last_layouts import with_last_layouts

from pcli.codec.observe import Consumer
from pcli.replay.player.comparison.compare_responses import Difference as FieldDifference
from pcli.replay.player.comparison.compare_responses import Outcome, compare
from pcli.replay.player.comparison.rule_evidence import Evidence
from pcli.replay.player.comparison.rules import explain
from pcli.replay.player.id_translation import Ids
from pcli.replay.player.response_matching import KEEP_ALIVE, ResponseMatcher
from pcli.replay.player.script.script import Script, Step

_PARSER_TEXT = "org.apache.avro.SchemaParseException: "
_RULES_NOT_USED = frozenset(
    {"told again", "left over", "overshoot", "end of capture", "number of layouts", "crossed", "unanswered"}
)
"""Rules for the timing of a capture. They do not apply: each step of a plan waits for the end of its effects."""


@dataclass(frozen=True)
class Difference:
    """One difference between the brokers."""

    area: str
    """The command or the REST call, and the field."""
    step: int
    """The number of the plan's step, from 1; 0 for the preparation."""
    first: str
    second: str
    request: str = ""

    def __str__(self) -> str:
        return f"step {self.step}: {self.area}: {self.first} | {self.second}"


def differences_of(first: Recording, second: Recording) -> list[Difference]:
    """Return the differences that no rule explains, in the order of the plan."""
    found = [
        *_of_conversations(with_last_layouts(first), with_last_layouts(second)),
        *differences_of_exchanges(first, second, Difference),
    ]
    return sorted(found, key=lambda one: one.step)


def _of_conversations(first: Recording, second: Recording) -> list[Difference]:
    script, plan_steps = first.script()
    ids, walk = Ids(), _Walk(script, plan_steps)
    for event in second.events:
        walk.take(event, ids)
    outcomes = compare(walk.matcher, ids)
    explain(outcomes, Evidence(script, walk.matcher, ids, outcomes, own_broker=False))
    found = []
    for outcome in outcomes:
        _add_step(outcome, plan_steps, walk.arrived)
        step = plan_steps[outcome.step.index] if outcome.step is not None else walk.arrived[outcome.pair.order]
        for one in outcome.differences:
            if outcome.rules.get(one.field) in (None, *_RULES_NOT_USED) and not _is_parser_text(one):
                area = f"{outcome.name} {one.field}"
                found.append(Difference(area, step, _shown(one, "captured", outcome), _shown(one, "live", outcome)))
    return found


def _is_parser_text(difference: FieldDifference) -> bool:
    """Return whether two error messages differ only in the text of the JSON parser of Avro (Jackson)."""
    texts = [str(one).partition(_PARSER_TEXT) for one in (difference.captured, difference.live)]
    return difference.field == "message" and bool(texts[0][1]) and texts[0][:2] == texts[1][:2]


def _add_step(outcome: Outcome, plan_steps: list[int], arrived: dict[int, int]) -> None:
    if outcome.step is not None and outcome.pair.order in arrived:
        mine, other = plan_steps[outcome.step.index], arrived[outcome.pair.order]
        if mine != other:
            outcome.differences.append(FieldDifference("step", mine, other))


def _shown(difference: FieldDifference, side: str, outcome: Outcome) -> str:
    frame = outcome.step.frame if side == "captured" and outcome.step is not None else outcome.frame
    value = getattr(difference, side)
    if difference.field in ("missing", "extra", "type"):
        absent = (difference.field == "missing") == (side == "live")
        return "-" if absent and difference.field != "type" else _text(frame.body if frame is not None else "END")
    return _text(value)


def _text(value: Any) -> str:
    return " ".join(f"{type(value).__name__} {value}".split()) if hasattr(value, "ListFields") else str(value)


class _Walk:
    """The second recording, matched frame by frame with the script of the first recording."""

    def __init__(self, script: Script, plan_steps: list[int]) -> None:
        self.matcher = ResponseMatcher(script.steps)
        self.arrived: dict[int, int] = {}
        """The plan's step of each frame of the second recording, by its order."""
        self._own: dict[int, deque[Step]] = defaultdict(deque)
        for step in script.steps:
            if step.from_client:
                self._own[step.stream].append(step)
        self._consumers: dict[tuple[int, int], Consumer] = {}
        self._last_sent = -1

    def take(self, event: Event, ids: Ids) -> None:
        """Match one event."""
        frame = event.frame
        if event.from_client:
            self._take_client(event, ids)
        elif frame is None:
            self.arrived[self.matcher.end(event.stream, self._last_sent).order] = event.step
        elif frame.type not in KEEP_ALIVE:
            consumer, content = None, b""
            body = frame.body
            if frame.command.HasField("message") or frame.command.HasField("reachedEndOfTopic"):
                consumer = self._consumers.get((event.stream, body.consumer_id))
            if frame.command.HasField("message"):
                content = ids.content(frame)
            pair = self.matcher.take(event.stream, frame, content, consumer, self._last_sent)
            self.arrived[pair.order] = event.step
            captured = pair.step.frame if pair.step is not None else None
            if body is not None and captured is not None and captured.type == frame.type:
                ids.map_ids(captured.body, body)

    def _take_client(self, event: Event, ids: Ids) -> None:
        own = self._own[event.stream]
        if not own:
            return
        step = own.popleft()
        self._last_sent = max(self._last_sent, step.index)
        if step.frame is None or event.frame is None:
            return
        if step.name == "SEND":
            ids.contents[event.frame.data[event.frame.parts.checked_start :]] = step.content
        elif isinstance(step.peer, Consumer) and step.name == "SUBSCRIBE":
            self._consumers[event.stream, step.peer.id] = step.peer
