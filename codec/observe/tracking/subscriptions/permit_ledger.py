"""The permits of a consumer, as the broker counts them (Consumer.java).

Rules of this file
1. Permits are messages. FLOW adds permits. MESSAGE uses one permit for each message in the batch that its ack set does
   not exclude; a chunk uses one permit. The broker sends whole entries while at least one permit is left, so the
   balance may be negative.
2. A session begins with 0 permits. If its SUBSCRIBE is missing, the balance is only relative.
3. A client requests at most the size of its receiver queue. A balance above the session's first FLOW shows that permits
   were granted twice. A client may also return permits for messages that an ack set excludes, so these permits do not
   count as surplus. A queue that grows (autoScaledReceiverQueueSize) cannot be distinguished from permits granted
   twice.
4. The broker parks permits granted while a consumer is blocked on unacked messages, and no frame reports this. The
   block is inferred from missing deliveries (dispatch_stalls.py); then all FLOWs after its last MESSAGE are parked.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.tracking.records.client_records import PermitLedger

MAX_POINTS: Final = 512
"""Maximum number of points of the balance over time."""


def begin(time_ns: int, frame: int, *, known: bool) -> PermitLedger:
    """Return the ledger of a new session. ``known`` states whether its SUBSCRIBE was captured."""
    ledger = PermitLedger(known=known)
    if known:
        ledger.exhausted.begin(time_ns, frame)
    return ledger


def flow(ledger: PermitLedger, permits: int, time_ns: int, frame: int, unacked: int = -1) -> None:
    """Process a FLOW; ``unacked`` is the number of messages that the consumer holds, or -1 if not counted."""
    ledger.flows += 1
    ledger.flowed += permits
    ledger.unspent += permits
    ledger.balance += permits
    ledger.last_flow_ns, ledger.last_flow_frame = time_ns, frame
    if ledger.flows == 1:
        ledger.queue, ledger.scaled = permits, permits == 1
        if ledger.exhausted.since_ns >= 0:
            ledger.before_flow_ns = time_ns - ledger.exhausted.since_ns
    elif ledger.known:
        _compare(ledger, time_ns, frame, unacked)
    if 0 < ledger.balance <= permits:
        ledger.able_ns = time_ns
        ledger.exhausted.end(time_ns, frame)
    if ledger.corrupt.count:
        lost = max(0, ledger.queue - ledger.balance)
        ledger.corrupt_returned = max(ledger.corrupt_returned, ledger.corrupt.count - lost)
    ledger.changes += 1
    if not ledger.changes % ledger.stride:
        _point(ledger, time_ns, frame)


def _compare(ledger: PermitLedger, time_ns: int, frame: int, unacked: int) -> None:
    """Compare the balance with the size of the receiver queue."""
    used = ledger.delivered - ledger.grown_at >= ledger.queue
    if ledger.scaled and used and ledger.queue < ledger.balance <= 2 * ledger.queue:
        ledger.queue, ledger.grown_at = 2 * ledger.queue, ledger.delivered
    queue = ledger.queue
    surplus = ledger.balance - queue - ledger.excluded
    if surplus > 0:
        ledger.doubled.add(time_ns, frame, sample=f"balance {ledger.balance}, queue {queue}")
        ledger.surplus = max(ledger.surplus, surplus)
    elif unacked >= 0 and queue > 1 and (queue - ledger.balance - unacked) * 2 > queue:
        ledger.short.add(time_ns, frame, sample=f"balance {ledger.balance}, {unacked} held, queue {queue}")


def spend(ledger: PermitLedger, cost: int, excluded: int, time_ns: int, frame: int) -> None:
    """Process a MESSAGE that uses ``cost`` permits; ``excluded`` messages were acknowledged before."""
    before = ledger.balance
    ledger.balance = balance = before - cost
    ledger.delivered += cost
    ledger.unspent = 0
    if excluded:
        ledger.excluded += excluded
    if balance <= 0:
        if not ledger.flows:
            ledger.known = False  # its FLOWs are not in the capture
        if ledger.known:
            ledger.exhausted.begin(time_ns, frame)
            if balance < 0:
                ledger.overshoot.add(time_ns, frame)
        if balance < ledger.lowest:
            ledger.lowest, ledger.lowest_frame = balance, frame
    ledger.changes += 1
    if not ledger.changes % ledger.stride:
        _point(ledger, time_ns, frame)


def corrupt(ledger: PermitLedger, messages: int, time_ns: int, frame: int) -> None:
    """Count a MESSAGE with a wrong checksum: its client cannot read the number of messages."""
    ledger.corrupt.add(time_ns, frame, count=messages)


def _point(ledger: PermitLedger, time_ns: int, frame: int) -> None:
    ledger.points.append((time_ns, frame, ledger.balance))
    if len(ledger.points) >= MAX_POINTS:
        del ledger.points[::2]
        ledger.stride *= 2
