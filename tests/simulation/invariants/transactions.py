"""Invariants of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.subscription_replay import TransactionEnds, transaction_of
from simulation.invariants.violation import Violation, at

from pcli.codec.wire.message_id import signed

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.sessions import SubscriptionLog


def transactions_are_isolated(run: Run) -> Iterator[Violation]:
    """A message of a transaction is delivered only after END_TXN with COMMIT; never if the transaction is aborted.

    A transaction that is not committed is aborted at its timeout (broker-semantics.md, 9).
    """
    ends = TransactionEnds(run.history)
    for frame in run.history.frames:
        if frame.name == "MESSAGE" and frame.contents is not None and frame.contents.transaction is not None:
            txn = frame.contents.transaction
            run.checks["transactions_are_isolated"] += 1
            if not ends.may_be_committed(txn, frame.index):
                yield at("transactions_are_isolated", frame, f"{frame.session}: transaction {txn} is not committed")
                return


def transactions_are_atomic(run: Run) -> Iterator[Violation]:
    """After a confirmed commit, all messages of the transaction are delivered and none of its acknowledgements is lost.

    Messages: every confirmed message is stored, and `every_message_is_delivered` checks that subscriptions get it.
    Acknowledgements: an entry acknowledged in a committed transaction is not delivered again, except after a seek.
    Subscriptions that read the compacted topic are exempt.
    """
    ends, history = TransactionEnds(run.history), run.history
    for log in history.subscriptions:
        if log.is_persistent and not log.reads_compacted:
            yield from _lost_acknowledgement(run, log, ends)


def _lost_acknowledgement(run: Run, log: SubscriptionLog, ends: TransactionEnds) -> Iterator[Violation]:
    requests: dict[tuple[int, int], tuple[tuple[int, int], list[tuple[int, int]]]] = {}
    acked: list[tuple[tuple[int, int], list[tuple[int, int]]]] = []
    for frame in log.frames:
        if frame.name == "ACK" and (txn := transaction_of(frame.body)) is not None:
            places = [(signed(one.ledgerId), signed(one.entryId)) for one in frame.body.message_id if not one.ack_set]
            requests[frame.link, frame.body.request_id] = txn, places
        elif frame.name == "ACK_RESPONSE" and not frame.body.HasField("error"):
            found = requests.pop((frame.link, frame.body.request_id), None)
            if found is not None:
                acked.append(found)
                run.checks["transactions_are_atomic"] += ends.is_committed(found[0])
        elif frame.name == "sought":
            requests, acked = {}, []
        elif frame.name == "MESSAGE" and frame.entry is not None:
            for txn, places in acked:
                if frame.entry.position in places and ends.is_committed(txn, frame.index):
                    text = (
                        f"{frame.session}: {frame.entry.position} was acknowledged in the committed transaction {txn}"
                    )
                    yield at("transactions_are_atomic", frame, text)
                    return
