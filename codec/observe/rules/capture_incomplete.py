"""Data that the capture does not contain.

## What it means

An event that is missing from the capture cannot be distinguished from an event that did not happen. This finding lists
everything that is missing: gaps (packets that the capture lost), connections that began before the capture, directions
that were not captured, packets truncated by a snap length, packets of unknown link types, files that end early, and
records that were evicted to limit memory.

## On the wire

Sequence numbers that skip bytes which the other side acknowledges; frames of connections without SYN and CONNECT;
packets whose captured length is below their original length.

## What would disprove it

Nothing: the data is missing. If missing data could explain a finding, the finding mentions it and has a lower
certainty.

## What to do

Start the capture before the clients connect, or restart the clients. Capture both directions on the relevant host, with
whole packets (`-s 0`), a large buffer (`tcpdump -B 65536`) and a filter for the port.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import count_of
from pcli.codec.observe.text_format import size_text
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord


@rule(
    "capture",
    facts=("gaps", "gap_bytes", "midstream", "one_way", "cut", "unread", "damaged", "unfinished", "evicted"),
    title="data that the capture does not contain",
    issue="apache/pulsar#23262",
)
def evaluate(capture: CaptureRecord, _moment: Moment) -> Iterator[Finding]:
    """Return one finding that lists all missing data."""
    missing = list(_missing_data(capture))
    if missing:
        yield Finding(
            "note",
            "certain",
            Cause("capture"),
            {"capture": "all inputs"},
            f"The capture is incomplete: {'; '.join(missing)}.",
            capture.gaps.first_ns or capture.first_ns,
            capture.gaps.frames,
            "If missing data could explain a finding, the finding mentions it and has a lower certainty.",
            "Start the capture before the clients connect. Capture both directions on the relevant host with whole "
            "packets (-s 0) and a large buffer (-B).",
        )


def _missing_data(capture: CaptureRecord) -> Iterator[str]:
    if capture.gaps.count:
        yield f"{count_of(capture.gaps.count, 'gap')} of {size_text(capture.gap_bytes)} in total"
    if capture.midstream:
        yield f"{count_of(capture.midstream, 'connection')} that began earlier (names and permits are unknown)"
    if capture.one_way:
        yield f"{count_of(capture.one_way, 'connection')} with only one direction"
    if capture.cut:
        yield "truncated packets (snap length), so that payloads and frames are missing"
    yield from capture.unread
    if capture.damaged:
        yield "a truncated or damaged file"
    if capture.unfinished:
        yield f"{count_of(capture.unfinished, 'incomplete frame')}"
    for kind, count in capture.evicted.items():
        yield f"{count_of(count, f'{kind} record')} evicted to limit memory"
