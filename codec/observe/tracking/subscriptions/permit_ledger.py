"""The permits of a consumer, as the broker counts them (Consumer.java).

Rules of this file
1. Permits are messages: FLOW adds, a MESSAGE takes the size of its batch less what its ack set excludes; a chunk takes
   one. The broker sends an entry whole as soon as one permit is there, so a balance below 0 is normal.
2. A session begins with none. What happens in it is known from its SUBSCRIBE on; without that the balance only says by
   how much it has changed.
3. A client asks for no more than its receiver queue holds: a balance above the first FLOW of the session says that
   permits were given twice. Messages that an ack set excluded may come back as permits, too, and are allowed for. A
   queue that the client lets grow (autoScaledReceiverQueueSize) looks the same.
4. Permits that come while a consumer is blocked on unacked messages are parked, and no frame says so. What shows that
   it is blocked is the absence of deliveries (silence.py); then all FLOWs behind its last MESSAGE are parked.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.tracking.records.client_records import PermitLedger

__all__ = ["MAX_POINTS", "begin", "corrupt", "flow", "spend"]

MAX_POINTS: Final = 512
"""Points of a balance over time."""


def begin(time_ns: int, frame: int, *, known: bool) -> PermitLedger:
    """The ledger of a new session; ``known``: its SUBSCRIBE was seen."""
    ledger = PermitLedger(known=known)
    if known:
        ledger.exhausted.begin(time_ns, frame)
    return ledger


def flow(ledger: PermitLedger, permits: int, time_ns: int, frame: int, unacked: int = -1) -> None:
    """A FLOW; ``unacked``: messages that the consumer holds, -1: nobody counts them."""
    ledger.flows += 1
    ledger.flowed += permits
    ledger.unspent += permits
    ledger.balance += permits
    ledger.last_flow_ns, ledger.last_flow_frame = time_ns, frame
    if ledger.flows == 1:
        ledger.queue = permits
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
    """See whether the client has asked for what its queue has room for."""
    queue = ledger.queue
    surplus = ledger.balance - queue - ledger.excluded
    if surplus > 0:
        ledger.doubled.add(time_ns, frame, sample=f"balance {ledger.balance}, queue {queue}")
        ledger.surplus = max(ledger.surplus, surplus)
    elif unacked >= 0 and queue > 1 and (queue - ledger.balance - unacked) * 2 > queue:
        ledger.short.add(time_ns, frame, sample=f"balance {ledger.balance}, {unacked} held, queue {queue}")


def spend(ledger: PermitLedger, cost: int, excluded: int, time_ns: int, frame: int) -> None:
    """A MESSAGE with ``cost`` messages, besides ``excluded`` ones that were acknowledged already."""
    before = ledger.balance
    ledger.balance = balance = before - cost
    ledger.delivered += cost
    ledger.unspent = 0
    if excluded:
        ledger.excluded += excluded
    if balance <= 0:
        if not ledger.flows:
            ledger.known = False  # it must have asked for it: its FLOWs are not in the capture
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
    """The checksum of a MESSAGE with so many messages is wrong: the client cannot know how many those were."""
    ledger.corrupt.add(time_ns, frame, count=messages)


def _point(ledger: PermitLedger, time_ns: int, frame: int) -> None:
    ledger.points.append((time_ns, frame, ledger.balance))
    if len(ledger.points) >= MAX_POINTS:
        del ledger.points[::2]
        ledger.stride *= 2
