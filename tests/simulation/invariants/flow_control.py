"""Invariants of flow control: permits, and limits on unacknowledged messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.subscription_replay import SubscriptionReplay, TransactionEnds
from simulation.invariants.violation import Violation, at

from pcli.codec.wire.bits import set_of

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.history import WireFrame
    from simulation.sessions import ConsumerSession, SubscriptionLog


def messages_of(frame: WireFrame) -> int:
    """Return the number of messages that a MESSAGE uses permits for."""
    count = 1 if frame.contents is None else frame.contents.count
    if frame.body.ack_set:
        return (set_of(frame.body.ack_set) & (1 << count) - 1).bit_count()
    return count


def permits_are_not_exceeded(run: Run) -> Iterator[Violation]:
    """A consumer receives messages only while it has permits, except the rest of the last read.

    A read takes at most one entry per permit, and all its entries are sent in the same turn, so batches can exceed the
    permits (broker-semantics.md, 4.5).
    """
    for session in run.history.consumers:
        permits = left_in_read = 0
        turn = -1
        for frame in session.frames:
            if frame.name == "FLOW":
                permits += frame.body.messagePermits
            elif frame.name == "MESSAGE":
                run.checks["permits_are_not_exceeded"] += 1
                if frame.turn != turn:
                    turn, left_in_read = frame.turn, 0
                if permits > 0:
                    left_in_read = max(left_in_read, permits)
                if left_in_read <= 0:
                    yield at("permits_are_not_exceeded", frame, f"{session} has {permits} permits")
                    break
                left_in_read -= 1
                permits -= messages_of(frame)


def unacked_limits_are_respected(run: Run) -> Iterator[Violation]:
    """A consumer that has reached maxUnackedMessagesPerConsumer receives nothing until half of it is acknowledged.

    For a subscription that has reached maxUnackedMessagesPerSubscription no entries are read until it is below half of
    it; entries that were read before are sent. So are those that an aborted transaction has acknowledged: they are
    redelivered, also if they are after the read position since a seek.
    The turn in which the limit is reached may exceed it (broker-semantics.md, 4.7).
    """
    ends = TransactionEnds(run.history)
    for log in run.history.subscriptions:
        if log.is_persistent and any(session.individual for session in log.sessions):
            yield from _first_excess(run, log, ends)


class _Limited:
    """A limit on unacknowledged messages, and whether it is reached."""

    def __init__(self) -> None:
        self.limit = 0
        self._full_since = -1
        """The turn in which the limit was reached, or -1."""

    def update(self, messages: int, enough: int, turn: int) -> bool:
        """Set the number of messages, and return whether they have now reached the limit.

        At ``enough`` messages or fewer the limit is not reached any more.
        """
        if self.limit <= 0 or messages <= enough:
            self._full_since = -1
        elif messages >= self.limit and self._full_since < 0:
            self._full_since = turn
            return True
        return False

    def is_full(self, turn: int) -> bool:
        """Return whether the limit was reached in an earlier turn."""
        return 0 <= self._full_since < turn


def _first_excess(run: Run, log: SubscriptionLog, ends: TransactionEnds) -> Iterator[Violation]:
    """Yield the first violation on a subscription.

    A change of a policy has an effect at the next delivery. An acknowledgement in a transaction releases its entry.
    """
    name = "unacked_limits_are_respected"
    replay = SubscriptionReplay(run.history, log, ends)
    sizes: dict[int, int] = {}
    limits: dict[ConsumerSession, _Limited] = {}
    whole, read_position = _Limited(), 0
    for frame in log.frames:
        session, turn = frame.session, frame.turn
        if frame.name == "MESSAGE" and frame.entry is not None and session.individual:
            one = limits.setdefault(session, _Limited())
            one.limit, whole.limit = frame.limits
            if one.is_full(turn):
                yield at(name, frame, f"{session} has reached its limit of {one.limit} unacknowledged messages")
                return
            is_unread = frame.entry.offset >= read_position > 0 and frame.entry.offset not in replay.in_transactions
            if whole.is_full(turn) and is_unread:
                yield at(
                    name,
                    frame,
                    f"{frame.entry.position} was not read yet, but {log} has reached its limit of {whole.limit}",
                )
                return
            read_position = max(read_position, frame.read_position)
            sizes[frame.entry.offset] = messages_of(frame)
        replay.see(frame)
        held = {
            offset: replay.bits.get(offset, -1) for offset in replay.pending if offset not in replay.in_transactions
        }
        if frame.name == "REDELIVER_UNACKNOWLEDGED_MESSAGES" and session in limits:
            limits[session] = _Limited()
        for consumer, limited in limits.items():
            count = sum(
                _left(sizes, offset, bits) for offset, bits in held.items() if replay.pending[offset] is consumer
            )
            run.checks[name] += limited.update(count, limited.limit // 2, turn)
        count = sum(_left(sizes, offset, bits) for offset, bits in held.items())
        run.checks[name] += whole.update(count, whole.limit // 2 - 1, turn)
        if not replay.attached or frame.name == "policy":
            limits, whole, read_position = {}, _Limited(), 0


def _left(sizes: dict[int, int], offset: int, bits: int) -> int:
    return sizes.get(offset, 0) if bits < 0 else min(sizes.get(offset, 0), bits.bit_count())
