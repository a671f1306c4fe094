"""Topics that match a pattern subscription but to which the client did not subscribe.

## What it means

For a pattern consumer the broker watches the namespace (WATCH_TOPIC_LIST). When the watcher is lost with its
connection, topics may be created before the next watcher is registered. Clients that do not compare the lists then miss
these topics until their next poll. The poll interval is one minute by default, and some clients never poll.

## On the wire

WATCH_TOPIC_LIST contains the hash of the topics known to the client. The response has a different hash and lists
topics, or an update lists new topics, and no SUBSCRIBE to them from the client's address follows within ten seconds.

## What would disprove it

A SUBSCRIBE to the topic on another connection of the same client; the rule checks for this. A SUBSCRIBE from another
address belongs to another client. A client may skip topics on purpose because its own pattern is stricter.

## What to do

Messages of these topics are not consumed, and if there is no subscription, they are not retained. Update the client.
Until then, set a short patternAutoDiscoveryPeriod: the client then detects the topics by polling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import about_connection, connection_subject
from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, rule, why_unsure
from pcli.codec.observe.rules.finding_text import count_of, times
from pcli.codec.observe.text_format import short_topic
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

_MISSED: Final = Cause(
    "client",
    "likely",
    ("a client whose own pattern is stricter",),
    "The topic pattern in the configuration of the client.",
)

_GRACE_NS: Final = 10_000_000_000
"""Time that a client may need to look up the topic and subscribe."""

_NAMED: Final = 3


@rule(
    "connection",
    facts=("watch_missed", "watch_gaps", "ended_ns", "end", "doubts"),
    title="topics of a pattern subscription to which the client did not subscribe",
    issue="apache/pulsar#21852",
)
def evaluate(record: ConnectionRecord, moment: Moment) -> Iterator[Finding]:
    """Return at most one finding per connection."""
    until = record.ended_ns if record.end else moment.now_ns
    missed = {topic: received for topic, received in record.watch_missed.items() if until - received[1] >= _GRACE_NS}
    if not missed:
        return
    gaps = record.watch_gaps.count
    how = f"the topics changed {times(gaps)} without a watcher" if gaps else "the watcher was registered at that time"
    names = ", ".join(map(short_topic, list(missed)[:_NAMED])) + (" …" if len(missed) > _NAMED else "")
    frame, since = min(missed.values(), key=lambda received: received[1])
    yield Finding(
        "warning",
        "possible" if GAPS.intersection(record.doubts) else "likely",
        _MISSED,
        connection_subject(record),
        f"The topic-list watcher on {about_connection(record)} reported {count_of(len(missed), 'topic')} to which the "
        f"client did not subscribe ({names}); {how}.",
        since,
        [frame, *record.watch_gaps.frames],
        "A SUBSCRIBE from the same address to these topics would disprove the finding; there is none. The client may "
        "have skipped the topics on purpose because its own pattern is stricter." + why_unsure(record.doubts),
        "Messages of these topics are not consumed. Update the client, or set a short patternAutoDiscoveryPeriod.",
        count=len(missed),
    )
