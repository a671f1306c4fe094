"""The order of a key is broken: two consumers have it at once, or a later message came first.

## What it means

Key_Shared promises that of each key at most one consumer holds messages, and that they come in the order in which they
were published. Here a message was delivered while another consumer held an earlier one of the same key, or messages of
a key came for the first time in another order. An application that relies on the order is wrong from there on.

## On the wire

MESSAGE with a key to consumer A, no ACK, MESSAGE with the same key to consumer B. Or MESSAGE 7:12 before the first
delivery of MESSAGE 7:10 with the same key.

## What speaks for the opposite

`allowOutOfOrderDelivery` in SUBSCRIBE: then it is allowed, and a note. A batch that mixes keys goes by the key of its
first message: producers must use key based batching. Keys are compared as such here, while brokers go by their hash.
Delayed messages come late on purpose.

## What to do

Check that producers batch by key. Otherwise report it with the broker's version, the type of dispatcher (classic or
not) and this capture: `pcli stats keys` shows who had the key when.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import (
    EDGES,
    about_subscription,
    certainty,
    count_of,
    frames_text,
    subscription_subject,
    why_unsure,
)
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.topic_records import KeyRecord

__all__ = ["RULE"]


def look(key: KeyRecord, moment: Moment) -> Iterator[Finding]:
    """Both ways in which it may be broken."""
    subscription = key.subscription
    name = f"key {printable(key.key)} of {about_subscription(subscription)}"
    owners = ", ".join(map(printable, key.owners))
    ways = (
        (
            "open-at-two",
            key.open_at_two,
            f"{count_of(key.open_at_two.count, 'entry', 'entries')} of {name} came while another consumer held earlier "
            f"ones (it was with {owners})",
        ),
        (
            "backwards",
            key.backwards,
            f"{count_of(key.backwards.count, 'entry', 'entries')} of {name} came behind later ones",
        ),
    )
    doubts = (key.doubts | subscription.doubts) - EDGES
    for cause, seen, what in ways:
        if seen.count:
            yield Finding(
                "key-order-broken",
                "note" if subscription.allow_out_of_order else "error",
                "application" if subscription.allow_out_of_order else "broker",
                certainty(doubts, "likely"),
                {**subscription_subject(subscription), "key": key.key},
                f"{what}{': allowed here' if subscription.allow_out_of_order else ''} ({frames_text(seen.frames)}).",
                seen.first_ns,
                seen.frames,
                "An ACK of the earlier ones, or allowOutOfOrderDelivery in SUBSCRIBE, would make it right."
                + why_unsure(doubts),
                "Check that producers batch by key; `pcli stats keys` shows who had the key when.",
                cause,
            )


RULE = Rule(
    name="key-order-broken",
    group="key",
    facts=("open_at_two", "backwards", "owners", "subscription.allow_out_of_order"),
    title="a key of a Key_Shared subscription with two consumers at once, or out of order",
    issue="apache/pulsar#23309",
    look=look,
)
