"""Invariants of the end of a run, and of the programs themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.violation import Violation, at

if TYPE_CHECKING:
    from simulation.execution import Run

__all__ = ["no_activity_after_the_last_acknowledgement", "no_program_fails"]

_TRAFFIC = frozenset({"SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES"})


def no_activity_after_the_last_acknowledgement(run: Run) -> Iterator[Violation]:
    """When everything is acknowledged and no application sends, no message, permit or acknowledgement passes.

    Keep-alive, lookups and retries of refused producers and consumers continue; a new consumer sends FLOW.
    """
    for frame in run.history.frames:
        if frame.index < run.quiet_from:
            continue
        run.checks["no_activity_after_the_last_acknowledgement"] += 1
        new = frame.session is not None and frame.session.response.index >= run.quiet_from
        if frame.name in _TRAFFIC and not (new and frame.name == "FLOW"):
            yield at("no_activity_after_the_last_acknowledgement", frame, f"{frame.session}")
            return


def no_program_fails(run: Run) -> Iterator[Violation]:
    """Neither the broker nor a client raises an exception that is a bug (Broker.failures).

    A run that does not come to rest (EndlessRun) violates this invariant, too.
    """
    run.checks["no_program_fails"] += 1 + len(run.clients)
    for fault in run.network.broker.failures:
        yield Violation("no_program_fails", run.history.step, f"the broker raised {type(fault).__name__}: {fault}")
    for client in run.clients:
        for fault in client.failures[:1]:
            yield Violation("no_program_fails", run.history.step, f"a client raised {type(fault).__name__}: {fault}")
