"""Entries of a Key_Shared subscription that wait because another consumer holds earlier ones of the same key.

## What it means

Key_Shared keeps the order of each key: while a consumer holds unacknowledged messages of a key (of its hash, to be
exact), nobody else is given later ones. When a consumer joins or leaves, keys move; those with messages still held
wait until these are acknowledged ("draining"). A holder that does not acknowledge stops its keys for everybody, and
after some thousand entries of look-ahead the whole subscription.

## On the wire

MESSAGEs to one consumer, no ACKs for some of them, and later entries of the same keys that go to nobody although their
new owner has permits and gets other keys. Brokers before 4.0, and those with the classic dispatcher, make a newly
joined consumer wait for everything that was read before it came.

## What speaks for the opposite

ACKs of the holder for those keys: the entries must follow within milliseconds. Keys in a STICKY range that nobody has
wait for a consumer, not for an ACK: slots-unowned.

## What to do

Look at the holder: never-acked and paused-client tell more about it. Smaller receiver queues make keys move sooner.
Since Pulsar 4.0 `drainingHashes` in the consumer's statistics names the hashes that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    about_subscription,
    at,
    certainty,
    span,
    subscription_subject,
    when,
    why_unsure,
)
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["RULE"]

_LEAST_NS: Final = 1_000_000_000
"""Shorter waits are how order is kept: a key moves when its messages are acknowledged."""


def look(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """The wait that lasts, or the longest."""
    waits = subscription.hash_waits
    lasts = waits.since_ns >= 0
    since, lasted = (
        (waits.since_ns, moment.now_ns - waits.since_ns) if lasts else (waits.longest_from_ns, waits.longest_ns)
    )
    if not waits.count or lasted < _LEAST_NS:
        return
    first, last = (waits.since_frame, 0) if lasts else waits.longest_frames
    holder = printable(subscription.hash_holder) or "another consumer holds their key"
    doubts = subscription.doubts - {"end"}
    how_long = f"since {at(first)}, {when(moment, since)}" if lasts else f"for {span(lasted)}, until {at(last)}"
    yield Finding(
        "stuck-blocked-hash",
        "warning" if lasts else "note",
        "application",
        certainty(doubts, "likely"),
        subscription_subject(subscription),
        f"Entries of {about_subscription(subscription)} {'wait' if lasts else 'waited'} {how_long}: {holder}, earlier "
        "ones unacknowledged.",
        since,
        [first, last],
        (f"An ACK of the holder behind {at(first)} would free them." if lasts else f"It was over with {at(last)}.")
        + why_unsure(doubts),
        "See why the holder does not acknowledge. Smaller receiver queues let keys move sooner.",
    )


RULE = Rule(
    name="stuck-blocked-hash",
    group="subscription",
    facts=("hash_waits", "hash_holder"),
    title="entries that wait since another consumer holds earlier ones of their key",
    issue="apache/pulsar#23429",
    look=look,
)
