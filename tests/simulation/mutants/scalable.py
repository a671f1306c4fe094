"""Defects of scalable topics."""

from __future__ import annotations

from typing import Any

from simulation.mutants.registry import mutant, nth

from pcli.minibroker.dispatch.sticky_key import PersistentStickyKeyDispatcherMultipleConsumers
from pcli.minibroker.scalable import layout_changes, scalable_topic_documents, subscription_coordinator
from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService
from pcli.minibroker.scalable.subscription_coordinator import SubscriptionCoordinator
from pcli.minibroker.transactions.scalable_transactions import ScalableTransactions


@mutant(layout_changes, "split")
def parent_stays_active(original: Any) -> Any:
    """A split leaves the parent active."""

    def split(layout: Any, number: int, now: int) -> Any:
        after = original(layout, number, now)
        after.segments[number] = after.segments[number]._replace(active=True, children=())
        return after

    return split


@mutant(layout_changes, "split")
def child_overlaps(original: Any) -> Any:
    """The second child of a split begins with the last hash of the first one."""

    def split(layout: Any, number: int, now: int) -> Any:
        after = original(layout, number, now)
        child = after.segments[after.segments[number].children[1]]
        after.segments[child.id] = child._replace(start=child.start - 1)
        return after

    return split


@mutant(ScalableTopicService, "_change")
def parent_not_sealed(original: Any) -> Any:
    """The topic of a split segment still accepts messages."""

    def change(self: Any, topic: Any, kind: str, *rest: Any) -> None:
        broker = self._broker
        terminate, broker.terminate = broker.terminate, lambda _: (-1, -1)
        try:
            original(self, topic, kind, *rest)
        finally:
            broker.terminate = terminate

    return change


@mutant(subscription_coordinator, "readable")
def children_with_their_parents(original: Any) -> Any:
    """Stream consumers read children before the parents are drained."""
    del original
    return lambda layout, finished: layout.active


@mutant(ScalableTopicService, "_drained")
def parents_drained_at_once(original: Any) -> Any:
    """A sealed segment counts as drained at the first check, although it has a backlog."""
    del original
    return lambda self, topic, subscription, segment: True


@mutant(subscription_coordinator, "assign")
def two_owners(original: Any) -> Any:
    """The first segment is assigned to two consumers."""

    def assign(segments: Any, names: Any, *, share: bool) -> Any:
        found = original(segments, names, share=share)
        holders = [name for name in found if found[name]]
        for name in [name for name in found if name != holders[0]][:1] if holders else ():
            found[name].append(found[holders[0]][0])
        return found

    return assign


@mutant(subscription_coordinator, "assign")
def unassigned_segment(original: Any) -> Any:
    """If a subscription has several consumers, the last segment is assigned to none of them."""

    def assign(segments: Any, names: Any, *, share: bool) -> Any:
        names = list(names)
        return original(segments[:-1] if len(names) > 1 else segments, names, share=share)

    return assign


@mutant(SubscriptionCoordinator, "disconnected")
def no_grace_period(original: Any) -> Any:
    """A consumer is removed as soon as its connection ends."""

    def disconnected(self: Any, name: str, grace_ms: int, on_end: Any) -> None:
        original(self, name, 1, on_end)

    return disconnected


@mutant(PersistentStickyKeyDispatcherMultipleConsumers, "drains_hashes")
def buckets_move_at_once(original: Any) -> Any:
    """An entry bucket moves to another consumer although the former one has unacknowledged entries of it."""
    return property(lambda self: not self._by_entry_bucket and original.fget(self))


@mutant(scalable_topic_documents, "_encode")
def layout_changes_not_stored(original: Any) -> Any:
    """Only the first layout of a topic is stored."""
    first: dict[str, Any] = {}

    def encode(topic: Any) -> Any:
        document = original(topic)
        return document | {"layout": first.setdefault(topic.name, document["layout"])}

    return encode


@mutant(ScalableTopicService, "restore")
def forgotten_registrations(original: Any) -> Any:
    """The registered consumers are not restored."""

    def restore(self: Any, topic: Any, consumers: Any) -> None:
        original(self, topic, {})

    return restore


@mutant(ScalableTopicService, "_send_layout")
def layout_not_sent(original: Any) -> Any:
    """Every second layout is not sent to its session."""
    is_second = nth(2)

    def send_layout(self: Any, session: Any, name: str) -> None:
        if not (self.topics[name].layout.epoch and is_second()):
            original(self, session, name)

    return send_layout


@mutant(ScalableTransactions, "end_transaction")
def commit_on_one_segment(original: Any) -> Any:
    """A commit ends the transaction on one of its segments."""

    def end_transaction(self: Any, meta: Any, *, commit: bool) -> None:
        if commit and len(meta.topics) > 1:
            meta.topics.remove(max(meta.topics))
        original(self, meta, commit=commit)

    return end_transaction


@mutant(ScalableTransactions, "_sweep")
def transactions_never_expire(original: Any) -> Any:
    """The transactions on segments are not aborted after their timeouts."""
    del original
    return lambda self: None
