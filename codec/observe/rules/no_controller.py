"""A scalable topic without a controller, which is therefore never split, merged or pruned automatically.

## What it means

All automatic changes of a layout run in the controller of the topic. The broker elects the controller at the first
registration of a stream or checkpoint consumer or at the first request of an administrator (statistics, split, merge).
Producers and queue consumers alone elect none. A topic that has only such clients keeps its layout, whatever its load.

## On the wire

SCALABLE_TOPIC_UPDATEs without controller_broker_url, in sessions that last longer than the interval of the automatic
changes.

## What would disprove it

A SCALABLE_TOPIC_UPDATE with a controller.

## What to do

Request the statistics of the topic once, for example from a monitoring job: `GET
/admin/v2/scalable/TENANT/NAMESPACE/TOPIC/stats`. This elects a controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import count_of, span
from pcli.codec.observe.rules.segment_text import topic_text
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord

_DURATION: Final = Threshold("no-controller.duration", 60_000_000_000, "minimum time without a controller")


@rule(
    "scalable_topic",
    facts=("controller", "updates", "layout", "sessions", "consumers", "first_ns"),
    title="a scalable topic without a controller",
    issue="PIP-483",
    thresholds=(_DURATION,),
)
def evaluate(topic: ScalableTopicRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if no layout has named a controller for longer than the limit."""
    layout = topic.layout
    if layout is None or layout.classic or topic.controller or topic.first_ns < 0 or topic.consumers:
        return
    ended = [one.ended_ns for one in topic.sessions]
    until_ns = moment.now_ns if -1 in ended else max(ended)
    if until_ns - topic.first_ns < moment.value(_DURATION):
        return
    yield Finding(
        "note",
        "certain",
        Cause("broker"),
        {"topic": topic.name},
        f"{topic_text(topic)} had no controller for {span(until_ns - topic.first_ns)}, in "
        f"{count_of(topic.updates, 'layout')}: it is not split, merged or pruned automatically.",
        topic.first_ns,
        [topic.sessions[0].epochs[0][2]] if topic.sessions and topic.sessions[0].epochs else [],
        "A layout with a controller would disprove the finding; there is none.",
        "Request the statistics of the topic once; the broker then elects a controller.",
        doubts=topic.doubts,
    )
