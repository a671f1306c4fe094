"""Defects of acknowledgements and cursors."""

from __future__ import annotations

from typing import Any

from simulation.mutants.registry import mutant, nth

from pcli.minibroker.dispatch import non_persistent
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.topics import acknowledgements
from pcli.minibroker.topics.topic import Topic


@mutant(acknowledgements, "acknowledge_messages")
def forgotten_bit_set(original: Any) -> Any:
    """The acknowledged messages of a batch are not recorded."""

    def acknowledge(consumer: Any, offset: int, bits: int, *, store: bool) -> bool:
        complete = original(consumer, offset, bits, store=store)
        consumer.subscription.cursor.ack_sets.pop(offset, None)
        return bool(complete)

    return acknowledge


@mutant(acknowledgements, "acknowledge_messages")
def one_message_acknowledges_the_batch(original: Any) -> Any:
    """The acknowledgement of one message of a batch removes the whole batch."""

    def acknowledge(consumer: Any, offset: int, bits: int, *, store: bool) -> bool:
        original(consumer, offset, bits, store=store)
        return True

    return acknowledge


@mutant(ManagedCursor, "delete")
def lost_acknowledgement(original: Any) -> Any:
    """Every 12th individual acknowledgement is not recorded."""
    is_nth = nth(12)

    def delete(self: Any, offset: int) -> bool:
        return True if is_nth() else original(self, offset)

    return delete


@mutant(ManagedCursor, "mark_delete_to")
def cumulative_ack_of_one_more(original: Any) -> Any:
    """A cumulative acknowledgement also acknowledges the next entry."""

    def mark_delete_to(self: Any, offset: int) -> None:
        original(self, offset)
        original(self, offset + 1)

    return mark_delete_to


@mutant(Topic, "unload")
def unload_acknowledges_an_entry(original: Any) -> Any:
    """An unload acknowledges the first entry of each backlog."""

    def unload(self: Any) -> None:
        for one in self.subscriptions.values():
            if one.cursor is not None:
                one.cursor.mark_delete_to(one.cursor.mark_delete + 1)
        original(self)

    return unload


@mutant(non_persistent.NonPersistentDispatcher, "publish")
def non_persistent_message_repeated(original: Any) -> Any:
    """Every 10th entry of a non-persistent topic is sent twice."""
    is_nth = nth(10)

    def publish(self: Any, entry: Any) -> None:
        original(self, entry)
        if is_nth():
            original(self, entry)

    return publish
