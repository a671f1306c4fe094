"""The invariants of a run. Each is a function that yields violations; its docstring states the rule and its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from simulation.invariants.activity import no_activity_after_the_last_acknowledgement, no_program_fails
from simulation.invariants.compaction import compaction_keeps_the_last_value
from simulation.invariants.delivery import (
    acknowledged_messages_are_not_delivered_again,
    delayed_messages_are_not_early,
    every_message_is_delivered,
    non_persistent_messages_are_not_redelivered,
    redelivery_counts_never_decrease,
)
from simulation.invariants.durability import confirmed_state_survives_a_kill
from simulation.invariants.flow_control import permits_are_not_exceeded, unacked_limits_are_respected
from simulation.invariants.order import keys_are_in_order, one_consumer_is_active, producers_are_in_order
from simulation.invariants.scalable_assignments import (
    assignments_cover_every_segment,
    children_follow_drained_parents,
    registered_consumers_survive_restarts,
    segments_have_one_owner,
)
from simulation.invariants.scalable_delivery import (
    keys_are_in_order_over_segments,
    no_message_is_lost_over_segments,
    no_message_is_stored_twice_over_segments,
    transactions_are_atomic_over_segments,
)
from simulation.invariants.scalable_layouts import (
    every_key_has_one_active_segment,
    layouts_advance_and_survive_restarts,
    segments_store_their_keys_until_they_are_sealed,
)
from simulation.invariants.storage import (
    deduplicated_messages_are_stored_once,
    every_receipt_is_a_stored_message,
    fenced_producers_never_write,
)
from simulation.invariants.tracker import tracker_has_the_state_of_the_broker
from simulation.invariants.transactions import transactions_are_atomic, transactions_are_isolated
from simulation.invariants.violation import Violation

__all__ = ["AFTER_RUN", "INVARIANTS", "PER_TURN", "Invariant", "Violation"]

Invariant = Callable[[Any], Iterator[Violation]]

AFTER_RUN: tuple[Invariant, ...] = (
    no_program_fails,
    every_receipt_is_a_stored_message,
    deduplicated_messages_are_stored_once,
    fenced_producers_never_write,
    producers_are_in_order,
    keys_are_in_order,
    one_consumer_is_active,
    permits_are_not_exceeded,
    unacked_limits_are_respected,
    acknowledged_messages_are_not_delivered_again,
    confirmed_state_survives_a_kill,
    redelivery_counts_never_decrease,
    delayed_messages_are_not_early,
    non_persistent_messages_are_not_redelivered,
    transactions_are_isolated,
    transactions_are_atomic,
    compaction_keeps_the_last_value,
    every_message_is_delivered,
    every_key_has_one_active_segment,
    segments_store_their_keys_until_they_are_sealed,
    layouts_advance_and_survive_restarts,
    registered_consumers_survive_restarts,
    segments_have_one_owner,
    assignments_cover_every_segment,
    children_follow_drained_parents,
    no_message_is_lost_over_segments,
    no_message_is_stored_twice_over_segments,
    keys_are_in_order_over_segments,
    transactions_are_atomic_over_segments,
    no_activity_after_the_last_acknowledgement,
)
"""The invariants of the whole history, checked at the end."""

PER_TURN: tuple[Invariant, ...] = (tracker_has_the_state_of_the_broker,)
"""The invariants that are checked after every turn of the broker."""

INVARIANTS = (*PER_TURN, *AFTER_RUN)
