"""The kinds of steps of a simulation: those of `scenarios.step_kinds` that applications do, and events.

An event is a fault of the network or of a client, or an act of the administration. Its step has the kind ``event``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scenarios import step_kinds as scenario
from scenarios.plan_model import Model, Numbers

Step = dict[str, Any]

_EVENT_MS = (50, 300, 1500, 6000, 70_000)
_POLICIES: tuple[tuple[str, Any], ...] = (
    ("maxUnackedMessagesOnConsumer", 5),
    ("maxUnackedMessagesOnConsumer", 20),
    ("maxUnackedMessagesOnSubscription", 8),
    ("maxUnackedMessagesOnSubscription", 30),
    ("maxUnackedMessagesOnConsumer", 0),
    ("maxUnackedMessagesOnSubscription", 0),
)
EVENTS = (
    "stall",
    "stall",
    "break",
    "break",
    "half_close",
    "slow_reader",
    "pause",
    "crash",
    "crash",
    "unload",
    "unload",
    "policy",
    "policy",
    "restart",
    "restart",
    "restart",
    "outage",
)
"""The kinds of events, repeated by weight."""


def create_producer(model: Model, drawn: Numbers) -> Step:
    """A producer of an application."""
    step = scenario.create_producer(model, drawn)
    exact = drawn.one_in(3)
    if exact:
        step["name"] = None
        step["access"] = "Shared"
    return {
        **step,
        "schema": None,
        "exact": exact,
        "client": drawn.below(3),
        "batch": drawn.pick((1, 1, 5, 20)),
        "batcher": drawn.pick(("DEFAULT", "KEY_BASED")),
    }


def send(model: Model, drawn: Numbers) -> Step | None:
    """Messages of a producer."""
    choices = model.open(model.producers)
    if not choices:
        return create_producer(model, drawn)
    count = drawn.pick((10, 3, 1, 20, 40))
    model.messages += count
    return {
        "do": "send",
        "producer": drawn.pick(choices),
        "count": count,
        "keys": drawn.pick((0, 2, 5, 5)),
        "delay_ms": drawn.pick((0,) * 8 + (2500, 5000)),
    }


def subscribe(model: Model, drawn: Numbers) -> Step:
    """A consumer of an application."""
    step = scenario.subscribe(model, drawn)
    ack, nack = drawn.pick(((100, 0), (80, 10), (80, 10), (60, 0), (30, 40), (0, 0)))
    return {
        **step,
        "client": drawn.below(3),
        "ack": ack,
        "nack": nack,
        "cumulative": drawn.one_in(3),
        "queue": drawn.pick((10, 100, 1, 3)),
        "group_ms": drawn.pick((0, 100)),
        "batch_acks": drawn.pick((True, True, False)),
        "receipts": drawn.one_in(3),
        "ack_timeout_ms": drawn.pick((0, 0, 3000)),
        "out_of_order": drawn.one_in(6),
    }


def draw_event(model: Model, drawn: Numbers) -> Step:
    """An event. ``which`` selects its connection or topic."""
    event = drawn.pick(EVENTS)
    step = {"do": "event", "event": event, "which": drawn.below(16), "ms": drawn.pick(_EVENT_MS)}
    if event == "policy":
        step["policy"], step["value"] = drawn.pick(_POLICIES)
    if event in ("stall", "half_close"):
        step["side"] = drawn.pick(("client", "broker"))
    return step


def wait(_model: Model, drawn: Numbers) -> Step:
    """A pause of the plan."""
    return {"do": "wait", "ms": drawn.pick((100, 1000, 3000, 10_000))}


def transaction(model: Model, drawn: Numbers) -> Step:
    """A transaction on one topic, from its begin to its end."""
    return {
        "do": "transaction",
        "target": drawn.pick(model.targets()),
        "messages": drawn.pick((3, 1, 0)),
        "acks": drawn.pick((0, 2, 4)),
        "action": drawn.pick(("COMMIT", "COMMIT", "ABORT", "NONE")),
        "think_ms": drawn.pick((40, 40, 3000)),
        "type": drawn.pick(("Shared", "Exclusive", "Key_Shared", "Failover")),
    }


KINDS: tuple[Callable[[Model, Numbers], Step | None], ...] = (
    *[send] * 12,
    *[subscribe] * 6,
    *[create_producer] * 4,
    *[draw_event] * 8,
    *[wait] * 2,
    *[scenario.acknowledge] * 3,
    *[scenario.redeliver] * 3,
    scenario.seek,
    scenario.unsubscribe,
    *[scenario.close_consumer] * 3,
    scenario.close_producer,
    *[transaction] * 2,
    scenario.compact,
)
"""The kinds, repeated by weight."""
