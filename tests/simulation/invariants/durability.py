"""Invariant of the starts of a killed broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.subscription_replay import SubscriptionReplay, TransactionEnds
from simulation.invariants.violation import Violation, at

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.history import WireFrame


def confirmed_state_survives_a_kill(run: Run) -> Iterator[Violation]:
    """A start restores every confirmed acknowledgement of every durable subscription, and none that was never received.

    If all changes were written before the kill, it restores every acknowledgement. Otherwise one without a response can
    be restored or not. So can one in a transaction whose commit was requested, and a seek without a response.
    `every_receipt_is_a_stored_message` checks the entries.
    """
    ends = TransactionEnds(run.history)
    for log in run.history.subscriptions:
        if not log.durable or not log.is_persistent:
            continue
        replay = SubscriptionReplay(run.history, log, ends)
        for frame in replay.walk():
            if frame.name != "restored":
                continue
            if replay.seeking:
                run.exempt["confirmed_state_survives_a_kill"] += len(replay.entries)
                continue
            run.checks["confirmed_state_survives_a_kill"] += len(replay.entries)
            if wrong := _wrong(replay, frame):
                yield at("confirmed_state_survives_a_kill", frame, f"{log}: {wrong}")
                break


def _wrong(replay: SubscriptionReplay, frame: WireFrame) -> str:
    """Return what is wrong with a restored cursor, or an empty string."""
    restored = frame.body
    if restored is None:
        return "" if replay.log.ended is frame else "it does not exist any more"
    required = replay.confirmed
    if restored.complete:
        required = required | replay.bits | dict.fromkeys(replay.acked, 0)
    for offset, left in required.items():
        if offset >= restored.start and offset not in restored.acked and restored.bits.get(offset, -1) & ~left:
            return f"the acknowledgement of entry {offset} was confirmed or written, and is lost"
    for offset in range(replay.start, len(replay.entries)):
        if offset < restored.start or offset in restored.acked:
            entry = replay.entries[offset]
            if not replay.is_acked(offset) and replay.is_readable(entry) and offset not in replay.in_transactions:
                return f"entry {entry.position} is acknowledged, although no consumer acknowledged it"
    return ""
