"""The kinds of steps of a simulation of a scalable topic.

The topic of such a plan has the additional fields ``scalable``, the number of its first segments, and ``automatic``,
whether its layout also changes automatically.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scenarios import step_kinds as scenario
from scenarios.plan_model import Model, Numbers
from scenarios.plans import Plan
from simulation import step_kinds
from simulation.scalable_transactions import QUEUE

Step = dict[str, Any]

_SUBSCRIPTIONS = {"stream": ("s", "s", "s", "r"), "queue": (QUEUE,), "checkpoint": ("g", "g", "")}


def subscribe(model: Model, drawn: Numbers) -> Step:
    """A stream, queue or checkpoint consumer."""
    kind = drawn.pick(("stream", "stream", "stream", "queue", "checkpoint"))
    model.consumers.append({"open": True})
    ack, nack = drawn.pick(((100, 0), (80, 10), (80, 10), (60, 0), (30, 40), (0, 0)))
    return {
        "do": "subscribe",
        "consumer": len(model.consumers) - 1,
        "target": (0, -1),
        "type": kind,
        "subscription": drawn.pick(_SUBSCRIPTIONS[kind]),
        "position": drawn.pick(("Earliest", "Earliest", "Earliest", "Latest")),
        "durable": True,
        "client": drawn.below(3),
        "ack": ack,
        "nack": nack if kind == "queue" else 0,
        "queue": drawn.pick((10, 100, 1, 3)),
        "group_ms": drawn.pick((0, 100)),
        "batch_acks": drawn.pick((True, True, False)),
        "receipts": drawn.one_in(3),
    }


def change_layout(_model: Model, drawn: Numbers) -> Step:
    """A split, merge or rebucket. ``which`` selects the segment, and the merge includes the next one."""
    return {
        "do": "change",
        "change": drawn.pick(("split", "split", "split", "merge", "rebucket")),
        "which": drawn.below(16),
        "buckets": drawn.pick((2, 1, 4, 3)),
    }


KINDS: tuple[Callable[[Model, Numbers], Step | None], ...] = (
    *[step_kinds.send] * 12,
    *[subscribe] * 7,
    *[step_kinds.create_producer] * 3,
    *[step_kinds.draw_event] * 7,
    *[step_kinds.wait] * 3,
    *[change_layout] * 6,
    *[scenario.acknowledge] * 2,
    *[scenario.close_consumer] * 3,
    scenario.close_producer,
    *[step_kinds.transaction] * 2,
)
"""The kinds, repeated by weight."""


def is_scalable(plan: Plan) -> bool:
    """Return whether the topic of a plan is scalable."""
    return "scalable" in plan.topics[0]


def scalable_plan(plan: Plan, drawn: Numbers) -> Plan:
    """Return a plan whose only topic is scalable. The broker names its producers, which share the segments.

    The messages of exact producers have keys: each segment has its own sequence ids, and a message without a key that
    is sent again can reach a segment with higher ids, which drops it.
    """
    topic = {"persistent": True, "partitions": 0, "scalable": 1 + drawn.below(3), "automatic": drawn.one_in(2)}
    exact = {step["producer"] for step in plan.steps if step["do"] == "producer" and step["exact"]}
    return Plan([topic], [], [_scalable_step(step, exact) for step in plan.steps])


def _scalable_step(step: Step, exact: set[int]) -> Step:
    if "target" in step:
        step = step | {"target": (0, -1)}
    if step["do"] == "producer":
        return step | {"access": "Shared", "name": None}
    if step["do"] == "send" and step["producer"] in exact:
        return step | {"keys": step["keys"] or 3}
    return step
