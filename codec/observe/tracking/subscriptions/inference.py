"""What the broker has probably done by a time without a frame that shows it: stalls of consumers, skipped entries.

Rules of this file
1. At the end of the capture, `conclude` adds it to the state. Before, `topics_at` adds it to copies, so that a request
   for records or statistics changes no state.
2. `consumer_sessions` adds the stalls of a subscription when a consumer attaches or leaves, because both end them.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.subscriptions.backlog import backlog_of, entries_after_cursor
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import update_stalls
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import EntryBudget, TopicState


def conclude(topic: TopicState, now_ns: int) -> None:
    """Add the stalls and the backlogs at a time to the subscriptions of a topic."""
    for subscription in topic.subscriptions.values():
        update_stalls(subscription, now_ns)
        subscription.record.backlog, _ = backlog_of(subscription, now_ns)
        subscription.record.backlog_least = entries_after_cursor(subscription)


def topics_at(topics: Mapping[str, TopicState], now_ns: int) -> dict[str, TopicState]:
    """Return copies of the topics, by name, with the stalls and the backlogs at a time.

    The copies of topics, subscriptions and consumers refer to each other. Everything else is shared with the originals.
    """
    budget = next((copy(topic.budget) for topic in topics.values()), EntryBudget())
    found = {name: _copy_topic(topic, budget) for name, topic in topics.items()}
    for topic in found.values():
        conclude(topic, now_ns)
    return found


def _copy_topic(topic: TopicState, budget: EntryBudget) -> TopicState:
    found = copy(topic)
    found.budget, found.record = budget, copy(topic.record)
    records = {name: _copy_record(record, found.record) for name, record in topic.record.subscriptions.items()}
    found.record.subscriptions = records
    found.subscriptions = {name: _copy_state(one, found, records[name]) for name, one in topic.subscriptions.items()}
    return found


def _copy_record(record: SubscriptionRecord, topic: TopicRecord) -> SubscriptionRecord:
    found = replace(record, topic=topic, hash_waits=copy(record.hash_waits), doubts=set(record.doubts))
    found.consumers = {name: _copy_consumer(one, found) for name, one in record.consumers.items()}
    return found


def _copy_consumer(record: ConsumerRecord, subscription: SubscriptionRecord) -> ConsumerRecord:
    found = copy(record)
    found.subscription = None if record.subscription is None else subscription
    found.blocked, found.silent = copy(record.blocked), copy(record.silent)
    found.behind_transaction = copy(record.behind_transaction)
    return found


def _copy_state(subscription: SubscriptionState, topic: TopicState, record: SubscriptionRecord) -> SubscriptionState:
    found = copy(subscription)
    found.topic, found.record = topic, record
    found.acked, found.ack_sets = set(subscription.acked), dict(subscription.ack_sets)
    copies = {id(one): record.consumers[name] for name, one in subscription.record.consumers.items()}
    found.attached = [copy(consumer) for consumer in subscription.attached]
    for consumer in found.attached:
        consumer.subscription, consumer.record = found, copies[id(consumer.record)]
    if subscription.keys is not None:
        found.keys = copy(subscription.keys)
        found.keys.records = {key: replace(one, subscription=record) for key, one in subscription.keys.records.items()}
    return found
