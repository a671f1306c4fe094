"""Generated plans: reproducible, valid, equal on equal brokers, and different on a broken broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from scenarios.comparison import Difference, differences_of
from scenarios.connections import Broker, Pace
from scenarios.pairs import Pair
from scenarios.plans import Plan, plan_of_seed, search
from scenarios.recording import Recording
from scenarios.scalable import plans as scalable
from scenarios.scalable.executor import GRACE_S, ScalableRun

from pcli.codec.faults import Fault
from pcli.codec.proto import pb
from pcli.codec.scalable.segment_name import HASHES
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.reader import FrameReader
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


def compare(stack: ExitStack, plans: dict[int, Plan], *faults: Fault, version: str = "4.2.4") -> list[Difference]:
    """Return the differences between two mini-brokers, the second with faults."""
    both = []
    settings = {"scalableTopicConsumerSessionGracePeriodSeconds": GRACE_S} if version == "5.0.1" else {}
    for name, added in (("first", ()), ("second", faults)):
        broker = MiniBroker(
            clock="manual", faults=added, max_log=0, version=version, transactionCoordinatorEnabled=True, **settings
        )
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


# -- scalable topics ---------------------------------------------------------------------------------------------------


def scalable_plan(seed: int) -> Plan:
    return plan_of_seed(seed, scalable.strategy())


@pytest.fixture(scope="module")
def scalable_steps():
    return [step for seed in range(150) for step in scalable_plan(seed).steps]


def test_plans_with_scalable_topics_draw_every_kind_of_step(scalable_steps):
    drawn = {step["do"] for step in scalable_steps}
    executed = {name.removeprefix("_do_") for name in vars(ScalableRun) if name.startswith("_do_")}
    assert drawn >= executed


def test_plans_with_scalable_topics_change_layouts_and_migrate(scalable_steps):
    paths = {step.get("path", "").partition("/{")[0] for step in scalable_steps}
    assert paths >= {"/split", "/merge", "/rebucket", "/migrate", "/migrate?force=true", "/stats", "?force=true"}


def test_a_failing_plan_with_scalable_topics_shrinks():
    simplest: list[Plan] = []

    def acknowledges(plan: Plan) -> bool:
        return any(step["do"] == "v5_ack" for step in plan.steps)

    def check(plan: Plan) -> None:
        if acknowledges(plan):
            simplest.append(plan)
            raise AssertionError

    seed = next(number for number in range(50) if acknowledges(scalable_plan(number)))
    with pytest.raises(AssertionError):
        search(seed, check, shrink=True, strategy=scalable.strategy())
    assert [step["do"] for step in simplest[-1].steps] == ["v5_consumer", "v5_ack"]


@pytest.mark.parametrize("seed", [4, 6, pytest.param(12, marks=pytest.mark.slow)])
def test_equal_brokers_have_no_differences_with_scalable_topics(brokers, seed):
    assert compare(brokers, {seed: scalable_plan(seed)}, version="5.0.1") == []


SCALABLE = {"topics": [{"persistent": True, "partitions": 0, "segments": 2}], "policies": []}
READ = [
    {
        "do": "v5_consumer",
        "client": 0,
        "topic": 0,
        "kind": "stream",
        "subscription": "s",
        "name": "a",
        "permits": 10,
        "position": "Earliest",
    },
    {"do": "v5_producer", "client": 0, "topic": 0, "name": None, "access": "Shared", "schema": None},
    {
        "do": "v5_send",
        "client": 0,
        "entries": [{"number": 1, "sequence": 0, "batch": 0, "key": "k1", "chunks": 0, "empty": False}],
        "one_by_one": True,
        "compression": "NONE",
        "delay_ms": 0,
        "transaction": None,
    },
    {"do": "v5_ack", "client": 0, "all": True, "which": 0, "transaction": None},
    {"do": "scalable", "method": "POST", "topic": 0, "path": "/split/{active}", "body": None, "which": 0},
]


def test_a_lost_assignment_is_a_difference(brokers):
    fault = Fault("pulsar.type == 'SCALABLE_TOPIC_ASSIGNMENT_UPDATE'", "drop")
    found = compare(brokers, {1: Plan(**SCALABLE, steps=READ)}, fault, version="5.0.1")
    assert ("SCALABLE_TOPIC_ASSIGNMENT_UPDATE missing", 5) in [(one.area, one.step) for one in found]


def layout(*segments: int, epoch: int = 0) -> pb.CommandScalableTopicUpdate:
    """A layout of active segments with equal ranges."""
    size = HASHES // len(segments)
    parts = [
        pb.SegmentInfoProto(
            segment_id=one, hash_start=place * size, hash_end=place * size + size - 1, state=pb.ACTIVE,
            created_at_epoch=epoch, created_at_ms=1,
        )
        for place, one in enumerate(segments)
    ]  # fmt: skip
    return pb.CommandScalableTopicUpdate(session_id=1, dag=pb.ScalableTopicDAG(epoch=epoch, segments=parts))


def assignment(*segments: int) -> pb.CommandScalableTopicAssignmentUpdate:
    """An assignment of whole segments."""
    parts = [
        pb.ScalableAssignedSegment(segment_id=one, hash_start=0, hash_end=HASHES - 1, segment_topic=f"{one}")
        for one in segments
    ]
    return pb.CommandScalableTopicAssignmentUpdate(
        consumer_id=1, assignment=pb.ScalableConsumerAssignment(layout_epoch=0, segments=parts)
    )


def recorded(*steps: list) -> Recording:
    """The record of a connection with the commands of a broker in each step."""
    recording = Recording()
    for recording.step, commands in enumerate(steps, start=1):
        for command in commands:
            [frame] = FrameReader().feed(push_frame(command))
            recording.received(0, frame.data, frame.type)
    return recording


ONE, TWO, THREE = layout(0), layout(1, 2, epoch=1), layout(1, 3, 4, epoch=2)
A, B, BOTH = assignment(0), assignment(1), assignment(0, 1)
RANGES = {f"UPDATE dag.segments.{segment}.hash_{end}" for segment in (1, 2) for end in ("start", "end")}


@pytest.mark.parametrize(
    ("first", "second", "areas"),
    [
        ([[ONE], [TWO], [THREE]], [[ONE, ONE], [TWO], [ONE, TWO, THREE]], set()),
        ([[ONE], [TWO], [THREE]], [[ONE], [TWO, ONE], [THREE]], {"UPDATE missing"}),
        ([[ONE], [TWO], [THREE]], [[ONE], [], [THREE]], {"UPDATE missing"}),
        ([[ONE], [], [THREE]], [[ONE], [TWO], [THREE]], {"UPDATE extra"}),
        ([[ONE], [TWO], [THREE]], [[ONE], [layout(2, 1, epoch=1)], [THREE]], RANGES),
        ([[ONE], [TWO], [THREE]], [[ONE], [layout(1, 3, epoch=1)], [THREE]], {"UPDATE missing", "UPDATE extra"}),
        ([[A], [BOTH], [B]], [[A], [], [B]], {"ASSIGNMENT_UPDATE missing"}),
        ([[A], [BOTH], [B]], [[A], [BOTH, BOTH], [B]], {"ASSIGNMENT_UPDATE extra"}),
        ([[A], [BOTH], [B]], [[A], [A], [B]], {"ASSIGNMENT_UPDATE missing", "ASSIGNMENT_UPDATE extra"}),
        ([[A], [BOTH], [B]], [[A], [], [BOTH, B]], {"ASSIGNMENT_UPDATE step"}),
    ],
)
def test_a_wrong_or_missing_layout_or_assignment_is_a_difference(first, second, areas):
    found = differences_of(recorded(*first), recorded(*second))
    assert {one.area.removeprefix("SCALABLE_TOPIC_") for one in found} == areas
