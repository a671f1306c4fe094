"""Generated scenarios on the mini-broker: plans are reproducible, and the diagnosis agrees with the expectation."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scenarios.connections import Broker
from scenarios.diagnosis.analysis import Analysis, Found, analysers
from scenarios.diagnosis.checks import Outcome, check
from scenarios.diagnosis.command import outcomes_of_seed
from scenarios.diagnosis.drawing import plan_of_seed, recipes_for
from scenarios.diagnosis.execution import Ran
from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import Plan, Problem, Track
from scenarios.diagnosis.trace_checks import differences

from pcli.codec.observe.rules import RULES
from pcli.minibroker import MiniBroker

pytest.importorskip("pulsar", reason="the scenarios use the Python client")

SEEDS = range(20)
AT_ONCE = 6
QUICK = recipes_for(quick=True, sniffing=False, clients=["python"], networks=False, settings=False, restarts=False)


def test_a_seed_selects_a_plan():
    steps = [[track.steps for track in plan_of_seed(seed, QUICK).tracks] for seed in (3, 3, 4)]
    assert steps[0] == steps[1] != steps[2]


def test_each_block_of_seeds_uses_all_recipes():
    names = {plan_of_seed(seed, QUICK).recipes[0].removesuffix(" (near miss)") for seed in range(len(QUICK))}
    assert names == {one.name for one in QUICK}


def test_recipes_name_existing_rules():
    assert {rule for one in recipes_for() for rule in one.rules} <= set(RULES)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Iterator[dict[int, Future[tuple[list[str], list[Outcome]]]]]:
    """The outcomes of all seeds, which run at the same time."""
    folder = tmp_path_factory.mktemp("scenarios")
    with MiniBroker() as broker, analysers(2) as pool, ThreadPoolExecutor(AT_ONCE) as threads:
        to = Broker(broker.service_url, broker.http_url, "mini-broker")
        yield {
            seed: threads.submit(
                outcomes_of_seed, seed, QUICK, lambda _: nullcontext(to), folder / str(seed), pool, sniffing=False
            )
            for seed in SEEDS
        }
    assert broker.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_diagnosis_agrees_with_the_expectation(seed, results):
    recipes, outcomes = results[seed].result()
    assert [one for one in outcomes if one.kind != "right"] == [], recipes
    assert outcomes


def outcomes(
    problems: list[Problem], findings: list[Found], features: tuple[str, ...] = (), log: tuple[dict[str, Any], ...] = ()
) -> list[str]:
    """Return the kinds of the outcomes for a track with these features."""
    track = Track("a", "public/a", None, features=set(features))
    for problem in problems:
        track.expect(problem)
    plan = Plan(0, [], [track], (), own_broker=False, ends_open=False)
    return [one.kind for one in check(plan, Ran(Path(), 0, Log(log)), Analysis(findings, [], []))]


def found(rule: str, severity: str = "warning", culprit: str = "application", text: str = "7 messages") -> Found:
    """Return a finding about the track's topic."""
    return Found(rule, severity, culprit, "certain", "likely", "", {"topic": "persistent://public/a/t"}, text)


def test_outcomes_of_a_problem():
    problem = Problem("never-acked", {"topic": "persistent://public/a/t"}, "application", (7, 7))
    assert outcomes([problem], [found("never-acked")]) == ["right"]
    assert outcomes([problem], []) == ["missed"]
    assert outcomes([problem], [found("never-acked", culprit="broker")]) == ["wrong cause"]
    assert outcomes([problem], [found("never-acked", text="8 messages")]) == ["wrong count"]


def test_unexpected_findings():
    assert outcomes([], [found("slow-answers", "note")]) == []
    assert outcomes([], [found("slow-answers", "warning")]) == ["false"]
    assert outcomes([], [found("redelivered-after-nack", "note")]) == ["false"]  # nothing was rejected
    assert outcomes([], [found("redelivered-after-nack", "note")], ("nack",)) == []


def test_findings_that_the_logs_show():
    twice = replace(found("resend-stored"), count=1)
    message = {"type": "received", "consumer": "a-c", "producer": "a-p", "n": 3}
    again = ({**message, "t": 1, "message_id": "7:1:0:-1"}, {**message, "t": 2, "message_id": "8:0:1:-1"})
    assert outcomes([], [twice], ("cut",), again) == ["right"]
    assert outcomes([], [twice], ("cut",), again[:1]) == ["false"]
    slow = Found("dispatcher-silent", "warning", "broker", "certain", "likely", "", twice.subject, "7 messages")
    stored = {"t": 0, "type": "produced", "producer": "a-p", "n": 3, "message_id": "0:1:0:-1"}
    assert outcomes([], [slow], (), (stored, {**again[0], "t": 6})) == ["right"]
    assert outcomes([], [slow], (), (stored, again[0])) == ["false"]


def traced(acked: bool, deliveries: int = 1) -> list[str]:
    """Return what differs for a message that an application received and acknowledged once."""
    log = Log(
        {"t": time, "type": kind, "producer": "p", "consumer": "c", "n": 3, "message_id": "7:12:-1:-1"}
        for time, kind in enumerate(("produced", "received", "acked"))
    )
    lifecycle = {"message_id": "7:12", "topic": "persistent://public/a/t", "chunks": [], "doubts": []}
    lifecycle |= {"deliveries": [{"consumer": "c"}] * deliveries, "unacked": {"s": 0 if acked else 1}}
    plan = Plan(0, [], [Track("a", "public/a", None)], (), own_broker=False, ends_open=False)
    return [name for name, texts in differences(plan, log, [lifecycle]).items() if texts]


def test_the_trace_agrees_with_the_logs():
    assert traced(acked=True) == []
    assert traced(acked=False) == ["trace acks"]
    assert traced(acked=True, deliveries=0) == ["trace deliveries"]
