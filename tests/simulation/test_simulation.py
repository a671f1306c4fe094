"""Simulated runs: reproducible, and without violations."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any
from unittest.mock import Mock

import pytest
from scenarios.plans import Plan
from scenarios.simplification import simplest_failing
from simulation.command import write_capture
from simulation.events import RESTARTS
from simulation.execution import MIN_FRAMES
from simulation.invariants import INVARIANTS, Violation
from simulation.links import Endpoint
from simulation.mutants import MUTANTS
from simulation.network import Network
from simulation.outcomes import run_plan
from simulation.plans import MIN_EVENTS, MIN_MESSAGES, plan_of_seed, strategy
from simulation.step_kinds import EVENTS

from pcli.codec.capture.frames import CapturedFrame
from pcli.codec.capture.reading import read_capture
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.minibroker.settings import Settings

SEEDS = range(30)
TOPIC = {"persistent": True, "partitions": 0}
SEND = {"do": "send", "producer": 0, "count": 5, "keys": 0, "delay_ms": 0}
WAIT = {"do": "wait", "ms": 1000}
SEEK = {"do": "seek", "consumer": 0, "to": "entry", "which": 3}
UNSUBSCRIBE = {"do": "unsubscribe", "consumer": 0}


def subscribe() -> dict[str, Any]:
    """A consumer that acknowledges nothing before the end of the run."""
    return {
        "do": "subscribe", "consumer": 0, "client": 0, "target": (0, -1), "subscription": "s", "type": "Shared",
        "position": "Earliest", "durable": True, "priority": 0, "compacted": False, "ack": 0, "nack": 0,
        "cumulative": False, "queue": 10, "group_ms": 0, "batch_acks": True, "receipts": False, "ack_timeout_ms": 0,
        "out_of_order": False,
    }  # fmt: skip


def producer(number: int = 0, access: str = "Shared", *, exact: bool = False) -> dict[str, Any]:
    """A producer without batches."""
    return {
        "do": "producer", "producer": number, "client": 1, "target": (0, -1), "name": None, "access": access,
        "exact": exact, "batch": 1, "batcher": "DEFAULT",
    }  # fmt: skip


def event(kind: str, which: int = 0, **more: Any) -> dict[str, Any]:
    """An event; ``which`` selects the kind of a restart."""
    return {"do": "event", "event": kind, "which": which, "ms": 50, **more}


def violations(*steps: dict[str, Any], seed: int) -> list[str]:
    """Return the violations of a plan."""
    return [str(one) for one in run_plan(Plan([TOPIC], [], list(steps)), seed)[0].violations]


@pytest.fixture(scope="module")
def outcomes():
    return [run_plan(plan_of_seed(seed), seed)[0] for seed in SEEDS]


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_violates_no_invariant(seed):
    assert run_plan(plan_of_seed(seed), seed)[0].violations == []


@pytest.mark.slow
def test_no_seed_violates_an_invariant(outcomes):
    assert [(seed, str(one)) for seed, outcome in zip(SEEDS, outcomes) for one in outcome.violations] == []


@pytest.mark.slow
def test_every_seed_has_enough_frames_and_events(outcomes):
    assert min(one.frames for one in outcomes) >= MIN_FRAMES
    assert min(one.events.total() for one in outcomes) >= MIN_EVENTS


@pytest.mark.slow
def test_the_seeds_contain_every_event_and_every_invariant_has_something_to_check(outcomes):
    events, checks = Counter(), Counter()
    for one in outcomes:
        events.update(one.events)
        checks.update(one.checks)
    assert events.keys() == {*EVENTS, *RESTARTS, "split", "merge", "rebucket"}
    assert [one.__name__ for one in INVARIANTS if not checks[one.__name__]] == []


@pytest.mark.parametrize("seed", [0, 10, 15, 19, 20])
def test_an_application_acknowledges_messages_of_a_subscription_that_was_created_again(seed):
    """The response to UNSUBSCRIBE is lost with the broker, and the limit delays the second deliveries."""
    limit = event("policy", policy="maxUnackedMessagesOnConsumer", value=3)
    steps = subscribe(), producer(), SEND, SEND, SEND, WAIT, limit, UNSUBSCRIBE, event("restart", 1)
    assert violations(*steps, seed=seed) == []


@pytest.mark.parametrize("seed", [2, 4, 8, 11, 12])
def test_a_seek_without_a_response_can_be_restored(seed):
    """The broker is killed after it has stored the position of a SEEK and before its response."""
    assert violations(subscribe(), producer(), SEND, WAIT, event("restart", 2), SEEK, seed=seed) == []


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_the_policies_of_a_plan_survive_a_kill_in_the_first_write(seed):
    steps = event("restart", 2), producer(exact=True), WAIT
    broker = run_plan(Plan([TOPIC], [], list(steps)), seed)[1].network.broker
    assert broker.topics["persistent://public/default/t0"].effective("brokerDeduplicationEnabled")


def test_a_topic_with_an_exclusive_producer_is_filled():
    steps = [producer(0, "Exclusive"), WAIT, *[event("policy", policy="maxUnackedMessagesOnConsumer", value=0)] * 5]
    assert run_plan(Plan([TOPIC], [], steps), 0)[0].frames >= MIN_FRAMES


def test_the_output_of_a_timer_precedes_bytes_that_arrive_at_the_same_time():
    network = Network(Settings(), 0)
    ignored = Mock(spec=Endpoint)
    link = network.connect(ignored, None)
    network.run(10)
    due = network.now + 5
    network.at(due, lambda: network.received(link, push_frame(pb.CommandConnect(client_version="c"))))
    network.change(lambda broker: broker.call_later(5, lambda: link.broker_connection.send_command(pb.CommandPing())))
    network.run(5)
    assert [(one.time, one.name) for one in network.history.frames[:2]] == [(due, "PING"), (due, "CONNECT")]


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_mutant_replaces_a_function_that_exists(name):
    with MUTANTS[name].applied():
        pass


def test_a_seed_determines_every_frame():
    first, second = (run_plan(plan_of_seed(7), 7)[0] for _ in range(2))
    assert first.digest == second.digest
    assert first.digest != run_plan(plan_of_seed(8), 8)[0].digest


def test_a_plan_contains_enough_events_and_messages():
    for seed in range(10):
        steps = plan_of_seed(seed).steps
        assert sum(step["do"] == "event" for step in steps) >= MIN_EVENTS
        assert sum(step["count"] for step in steps if step["do"] == "send") >= MIN_MESSAGES


@pytest.mark.parametrize("kind", ["producer", "send", "subscribe", "transaction", "wait"])
def test_every_choice_of_a_step_has_several_results(kind):
    """A step that uses more numbers than it receives has the first option of its last choices in every plan."""
    found = defaultdict(set)
    for step in (step for seed in SEEDS for step in plan_of_seed(seed).steps if step["do"] == kind):
        for name, value in step.items():
            found[name].add(value)
    constant = {"do", "schema"} if kind == "producer" else {"do"}
    assert {name for name, values in found.items() if len(values) == 1} == constant


def test_the_capture_of_a_seed_contains_its_frames(tmp_path):
    path = tmp_path / "seed.pcapng"
    write_capture(7, plan_of_seed(7), path)
    with path.open("rb") as file:
        captured = sum(isinstance(one, CapturedFrame) for one in read_capture([("seed", file)]))
    assert captured == run_plan(plan_of_seed(7), 7)[0].frames


def test_a_failing_plan_is_reduced_to_the_steps_that_are_necessary():
    async def fails(plan: Plan) -> list[Violation]:
        kinds = [step["do"] for step in plan.steps]
        return [Violation("test", len(kinds), "")] if {"producer", "subscribe"} <= set(kinds) else []

    plan, _ = simplest_failing(fails, 7, 60, strategy(), at_once=1)
    assert sorted(step["do"] for step in plan.steps) == ["producer", "subscribe"]
