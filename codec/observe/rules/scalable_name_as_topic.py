"""A producer or consumer that opened the name of a scalable topic as an ordinary topic.

## What it means

A V5 client looks up a name ``topic://…`` and then opens its segments. Here a PRODUCER or SUBSCRIBE contained the name
itself, and the broker accepted it: it created an ordinary topic of that name beside the segments. Messages that are
published to it never reach the consumers of the scalable topic. A broker 5.0.1 answers requests for /metrics with 500
afterwards.

## On the wire

PRODUCER or SUBSCRIBE with a topic ``topic://…``, and PRODUCER_SUCCESS or SUCCESS.

## What would disprove it

Nothing: the broker confirmed the command.

## What to do

Use a V5 client for scalable topics, or the classic name ``persistent://…`` for a classic topic. Delete the topic.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of
from pcli.codec.observe.text_format import short_topic
from pcli.codec.observe.tracking.records.topic_records import TopicRecord


@rule(
    "topic",
    facts=("producers", "subscriptions", "messages_in"),
    title="the name of a scalable topic opened as an ordinary topic",
    issue="PIP-460",
)
def evaluate(topic: TopicRecord, _moment: Moment) -> Iterator[Finding]:
    """Return a finding for a topic whose name is that of a scalable topic."""
    if not topic.name.startswith("topic://"):
        return
    consumers = [one for subscription in topic.subscriptions.values() for one in subscription.consumers.values()]
    sessions = [one.session for one in topic.producers.values()] + [one.session for one in consumers]
    opened = [session for session in sessions if session is not None and session.ready_ns >= 0]
    if not opened:
        return
    first = min(opened, key=lambda session: session.ready_ns)
    clients = [
        count_of(len(group), name) for group, name in ((topic.producers, "producer"), (consumers, "consumer")) if group
    ]
    yield Finding(
        "error" if topic.messages_in else "warning",
        "certain",
        Cause(
            "application",
            "likely",
            ("a client library that does not support scalable topics",),
            "The client's version.",
        ),
        {"topic": topic.name},
        f"{' and '.join(clients)} opened {short_topic(topic.name)} as an ordinary topic, beside the segments of the "
        f"scalable topic; {count_of(topic.messages_in, 'message')} were published to it.",
        first.ready_ns,
        [session.number for session in opened],
        "Nothing: the broker confirmed the command.",
        "Use a V5 client for scalable topics, and delete this topic.",
        count=topic.messages_in,
    )
