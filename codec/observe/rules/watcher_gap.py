"""Topics that a pattern consumer was told of, or missed, and has not subscribed to.

## What it means

A consumer of a pattern has the broker watch the namespace for it (WATCH_TOPIC_LIST). When the watcher is lost with its
connection, topics may be made before the next one watches; clients that do not compare the lists then miss these topics
until their own poll, once a minute by default, or for good.

## On the wire

WATCH_TOPIC_LIST carries the hash of what the client knows; the answer has another hash and lists topics, or an update
names new ones, and ten seconds later no SUBSCRIBE to these has left the client's address.

## What speaks for the opposite

A SUBSCRIBE to the topic on another connection of the same client, which is looked for; one from another address is
another client's. A client may leave out topics on purpose, by a stricter pattern of its own.

## What to do

Messages of these topics are not consumed, and without a subscription not even kept. Update the client; until then a
short patternAutoDiscoveryPeriod closes the gap by polling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_connection, connection_subject
from pcli.codec.observe.rules.wording import HOLES, count_of, times, why_unsure
from pcli.codec.observe.text_format import short_topic
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["RULE", "look"]

_PATIENCE_NS: Final = 10_000_000_000
"""How long a client may take to look the topic up and subscribe."""

_NAMED: Final = 3


def look(record: ConnectionRecord, moment: Moment) -> Iterator[Finding]:
    """One finding a connection."""
    until = record.ended_ns if record.end else moment.now_ns
    missed = {topic: told for topic, told in record.watch_missed.items() if until - told[1] >= _PATIENCE_NS}
    if not missed:
        return
    gaps = record.watch_gaps.count
    how = f"{times(gaps)} they had changed while nobody watched" if gaps else "they came while it watched"
    names = ", ".join(map(short_topic, list(missed)[:_NAMED])) + (" …" if len(missed) > _NAMED else "")
    frame, since = min(missed.values(), key=lambda told: told[1])
    yield Finding(
        "watcher-gap",
        "warning",
        "client",
        "possible" if HOLES.intersection(record.doubts) else "likely",
        connection_subject(record),
        f"The topic-list watcher on {about_connection(record)} was told of {count_of(len(missed), 'topic')} to which "
        f"nobody there subscribed ({names}); {how}.",
        since,
        [frame, *record.watch_gaps.frames],
        "A SUBSCRIBE from the same address to these topics: there is none. The client may have dropped them on purpose "
        "by a stricter pattern of its own." + why_unsure(record.doubts),
        "Messages of these topics are not consumed. Update the client, or set a short patternAutoDiscoveryPeriod.",
    )


RULE = Rule(
    name="watcher-gap",
    group="connection",
    facts=("watch_missed", "watch_gaps", "ended_ns", "end", "doubts"),
    title="topics of a pattern subscription that its client has not noticed",
    issue="apache/pulsar#21852",
    look=look,
)
