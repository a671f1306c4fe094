"""Dead letters: messages that a client sends to another topic, with properties that contain their origin.

Rules of this file
1. Every client library writes REAL_TOPIC and ORIGIN_MESSAGE_ID; newer Java clients also write REAL_SUBSCRIPTION. A
   retry letter has the same properties and a deliver_at_time. It is redelivered, so it is not a dead letter
   (RetryMessageUtil, docs "Retry letter topic"). In a batch of dead letters, which the Go and the V5 client send, each
   message has its own properties; the metadata of a Go batch repeats them, those of a V5 batch do not. The V5 client
   does not compress dead letters. It writes the name of the scalable topic; the ledger belongs to one of its segments.
2. If the subscription name is missing, it is inferred from the subscription that holds the message, or from the topic's
   only subscription.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pcli.codec.observe.observer_state import Facts, ObservedFrame
from pcli.codec.observe.tracking.entry_metadata import may_be_of_v5_client
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState

MARK: Final = b"REAL_TOPIC"
"""Bytes in the metadata of every dead letter, or in the payload of a batch of dead letters of a V5 client."""

_MOST: Final = 64
"""Maximum number of dead letters that a lifecycle lists."""

# 11:6:-1 (Java, Rust), 17:0:0:0 (Go), (118,1,-1,-1) (C++)
_ID: Final = re.compile(r"\(?(\d+)[:,](\d+)")


def is_marked(frame: ObservedFrame) -> bool:
    """Return whether a SEND can contain dead letters, without decoding it."""
    data, parts = frame.data, frame.parts
    start = parts.metadata_start
    return start >= 0 and data.find(MARK, start, len(data) if may_be_of_v5_client(frame) else parts.metadata_end) >= 0


def dead_letter(lifecycles: OpenLifecycles, facts: Facts) -> None:
    """Process a SEND for which `is_marked` is true."""
    frame, target = facts.frame, getattr(facts.peer, "topic", "")
    for origin, at, name in origins(facts):
        topic = lifecycles.owners.get(at[0]) if origin.startswith("topic://") else lifecycles.topic(origin)
        if topic is None:
            continue
        lifecycle = topic.lifecycles.get(at)
        if lifecycle is not None and len(lifecycle.dead_letters) < _MOST:
            lifecycle.dead_letters += ((target, frame.number, frame.time_ns),)
        subscription = _subscription(topic, at, name)
        if subscription is not None:
            subscription.record.dead_lettered.add(frame.time_ns, frame.number, sample=f"{at[0]}:{at[1]} to {target}")


def origins(facts: Facts) -> Iterator[tuple[str, Position, str]]:
    """Yield the topic, position and subscription (empty if unknown) of each original message of a marked SEND."""
    values = facts.metadata
    if "pulsar.metadata.deliver_at_time" in values:
        return
    for properties in _properties(facts, values):
        found = _ID.match(properties.get("ORIGIN_MESSAGE_ID", ""))
        origin = properties.get("REAL_TOPIC", "")
        if found is not None and origin:
            yield origin, (int(found[1]), int(found[2])), properties.get("REAL_SUBSCRIPTION", "")


def _properties(facts: Facts, values: dict[str, Any]) -> Iterator[dict[str, str]]:
    for one in facts.batch or [{"properties": values.get("pulsar.metadata.properties", ())}]:
        yield {pair.get("key", ""): pair.get("value", "") for pair in one.get("properties", ())}


def _subscription(topic: TopicState, at: Position, name: str) -> SubscriptionState | None:
    if name:
        return topic.subscriptions.get(name)
    opened = [one for one in topic.subscriptions.values() if one.opened]
    holders = [one for one in opened if at in one.pending_acks]
    if len(holders) == 1:
        return holders[0]
    return opened[0] if len(opened) == 1 else None
