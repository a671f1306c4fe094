"""Lookups that brokers redirect to each other, while none of them serves the topic.

## What it means

LOOKUP requests the address of the broker that owns a topic. A broker that does not own it responds with Redirect and
the address of the presumed owner. If that broker redirects the client back, each broker considers the other broker the
owner, and the client follows redirects until it gives up. Newer clients limit the number of redirects; old clients did
not and overflowed the stack.

## On the wire

A LOOKUP with a Redirect response at one broker, then at the other broker for the same topic, and then again at the
first broker, all within ten seconds.

## What would disprove it

A LOOKUP_RESPONSE of type Connect for the same topic. Two redirects by the same broker are not a loop: two producers or
consumers sent a lookup one after the other.

## What to do

The brokers disagree about the owner of the topic's bundle: there is no leader, or a broker has lost its session with
the metadata store. Check their logs. Unloading the bundle triggers a new assignment. Old C++ clients never set
`authoritative` in the second LOOKUP, which prolongs the loop: update these clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import about_host, host_subject
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Rule
from pcli.codec.observe.rules.finding_text import times
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.connection_records import HostRecord

__all__ = ["RULE", "evaluate"]

_OWNERS: Final = Cause(
    "broker",
    "likely",
    ("a load balancer that sends the lookups to different brokers",),
    "The owner of the topic's bundle according to each broker (`topics lookup`).",
)


def evaluate(host: HostRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding for each server that takes part in the loop."""
    loops = host.redirect_loops
    if not loops.count:
        return
    yield Finding(
        "redirect-loop",
        "error",
        "certain",
        _OWNERS,
        host_subject(host),
        f"LOOKUPs for {printable(loops.sample)} are redirected in a loop: {about_host(host)} was redirected, returned, "
        "and "
        f"was redirected again, {times(loops.count)}.",
        loops.first_ns,
        loops.frames,
        "A LOOKUP_RESPONSE of type Connect from either broker within ten seconds would disprove the finding; there "
        "is none.",
        "The brokers disagree about the owner of the topic's bundle. Unload the bundle, and check the "
        "brokers' sessions with the metadata store.",
        count=loops.count,
    )


RULE = Rule(
    name="redirect-loop",
    group="host",
    facts=("redirect_loops",),
    title="lookups that brokers redirect to each other",
    issue="apache/pulsar#7041",
    evaluate=evaluate,
)
