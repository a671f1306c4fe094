"""Invariants of the messages of scalable topics over changes of the layout, hand-overs and crashes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.invariants.violation import Violation
from simulation.scalable_applications import JUDGE
from simulation.scalable_step_kinds import is_scalable

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.scalable_applications import Delivery


def _complete_subscriptions(run: Run) -> set[str]:
    """Return the durable subscriptions whose consumers all begin at the first message."""
    from_start: dict[str, bool] = {}
    for one in run.consumers.values():
        if one.step["type"] != "checkpoint":
            name = one.step["subscription"]
            from_start[name] = from_start.get(name, True) and one.step["position"] == "Earliest"
    return {name for name, yes in from_start.items() if yes}


def no_message_is_lost_over_segments(run: Run) -> Iterator[Violation]:
    """Each message with a receipt reaches the applications of every subscription that begins at the first message.

    The last such subscription is created after all changes of the layout. Messages that were acknowledged in a
    transaction do not reach applications.
    """
    if not is_scalable(run.plan):
        return
    name = "no_message_is_lost_over_segments"
    confirmed = [text for one in run.producers.values() for text, place in one.receipts.items() if place.ledger >= 0]
    received: dict[str, set[bytes]] = defaultdict(set)
    for one in run.history.deliveries:
        received[one.subscription].add(one.text)
    for session in run.history.consumers:
        if session.name.startswith("t"):
            for frame in session.frames:
                received[session.subscription.name].update(frame.contents.texts if frame.contents else ())
    for subscription in sorted(_complete_subscriptions(run)):
        for text in confirmed:
            run.checks[name] += 1
            if text not in received[subscription]:
                where = f"subscription {subscription} has never received {text!r}"
                yield Violation(name, run.history.step, f"{where}, which has a receipt")
                return


def no_message_is_stored_twice_over_segments(run: Run) -> Iterator[Violation]:
    """A message is stored again, on another segment or the same, only if it was sent again over another connection.

    The receipt can be lost with the connection. Sequence ids are those of each segment, so deduplication does not
    detect a copy on a child (capture dedup-split of 5.0.1).
    """
    if not is_scalable(run.plan):
        return
    name, links = "no_message_is_stored_twice_over_segments", defaultdict(set)
    for frame in run.history.frames:
        if frame.name == "SEND" and frame.contents is not None:
            for text in frame.contents.texts:
                links[text].add(frame.link)
    stored: set[bytes] = set()
    for entry in run.history.entries():
        for text in entry.contents.texts:
            run.checks[name] += 1
            if text in stored and len(links[text]) == 1:
                yield Violation(
                    name, run.history.step, f"{text!r} is stored again at {entry.position} of {entry.topic}"
                )
                return
            stored.add(text)


def keys_are_in_order_over_segments(run: Run) -> Iterator[Violation]:
    """A stream consumer receives a message after all earlier messages of its key, which are acknowledged or its own.

    This includes splits, merges, hand-overs of segments and entry buckets, and crashes. Only messages of one producer
    have an order. Subscriptions that begin at the end of the topic skip messages.
    """
    if not is_scalable(run.plan):
        return
    name = "keys_are_in_order_over_segments"
    keys, delayed = _keys(run)
    whole = _complete_subscriptions(run)
    stream = {one.step["subscription"] for one in run.consumers.values() if one.step["type"] == "stream"}
    queues: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for text, key in keys.items():
        if text in delayed:
            continue
        number, index = map(int, text.split(b"."))
        for subscription in stream & whole:
            queues[subscription, number, key].append(index)
    for known in queues.values():
        known.sort()
    last: dict[tuple[str, bytes], Delivery] = {}
    for one in run.history.deliveries:
        if one.subscription not in stream & whole or one.text not in keys or one.text in delayed:
            continue
        number, index = map(int, one.text.split(b"."))
        for earlier in queues[one.subscription, number, keys[one.text]]:
            if earlier >= index:
                break
            run.checks[name] += 1
            before = last.get((one.subscription, b"%d.%d" % (number, earlier)))
            if wrong := _overtaken(before, one):
                received = f"consumer {one.consumer} of {one.subscription} receives {one.text!r} at {one.time} ms"
                yield Violation(name, run.history.step, f"{received}, but {number}.{earlier} of the same key {wrong}")
                return
        last[one.subscription, one.text] = one


def _keys(run: Run) -> tuple[dict[bytes, str], set[bytes]]:
    """Return the key of each stored message of a producer, and the messages with a delay."""
    keys: dict[bytes, str] = {}
    delayed: set[bytes] = set()
    for entry in run.history.entries():
        for text, key in zip(entry.contents.texts, entry.contents.keys):
            if key and text.partition(b".")[0].isdigit():
                keys[text] = key
                if entry.contents.deliver_at:
                    delayed.add(text)
    return keys, delayed


def _overtaken(before: Delivery | None, one: Delivery) -> str:
    """Return why a message may not follow an earlier one of its key, or an empty string."""
    if before is None:
        return "was never received"
    if before.acknowledged or (before.consumer, before.start) == (one.consumer, one.start):
        return ""
    return f"is not acknowledged by consumer {before.consumer}, which received it at {before.time} ms"


def transactions_are_atomic_over_segments(run: Run) -> Iterator[Violation]:
    """A consumer sees the messages of a transaction on all segments or on none.

    All are visible after a confirmed commit. None is visible after a confirmed abort, or if no end was requested.
    """
    if not is_scalable(run.plan):
        return
    name = "transactions_are_atomic_over_segments"
    seen = {one.text for one in run.history.deliveries if one.subscription == JUDGE}
    for one in run.transactions:
        run.checks[name] += len(one.receipts)
        receipts = set(one.receipts)
        visible = seen & receipts
        possible = [receipts] if one.outcome == "COMMIT" else [set()]
        if one.requested and one.step["action"] == "COMMIT":
            possible.append(receipts)
        if visible not in possible:
            end = one.outcome or ("requested" if one.requested else "open")
            text = f"transaction {one.number} ({one.step['action']}, {end}): {len(visible)} of {len(one.receipts)}"
            yield Violation(name, run.history.step, f"{text} messages are visible")
            return
