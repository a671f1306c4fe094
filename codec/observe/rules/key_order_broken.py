"""The order of a key was violated: two consumers held its messages at once, or a later message was delivered first.

## What it means

Key_Shared guarantees that at most one consumer holds messages of a key, and that messages of a key are delivered in the
order in which they were published. Here a message was delivered while another consumer held an earlier message with the
same key, or messages of a key were first delivered in a different order. Applications that rely on the order process
such messages incorrectly.

## On the wire

MESSAGE with a key to consumer A, no ACK, MESSAGE with the same key to consumer B; or MESSAGE 7:12 before the first
delivery of MESSAGE 7:10 with the same key.

## What would disprove it

If SUBSCRIBE contains `allowOutOfOrderDelivery`, any order is allowed, and the finding is a note. A batch with several
keys is dispatched by the key of its first message, and this rule compares only these keys. Brokers compare the hashes
of keys. Delayed messages arrive late on purpose.

## What to do

Report the problem with the broker's version, the dispatcher type (classic or not) and this capture. `pcli stats keys`
shows which consumer held the key at which time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_subscription, count_of, frames_text, subscription_subject
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.topic_records import KeyRecord

_ORDER: Final = Cause(
    "broker",
    "likely",
    (
        "a proxy that changed the order of the messages",
        "a SUBSCRIBE before the capture that allows delivery out of order",
    ),
    "A capture on the broker's host.",
)


@rule(
    "key",
    facts=("open_at_two", "backwards", "owners", "subscription.allow_out_of_order"),
    title="a key of a Key_Shared subscription whose messages two consumers hold at once or receive out of order",
    issue="apache/pulsar#23309",
)
def evaluate(key: KeyRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for both kinds of violation."""
    subscription = key.subscription
    name = f"key {printable(key.key)} of {about_subscription(subscription)}"
    owners = ", ".join(map(printable, key.owners))
    violations = (
        (
            "open-at-two",
            key.open_at_two,
            f"{count_of(key.open_at_two.count, 'message')} of {name} "
            f"{'was' if key.open_at_two.count == 1 else 'were'} delivered while another consumer held earlier "
            f"messages, and the consumers of the key were {owners}",
        ),
        (
            "backwards",
            key.backwards,
            f"{count_of(key.backwards.count, 'message')} of {name} "
            f"{'was' if key.backwards.count == 1 else 'were'} delivered after later messages",
        ),
    )
    for cause, seen, what in violations:
        if seen.count:
            yield Finding(
                "note" if subscription.allow_out_of_order else "warning",
                "likely",
                Cause("application") if subscription.allow_out_of_order else _ORDER,
                {**subscription_subject(subscription), "key": key.key},
                f"{what}{', which is allowed here' if subscription.allow_out_of_order else ''} "
                f"({frames_text(seen.frames)}).",
                opposite="An ACK of the earlier messages, or allowOutOfOrderDelivery in SUBSCRIBE, would disprove the "
                "finding.",
                advice="Report the problem with the broker's version. `pcli stats keys` shows which consumer held the "
                "key at which time.",
                variant=cause,
                seen=seen,
                doubts=(key.doubts | subscription.doubts) - EDGES,
            )
