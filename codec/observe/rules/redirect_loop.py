"""Lookups that go round in circles: brokers that send a client to each other, and none that serves the topic.

## What it means

LOOKUP asks which broker owns a topic. A broker that does not own it answers Redirect with the address of the one that
it takes for the owner. When that one sends the client back, both believe in the other, and the client runs in circles
until it gives up: newer clients count the redirects, old ones did not and ran out of stack.

## On the wire

LOOKUP, LOOKUP_RESPONSE Redirect at one broker, the same topic at the other, and at the first again, within ten seconds.

## What speaks for the opposite

A LOOKUP_RESPONSE of type Connect for the same topic. Two redirects by the same broker are no circle: two producers or
consumers ask one after the other.

## What to do

The brokers disagree about who owns the bundle of the topic: none is the leader, or one has lost its session with the
metadata store. Look at their logs; unloading the bundle makes them decide anew. Old C++ clients never set
``authoritative`` in the second LOOKUP, which keeps the circle going: update them.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_host, host_subject
from pcli.codec.observe.rules.wording import times
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.connection_records import HostRecord

__all__ = ["RULE", "look"]


def look(host: HostRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding for each server that takes part."""
    loops = host.redirect_loops
    if not loops.count:
        return
    yield Finding(
        "redirect-loop",
        "error",
        "broker",
        "certain",
        host_subject(host),
        f"LOOKUPs for {printable(loops.sample)} go in circles: {about_host(host)} was redirected, came back, and was "
        f"redirected again, {times(loops.count)}.",
        loops.first_ns,
        loops.frames,
        "A LOOKUP_RESPONSE of type Connect among them, from either broker: within ten seconds there is none.",
        "The brokers disagree about who owns the topic's bundle. Unload it, and look at their metadata store sessions.",
    )


RULE = Rule(
    name="redirect-loop",
    group="host",
    facts=("redirect_loops",),
    title="lookups that brokers redirect to each other",
    issue="apache/pulsar#7041",
    look=look,
)
