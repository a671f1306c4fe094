"""Messages that the same consumer received twice without a cause on the wire.

## What it means

There was no negative acknowledgement, timeout, reconnect, seek or other consumer: the broker resent an entry that its
consumer still held or had acknowledged. This should not happen. Known causes are races in the broker: a rewind during a
replay read, delayed messages that were tracked twice, or two reads of the same entry.

## On the wire

MESSAGE, MESSAGE with the same ledger and entry to the same consumer id, on one connection, without a
REDELIVER_UNACKNOWLEDGED_MESSAGES in between.

## What would disprove it

Events that the capture does not contain: another consumer on a connection that was not captured may have joined and
left; an administrator may have reset the cursor or unloaded the topic. The finding is therefore likely, never certain.

## What to do

Check the broker's log at the time of the second MESSAGE. Report the problem to the developers of the broker. State its
version and attach this capture.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.redelivery_rule_factory import Redelivery, redelivery_rule

__all__ = ["RULE"]

_REDELIVERIES: Final = {
    "twice": Redelivery(
        Cause(
            "broker",
            "likely",
            ("a redelivery request, a SEEK or a consumer that was not captured",),
            "The broker's log at that time, and `topics stats`.",
        ),
        "to the same consumer without a cause on the wire",
        "A redelivery request, a SEEK, a reconnect or another consumer in between would disprove the finding; there is "
        "none.",
        "Check the broker's log at that time, and report the problem with the broker's version.",
        "likely",
        "warning",
    ),
}

RULE = redelivery_rule(
    "redelivered-without-cause",
    "messages that were delivered twice without a cause on the wire",
    "apache/pulsar#150",
    _REDELIVERIES,
)
