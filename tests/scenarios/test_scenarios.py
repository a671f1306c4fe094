"""Generated plans: reproducible, valid, equal on equal brokers, and different on a broken broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from scenarios.comparison import Difference
from scenarios.connections import Broker, Pace
from scenarios.pairs import Pair
from scenarios.plans import Plan, plan_of_seed, search

from pcli.codec.faults import Fault
from pcli.minibroker import MiniBroker

QUICK = Pace(0.02, 1), Pace(0.02, 0.3)


def test_a_seed_selects_a_plan():
    plan = plan_of_seed(3)
    assert plan == plan_of_seed(3)
    assert plan != plan_of_seed(4)
    assert len(plan.steps) > 5


def test_the_steps_of_a_plan_refer_to_objects_of_earlier_steps():
    for seed in range(10):
        made = {"producer": 0, "consumer": 0, "transaction": 0}
        for step in plan_of_seed(seed).steps:
            for kind in made:
                if step["do"] == {"consumer": "subscribe", "transaction": "begin"}.get(kind, kind):
                    assert step[kind] == made[kind]
                    made[kind] += 1
                elif step.get(kind) is not None:
                    assert step[kind] < made[kind]


def test_a_failing_plan_shrinks():
    simplest: list[Plan] = []

    def check(plan: Plan) -> None:
        if any(step["do"] == "ack" for step in plan.steps):
            simplest.append(plan)
            raise AssertionError

    with pytest.raises(AssertionError):
        search(5, check, shrink=True)
    assert [step["do"] for step in simplest[-1].steps] == ["subscribe", "ack"]


@pytest.fixture
def brokers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def compare(stack: ExitStack, plans: dict[int, Plan], *faults: Fault) -> list[Difference]:
    """Return the differences between two mini-brokers, the second with faults."""
    both = []
    for name, added in (("first", ()), ("second", faults)):
        broker = MiniBroker(clock="manual", faults=added, max_log=0, transactionCoordinatorEnabled=True)
        stack.enter_context(broker)
        both.append(Broker(broker.service_url, broker.http_url, name, broker.clock.advance))
    pair = Pair(*both)

    async def run() -> list[list[Difference]]:
        return await asyncio.gather(*(pair.run(seed, plan, QUICK) for seed, plan in plans.items()))

    return [one for found in asyncio.run(run()) for one in found]


def test_equal_brokers_have_no_differences(brokers):
    assert compare(brokers, {seed: plan_of_seed(seed) for seed in (5, 6, 12)}) == []


TOPIC = {"topics": [{"persistent": True, "partitions": 0}], "policies": []}
CONSUME = [
    {"do": "producer", "producer": 0, "target": (0, -1), "name": "p", "access": "Shared", "schema": None},
    {
        "do": "subscribe",
        "consumer": 0,
        "target": (0, -1),
        "subscription": "s",
        "type": "Exclusive",
        "position": "Earliest",
        "durable": True,
        "permits": 10,
        "priority": 0,
        "compacted": False,
        "schema": None,
    },
    {
        "do": "send",
        "producer": 0,
        "entries": [{"number": 1, "sequence": 0, "batch": 0, "key": None, "chunks": 0, "empty": False}],
        "one_by_one": False,
        "compression": "NONE",
        "delay_ms": 0,
    },
]


def test_a_lost_message_is_a_difference(brokers):
    plan = Plan(**TOPIC, steps=CONSUME)
    [found] = compare(brokers, {1: plan}, Fault("pulsar.type == 'MESSAGE'", "drop"))
    assert (found.area, found.step, found.second) == ("MESSAGE missing", 3, "-")


def test_a_wrong_statistic_is_a_difference(brokers):
    query = {"do": "rest", "method": "GET", "target": (0, -1), "path": "stats"}
    plan = Plan(**TOPIC, steps=[*CONSUME, query])
    found = compare(brokers, {1: plan}, Fault("pulsar.type == 'FLOW'", "drop"))
    areas = {one.area for one in found if one.step == 4}
    assert "GET persistent/TOPIC/stats subscriptions.SUB.consumers[].availablePermits" in areas
