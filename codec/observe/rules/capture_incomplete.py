"""What the capture itself does not show.

## What it means

What is missing in the capture cannot be told from what never happened. This lists all that is missing: holes (packets
that the sniffer lost), connections that began before, directions that were not captured, packets cut by a snap length,
files that end in the middle, and what was dropped to bound the memory.

## On the wire

Sequence numbers that leave bytes out which the other side acknowledges; frames of connections without SYN and CONNECT;
a packet's captured length below its own.

## What speaks for the opposite

Nothing: this is about what is not there. Findings that it could explain say so and are less sure.

## What to do

Begin to capture before the clients connect, or restart them. Capture both directions on the host whose view you need,
with whole packets (`-s 0`) and a large buffer (`tcpdump -B 65536`), on the one port.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.wording import count_of
from pcli.codec.observe.text_format import size_text
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord

__all__ = ["RULE", "look"]


def look(capture: CaptureRecord, _moment: Moment) -> Iterator[Finding]:
    """One finding, which lists all."""
    holes = list(_holes(capture))
    if holes:
        yield Finding(
            "capture-incomplete",
            "note",
            "capture",
            "certain",
            {"capture": "all inputs"},
            f"The capture does not show all: {'; '.join(holes)}.",
            capture.gaps.first_ns or capture.first_ns,
            capture.gaps.frames,
            "Findings that this could explain say so, and are less sure.",
            "Capture before the clients connect, both directions, with whole packets (-s 0), a large buffer (-B), and "
            "on the host whose view you need.",
        )


def _holes(capture: CaptureRecord) -> Iterator[str]:
    if capture.gaps.count:
        yield f"{count_of(capture.gaps.count, 'hole')} of {size_text(capture.gap_bytes)} in connections"
    if capture.midstream:
        yield f"{count_of(capture.midstream, 'connection')} began before it: names and permits are unknown there"
    if capture.one_way:
        yield f"{count_of(capture.one_way, 'connection')} with one direction only"
    if capture.cut:
        yield "packets are cut (snap length), so that payloads and frames are missing"
    if capture.damaged:
        yield "a file is cut or damaged"
    if capture.unfinished:
        yield f"{count_of(capture.unfinished, 'frame')} without an end"
    for kind, count in capture.evicted.items():
        yield f"{count_of(count, f'{kind} record')} dropped to bound the memory"


RULE = Rule(
    name="capture-incomplete",
    group="capture",
    facts=("gaps", "gap_bytes", "midstream", "one_way", "cut", "damaged", "unfinished", "evicted"),
    title="what is missing in the capture",
    issue="apache/pulsar#23262",
    look=look,
)
