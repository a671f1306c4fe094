"""The run of a plan, and its outcome."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

from scenarios.plans import Plan
from simulation.execution import Run
from simulation.invariants import Violation
from simulation.invariants.tracker import FrameTracker
from simulation.network import Network
from simulation.scalable_execution import ScalableRun
from simulation.scalable_step_kinds import is_scalable


@dataclass
class Outcome:
    """The result of one run."""

    violations: list[Violation]
    frames: int
    events: Counter[str]
    digest: str
    """A hash of all frames and their times."""
    checks: Counter[str]
    exempt: Counter[str]


def run_plan(plan: Plan, seed: int, tap: Any = None) -> tuple[Outcome, Run]:
    """Run a plan. ``tap`` receives the bytes (codec.capture.tap)."""
    kind = ScalableRun if is_scalable(plan) else Run
    run = kind(plan, seed, Network(kind.settings(plan), seed))
    if tap is not None:
        run.history.taps.append(tap)
    run.observed = FrameTracker()
    run.history.observers.append(run.observed)
    run.execute()
    digest = hashlib.sha256()
    for one in run.history.frames:
        digest.update(b"%d %d %d %s " % (one.time, one.link, one.from_client, one.name.encode()))
        if one.frame is not None:
            digest.update(one.frame.data)
    frames = sum(one.frame is not None for one in run.history.frames)
    return Outcome(run.violations, frames, run.events, digest.hexdigest(), run.checks, run.exempt), run
