"""A receipt gives an entry its id: its life enters the books, or finds itself there.

Rules of this file
1. A MESSAGE may come before the receipt of its SEND: then there is a life already, and its deliveries are taken over.
2. The end of a transaction is believed to be written right behind what is known; an entry that turns out to have that
   place pushes it one further.
"""

from __future__ import annotations

from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.subscriptions.cursor_positions import new_ledger
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles, positions
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState
from pcli.codec.observe.tracking.subscriptions.unseen_publishes import linger

__all__ = ["stored"]


def stored(shelf: OpenLifecycles, life: Lifecycle) -> None:
    """An entry of a life has an id, of a chunked message any of its entries."""
    topic = shelf.topic(life.topic.name if life.topic is not None else "")
    if not topic.record.persistent:
        _stored_loose(shelf, topic, life)
        return
    at = (life.ledger, life.entry)
    _grow(topic, at, life)
    known = topic.lives.get(at) or (topic.loose.get(life.uuid) if life.uuid else None)
    if known is not None and known is not life:
        _merge(known, life)
        shelf.drop(known)
        for place in positions(known):
            topic.lives[place] = life
    if life.uuid:
        topic.loose[life.uuid] = life
    shelf.put(topic, at, life)


def _grow(topic: TopicState, at: Position, life: Lifecycle) -> None:
    if at[0] not in topic.ledgers:
        new_ledger(topic)
    if at in topic.markers:
        topic.markers.discard(at)
        marker = (at[0], topic.ledgers[at[0]] + 1)
        topic.markers.add(marker)
        topic.grow(marker, written=True)
    topic.grow(at, written=True)
    if life.txn is not None:
        topic.hidden.setdefault(life.txn, []).append(at)
    for book in topic.subscriptions.values():
        if book.at_next:
            book.at_next = False
            book.mark = book.read = (at[0], at[1] - 1)


def _stored_loose(shelf: OpenLifecycles, topic: TopicState, life: Lifecycle) -> None:
    key = (life.producer_name, life.sequence_id)
    known = topic.loose.get(key)
    if known is not None:
        _merge(known, life)
        shelf.drop(known)
    topic.loose[key] = life
    shelf.add(topic, life)
    linger(shelf, topic)


def _merge(known: Lifecycle, life: Lifecycle) -> None:
    """Take over what came before the receipt."""
    life.deliveries, life.unacked = known.deliveries, known.unacked
    life.doubts |= known.doubts - {"cut"}
    if life.partition < 0:
        life.partition = known.partition
