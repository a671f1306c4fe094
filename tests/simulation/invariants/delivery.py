"""Invariants of deliveries: none is lost, too early, or repeated where that is not allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.subscription_replay import SubscriptionReplay, TransactionEnds
from simulation.invariants.violation import Violation, at

from pcli.codec.proto import pb
from pcli.codec.wire.bits import set_of

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.sessions import SubscriptionLog


def every_message_is_delivered(run: Run) -> Iterator[Violation]:
    """Every durable subscription receives every message, and only an acknowledgement removes it (at-least-once).

    At the end consumers acknowledge everything, so the backlog is empty, and each entry has an ACK of a consumer of the
    subscription, or is before the position of a seek (broker-semantics.md, 5 and 6). An application can acknowledge
    entries that it received before the subscription was deleted and created again. Entries that were acknowledged in a
    transaction after its timeout remain: the broker accepts any transaction id, and does not deliver a pending entry
    (verified on 4.2.4). Messages that the client drops (`SubscriptionReplay.dropped`) remain, too, as do
    entries that messages of such a transaction hide (`TransactionEnds.hidden_from`).
    """
    ends = TransactionEnds(run.history)
    for log in run.history.subscriptions:
        if log.durable and log.is_persistent and log.ended is None:
            yield from _undelivered(run, log, ends)


def _undelivered(run: Run, log: SubscriptionLog, ends: TransactionEnds) -> Iterator[Violation]:
    name, topic = "every_message_is_delivered", run.network.broker.topics.get(log.topic)
    subscription = None if topic is None else topic.subscriptions.get(log.name)
    if subscription is None:
        yield Violation(name, run.history.step, f"{log} does not exist any more")
        return
    if any(frame.name == "ACK_RESPONSE" and frame.body.error == pb.TransactionConflict for frame in log.frames):
        run.exempt[name] += len(run.history.stored.get(log.topic, ()))
        return  # the entry leaves the pending acks and is not delivered until the topic is loaded again
    replay = SubscriptionReplay(run.history, log, ends)
    for _ in replay.walk():
        pass
    left: set[int] = set()
    if subscription.backlog:
        left = {one.offset for one in replay.entries[replay.start :] if not subscription.cursor.is_deleted(one.offset)}
        hidden = {offset for offset in left if offset >= ends.hidden_from(run.history, log.topic)}
        # An ACK without a response can have had such a conflict.
        if not left - hidden <= replay.in_transactions & replay.acked | replay.abandoned() | replay.dropped:
            yield Violation(name, run.history.step, f"{log} has a backlog of {subscription.backlog} at the end")
            return
        run.exempt[name] += len(left)
    compacted = log.reads_compacted
    delivered = _delivered_before(run, log) | replay.delivered
    for entry in replay.entries:
        if entry.offset < replay.start or entry.offset in left or not replay.is_readable(entry):
            continue
        run.checks[name] += 1
        if entry.offset not in replay.acked:
            text = f"{log}: the entry {entry.position} is removed from the backlog, but no consumer acknowledged it"
            yield Violation(name, run.history.step, text)
            return
        if entry.offset not in delivered and not compacted:
            yield Violation(name, run.history.step, f"{log}: the entry {entry.position} was never delivered")
            return


def _delivered_before(run: Run, log: SubscriptionLog) -> set[int]:
    """Return the offsets that earlier subscriptions of the same name delivered."""
    return {
        frame.entry.offset
        for earlier in run.history.subscriptions
        if (earlier.topic, earlier.name) == (log.topic, log.name) and earlier.created.index < log.created.index
        for frame in earlier.frames
        if frame.name == "MESSAGE" and frame.entry is not None
    }


def acknowledged_messages_are_not_delivered_again(run: Run) -> Iterator[Violation]:
    """An acknowledged message, and on Shared and Key_Shared a pending entry, is not delivered again.

    The ack set of a MESSAGE excludes the acknowledged messages of a batch; an unload loses ack sets. Entries that were
    acknowledged in a transaction, and compacted topics, are exempt (broker-semantics.md, 5.2 and 6.1).
    """
    ends, name = TransactionEnds(run.history), "acknowledged_messages_are_not_delivered_again"
    for log in run.history.subscriptions:
        if not log.is_persistent or log.reads_compacted:
            continue
        replay = SubscriptionReplay(run.history, log, ends)
        for frame in replay.walk():
            if frame.name != "MESSAGE" or frame.entry is None:
                continue
            offset, wrong = frame.entry.offset, ""
            if offset in replay.in_transactions:
                run.exempt[name] += 1
                continue
            run.checks[name] += offset in replay.delivered
            unacked = set_of(frame.body.ack_set) if frame.body.ack_set else -1
            if replay.is_acked(offset):
                wrong = "is acknowledged"
            elif offset in replay.pending:
                wrong = f"is pending at {replay.pending[offset]}"
            elif unacked & ((1 << frame.entry.contents.count) - 1) & ~replay.bits.get(offset, -1):
                wrong = "contains acknowledged messages"
            if wrong:
                yield at(name, frame, f"{frame.session}: {frame.entry.position} {wrong}")
                break


def delayed_messages_are_not_early(run: Run) -> Iterator[Violation]:
    """On Shared and Key_Shared, a message is sent at most one tick before its delivery time.

    The tick is delayedDeliveryTickTimeMillis; the real broker may be early by one tick unless the time is strict
    (InMemoryDelayedDeliveryTracker.getCutoffTime).
    """
    tick = run.network.broker.settings.delayedDeliveryTickTimeMillis
    for session in run.history.consumers:
        if session.individual and session.subscription.is_persistent:
            for frame in session.frames:
                if frame.name != "MESSAGE" or frame.contents is None or not frame.contents.deliver_at:
                    continue
                run.checks["delayed_messages_are_not_early"] += 1
                early = frame.contents.deliver_at - frame.time
                if early > tick:
                    yield at("delayed_messages_are_not_early", frame, f"{session}: {early} ms too early")
                    break


def redelivery_counts_never_decrease(run: Run) -> Iterator[Violation]:
    """On Shared and Key_Shared, the redelivery count of an entry never decreases, and a REDELIVER increases it.

    The counts are lost when the last consumer leaves and when the topic is unloaded (InMemoryRedeliveryTracker).
    """
    ends = TransactionEnds(run.history)
    for log in run.history.subscriptions:
        if not log.is_persistent:
            continue
        replay = SubscriptionReplay(run.history, log, ends)
        least: dict[int, int] = {}
        for frame in replay.walk():
            if not replay.attached or frame.name in ("unload", "restart", "kill", "sought"):
                least.clear()
            if frame.name == "REDELIVER_UNACKNOWLEDGED_MESSAGES" and frame.session.individual:
                for offset in replay.returned(frame):
                    least[offset] = least.get(offset, 0) + 1
            if frame.name != "MESSAGE" or frame.entry is None or not frame.session.individual:
                continue
            offset, count = frame.entry.offset, frame.body.redelivery_count
            run.checks["redelivery_counts_never_decrease"] += least.get(offset, 0) > 0
            if count < least.get(offset, 0):
                text = f"{frame.session}: the count of {frame.entry.position} is {count} after {least[offset]}"
                yield at("redelivery_counts_never_decrease", frame, text)
                break
            least[offset] = count


def non_persistent_messages_are_not_redelivered(run: Run) -> Iterator[Violation]:
    """A subscription of a non-persistent topic gets each SEND at most once, never as a redelivery.

    A message that a producer sends again is another SEND (broker-semantics.md, non-persistent topics).
    """
    sends: Counter[bytes] = Counter()
    deliveries: Counter[tuple[int, bytes]] = Counter()
    for frame in run.history.frames:
        if frame.contents is None or not frame.contents.texts:
            continue
        text = frame.contents.texts[0]
        if frame.name == "SEND":
            sends[text] += 1
        elif frame.entry is None and frame.session is not None and not frame.session.subscription.is_persistent:
            key = id(frame.session.subscription), text
            deliveries[key] += 1
            run.checks["non_persistent_messages_are_not_redelivered"] += 1
            if deliveries[key] > sends[text] or frame.body.redelivery_count:
                text_of = (
                    f"{frame.session}: {text!r} is delivered {deliveries[key]} times, and was sent {sends[text]} times"
                )
                yield at("non_persistent_messages_are_not_redelivered", frame, text_of)
                return
