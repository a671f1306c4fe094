"""Invariants of the end of a run, and of the programs themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.violation import Violation, at
from simulation.sessions import ConsumerSession

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.history import WireFrame

_TRAFFIC = frozenset({"SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES"})


def no_activity_after_the_last_acknowledgement(run: Run) -> Iterator[Violation]:
    """When everything is acknowledged and no application sends, no message, permit or acknowledgement passes.

    Keep-alive, lookups and retries of refused producers and consumers continue; a new consumer sends FLOW.

    The batch within which a non-durable consumer starts is exempt. If batch index acks are off, the client never
    acknowledges it, because its first messages are not delivered; the client requests its redelivery after each ack
    timeout (verified with the Java client 4.2.4).
    """
    name = "no_activity_after_the_last_acknowledgement"
    for frame in run.history.frames:
        if frame.index < run.quiet_from:
            continue
        run.checks[name] += 1
        new = frame.session is not None and frame.session.response.index >= run.quiet_from
        if frame.name not in _TRAFFIC or (new and frame.name == "FLOW"):
            continue
        if _concerns_divided_batch(frame):
            run.exempt[name] += 1
            continue
        yield at(name, frame, f"{frame.session}")
        return


def _concerns_divided_batch(frame: WireFrame) -> bool:
    """Return whether a frame redelivers the batch within which its consumer starts, or returns its permits."""
    batch = frame.session.divided_batch if isinstance(frame.session, ConsumerSession) else None
    if batch is None:
        return False
    if frame.name == "MESSAGE":
        return (frame.body.message_id.ledgerId, frame.body.message_id.entryId) == batch
    if frame.name == "REDELIVER_UNACKNOWLEDGED_MESSAGES":
        # Consumers of Exclusive and Failover subscriptions request the redelivery of all unacknowledged messages.
        wanted = [batch] if frame.session.individual else []
        return [(one.ledgerId, one.entryId) for one in frame.body.message_ids] == wanted
    return frame.name == "FLOW"


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
