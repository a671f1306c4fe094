"""The permit ledger of a consumer as plain values.

Rules of this file
1. A ledger belongs to a consumer's current or last session. Counts include only captured frames. Values that need all
   frames (balance, lowest, exhausted, …) are None if frames are missing; "unknown" contains the reason.
2. If no frames are missing, balance = flowed − delivered, and the broker's `availablePermits` is balance − parked.
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.text_format import epoch_text
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, PermitLedger
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS

_RELATIVE: Final = ("queue", "balance", "parked", "lowest", "lowest_frame", "exhausted", "exhausted_seconds")
"""Values that are wrong if a frame is missing."""


def permit_figures(consumer: ConsumerRecord, now_ns: int) -> dict[str, Any]:
    """Return the ledger at a time in ns since 1970.

    ``points`` is the balance over time: objects with ``time`` (seconds since 1970, as text), ``frame`` and ``balance``.
    In a long session it contains every ``stride``-th change. Lists of frames contain the first occurrences.
    """
    ledger, session = consumer.permits, consumer.session
    found: dict[str, Any] = {
        "stream": None if session is None else session.stream,
        "consumer_id": None if session is None else session.id,
        "sessions": consumer.sessions,
        "attached": session is not None and not session.end,
        "queue": ledger.queue,
        "flows": ledger.flows,
        "flowed": ledger.flowed,
        "delivered": ledger.delivered,
        "balance": ledger.balance,
        # No frame reports parked permits. All permits granted since the inferred block are assumed to be parked.
        "parked": ledger.unspent if consumer.blocked.since_ns >= 0 else 0,
        "lowest": ledger.lowest,
        "lowest_frame": ledger.lowest_frame or None,
        **_spent(ledger, now_ns),
        "points": [
            {"time": epoch_text(time_ns), "frame": frame, "balance": balance}
            for time_ns, frame, balance in ledger.points
        ],
        "stride": ledger.stride,
    }
    reason = why_unknown(consumer)
    if reason:
        found |= dict.fromkeys(_RELATIVE)
        found["unknown"] = dict.fromkeys(_RELATIVE, reason)
    return found


def why_unknown(consumer: ConsumerRecord) -> str:
    """Return why values that need all frames are unknown, or an empty string."""
    return next((text for word, text in DOUBTS.items() if word in consumer.doubts - {"end"}), "")


def exhaustion(ledger: PermitLedger, now_ns: int) -> tuple[int, int]:
    """Return how often and how long (ns) a consumer had no permits, without the time before its first FLOW."""
    exhausted = ledger.exhausted
    if not ledger.flows:
        return 0, 0
    count, total_ns = exhausted.count, exhausted.total_ns
    if exhausted.since_ns >= 0:
        total_ns += now_ns - exhausted.since_ns
    if ledger.before_flow_ns >= 0:
        count, total_ns = count - 1, total_ns - ledger.before_flow_ns
    return count, total_ns


def _spent(ledger: PermitLedger, now_ns: int) -> dict[str, Any]:
    """Return the number and duration of times without permits, and the faults."""
    count, total_ns = exhaustion(ledger, now_ns)
    return {
        "exhausted": count,
        "exhausted_seconds": total_ns / 1e9,
        "overshoot": ledger.overshoot.count,
        "overshoot_frames": ledger.overshoot.frames,
        "doubled": ledger.doubled.count,
        "doubled_frames": ledger.doubled.frames,
        "corrupt": ledger.corrupt.count,
        "corrupt_returned": ledger.corrupt_returned,
        "corrupt_frames": ledger.corrupt.frames,
    }
