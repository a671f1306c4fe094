"""Order per key on a Key_Shared subscription: the consumer of each key, moves of keys, and violations of the order.

Rules of this file
1. The key of an entry is its ordering key, or else its partition key. The order of messages without a key is not
   checked.
2. The broker moves a key to another consumer only when the first consumer holds none of its entries (PIP-379), unless
   the consumers allow out-of-order delivery. Only first deliveries are compared, because redeliveries are out of order.
3. A key has a record if it moved or its order was violated. For other keys only the last position is kept. At most
   MAX_KEYS keys are kept; keys without held entries are evicted first.
4. The wait of a key is computed when it ends: from the time at which its next entry was available until the consumer
   with earlier entries released the last of them.
5. The broker releases the entries of a consumer when it receives the client's FIN, and delivers them to others before
   it sends its own FIN. The end of the connection is only known after both. A violation by a consumer whose session
   had ended before is therefore removed (`left`).
6. The broker dispatches a batch by the key in its metadata, which is the key of its first message. The messages with
   other keys go to the same consumer. Rules 2 to 5 concern only the first key. A key is split if a consumer receives it
   again after another consumer that is still attached: a change of the owner does not cause this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

from pcli.codec.observe.observer_state import ObservedFrame
from pcli.codec.observe.tracking.entry_metadata import FIELD, fields_of, ordering_key_text
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.records.topic_records import KeyRecord, SubscriptionRecord
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.payload.entry import Message
from pcli.codec.wire.hashes import partition_key_bytes, sticky_hash

MAX_KEYS: Final = 20_000
"""Maximum number of keys per subscription."""

MAX_OWNERS: Final = 8
"""Maximum number of owners in a record."""

MAX_RECENT: Final = 1_000
"""Maximum number of violations per subscription that can be removed."""

_NOTICEABLE_NS: Final = 100_000_000
"""Minimum duration in ns of a wait; shorter waits are normal."""


class _Key:
    __slots__ = ("before", "freed", "held", "last", "owner", "receiver", "slot")

    def __init__(self, receiver: ConsumerRecord, slot: int) -> None:
        self.owner: ConsumerRecord | None = None
        """The last consumer that received an entry dispatched by this key; None if there was no such entry."""
        self.receiver = receiver
        """The last consumer that received a message with the key."""
        self.before: ConsumerRecord | None = None
        """The consumer that received the key before ``receiver``."""
        self.slot = slot
        self.last: Position = (-1, -1)
        self.held: dict[ConsumerRecord, int] = {}
        """Number of entries that each consumer holds."""
        self.freed: tuple[int, int, ConsumerRecord] | None = None
        """Time in ns, frame and consumer of the last release."""


class _OpenAtTwo(NamedTuple):
    """A delivery of a key to a consumer while others held earlier entries."""

    delivery: Delivery
    key: KeyRecord
    holders: set[ConsumerRecord]
    """The others."""


class KeyOrder:
    """The keys of a subscription."""

    def __init__(self, subscription: SubscriptionRecord) -> None:
        self.records: dict[str, KeyRecord] = {}
        self._subscription = subscription
        self._keys: dict[str, _Key] = {}
        self._recent: deque[_OpenAtTwo] = deque(maxlen=MAX_RECENT)

    def delivered(self, key: str, at: Position, delivery: Delivery, frame: ObservedFrame, *, first: bool) -> None:
        """Process a delivery. ``first`` states whether the subscription receives the entry for the first time."""
        state = self._keys.get(key)
        consumer, messages = delivery.consumer, delivery.messages
        if state is None:
            state = self._add_key(key, consumer, _slot_in(frame, key))
        if len(state.held) > (consumer in state.held):
            record = self._record(key, state)
            record.open_at_two.add(delivery.time_ns, delivery.frame, sample=key, count=messages)
            self._subscription.order_broken.add(delivery.time_ns, delivery.frame, sample=key, count=messages)
            self._recent.append(_OpenAtTwo(delivery, record, state.held.keys() - {consumer}))
        if first:
            if at < state.last:
                self._record(key, state).backwards.add(delivery.time_ns, delivery.frame, sample=key, count=messages)
                self._subscription.order_broken.add(delivery.time_ns, delivery.frame, sample=key, count=messages)
            else:
                state.last = at
        self._received(key, state, delivery)
        if state.owner is not consumer:
            if state.owner is not None:
                self._record(key, state).moved.add(delivery.time_ns, delivery.frame, sample=key)
            state.owner = consumer
        state.held[consumer] = state.held.get(consumer, 0) + 1

    def batch_delivered(self, messages: Iterable[Message], delivery: Delivery) -> None:
        """Process the messages of a batch, after `delivered` for its first key."""
        keys = {}
        for message in messages:
            ordering, partition = message.ordering_key, message.key_bytes
            hashed = ordering or partition
            if hashed and not message.compacted_out:
                keys[ordering_key_text(ordering) if ordering else message.key or ""] = hashed
        self._subscription.key_batches += 1
        if len(keys) > 1:
            self._subscription.mixed_batches.add(delivery.time_ns, delivery.frame, sample=", ".join(islice(keys, 3)))
        for key, hashed in keys.items():
            state = self._keys.get(key) or self._add_key(key, delivery.consumer, sticky_hash(hashed))
            self._received(key, state, delivery)

    def _received(self, key: str, state: _Key, delivery: Delivery) -> None:
        consumer, receiver = delivery.consumer, state.receiver
        if receiver is consumer:
            return
        if consumer is state.before and receiver.session is not None and not receiver.session.end:
            self._subscription.split_keys.add(delivery.time_ns, delivery.frame, sample=key)
        owners = self._record(key, state).owners
        if len(owners) < MAX_OWNERS:
            owners.append(consumer.name)
        state.receiver, state.before = consumer, receiver

    def released(self, lifecycle: Lifecycle | None, delivery: Delivery, time_ns: int = -1, frame: int = 0) -> None:
        """Process an entry that was acknowledged or taken back."""
        state = self._keys.get(lifecycle.key) if lifecycle is not None else None
        if state is None:
            return
        consumer = delivery.consumer
        left = state.held.get(consumer, 0) - 1
        if left > 0:
            state.held[consumer] = left
        elif state.held.pop(consumer, None) is not None and time_ns >= 0:
            state.freed = (time_ns, frame, consumer)

    def left(self, consumer: ConsumerRecord, ended_ns: int) -> None:
        """Remove the violations by a consumer whose session had ended before them."""
        for one in list(self._recent):
            if one.delivery.time_ns >= ended_ns and consumer in one.holders:
                one.holders.remove(consumer)
                if not one.holders:
                    self._recent.remove(one)
                    for counter in (one.key.open_at_two, self._subscription.order_broken):
                        counter.remove(one.delivery.frame, one.delivery.messages)

    def waited(self, lifecycle: Lifecycle, delivery: Delivery) -> None:
        """Record the wait of an entry that is delivered for the first time."""
        state = self._keys.get(lifecycle.key)
        if state is None or state.freed is None or lifecycle.receipt_ns < 0:
            return
        freed, frame, holder = state.freed
        if holder is delivery.consumer or freed - lifecycle.receipt_ns < _NOTICEABLE_NS:
            return
        waits = self._subscription.hash_waits
        longest = waits.longest_ns
        waits.begin(lifecycle.receipt_ns, lifecycle.receipt_frame)
        waits.end(freed, frame)
        if waits.longest_ns > longest:
            self._subscription.hash_holder = f"{holder.name} held {lifecycle.key}"
        state.freed = None

    def holder(self, key: str) -> ConsumerRecord | None:
        """Return the last consumer that received a key if a consumer holds entries of the key, or None."""
        state = self._keys.get(key)
        return state.owner if state is not None and state.held else None

    def owner(self, key: str) -> ConsumerRecord | None:
        """Return the last consumer that received a key, or None."""
        state = self._keys.get(key)
        return None if state is None else state.owner

    def slot(self, key: str) -> int:
        """Return the slot of a key."""
        state = self._keys.get(key)
        return slot_of_key(key) if state is None else state.slot

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each key, by slot: owner, earlier owners, violations."""
        found = []
        for key, state in self._keys.items():
            record = self.records.get(key)
            row: dict[str, Any] = {"key": key, "slot": state.slot, "owner": (state.owner or state.receiver).name}
            row["owners"] = [state.receiver.name] if record is None else record.owners
            row["moved"] = record.moved.count if record else 0
            row["open_at_two"] = record.open_at_two.count if record else 0
            row["backwards"] = record.backwards.count if record else 0
            row["held"] = sum(state.held.values())
            found.append(row)
        return sorted(found, key=lambda row: (row["slot"], row["key"]))

    def _record(self, key: str, state: _Key) -> KeyRecord:
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = KeyRecord(self._subscription, key, state.slot)
            record.owners.append(state.receiver.name)
        return record

    def _add_key(self, key: str, receiver: ConsumerRecord, slot: int) -> _Key:
        state = self._keys[key] = _Key(receiver, slot)
        if len(self._keys) > MAX_KEYS:
            evicted = next((key for key, one in self._keys.items() if not one.held), next(iter(self._keys)))
            del self._keys[evicted]
            if self.records.pop(evicted, None) is not None:
                self._subscription.doubts.add("evicted")
        return state


def slot_of_key(key: str) -> int:
    """Return the slot of a string key."""
    return sticky_hash(key.encode(errors="surrogateescape"))


def _slot_in(frame: ObservedFrame, key: str) -> int:
    """Return the slot of a frame's key; ``key`` is its text, which is base64 for a binary key."""
    fields = fields_of(frame)
    ordering = fields.get(FIELD["ordering_key"], b"")
    if isinstance(ordering, bytes) and ordering:
        return sticky_hash(ordering)
    encoded = bool(fields.get(FIELD["partition_key_b64_encoded"]))
    return sticky_hash(partition_key_bytes(key.encode(errors="surrogateescape"), base64_encoded=encoded))
