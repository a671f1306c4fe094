"""The spans of the messages of a capture that the sampling selects.

Rules of this file
1. `see` receives every frame once, in order, before the tracker that completes the lifecycles.
2. A message is selected if it meets the filter and the rate, or if one of its frames is evidence of a finding.
3. Messages of the broker's own topics, and lifecycles that continue on another segment, have no spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.rules import Finding
from pcli.codec.observe.telemetry.finding_records import FindingIndex, finding_event
from pcli.codec.observe.telemetry.lifecycle_spans import MessageTrace, frames_of, message_trace_id, traces_of
from pcli.codec.observe.telemetry.message_contexts import MessageContexts
from pcli.codec.observe.telemetry.sampling import Sampler
from pcli.codec.observe.telemetry.spans import Attributes, Span
from pcli.codec.observe.tracking.lifecycle_filter import LifecycleFilter, is_system
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle

MAX_FINDINGS: Final = 10_000
"""Maximum number of findings whose first span is kept."""

_MAX_STREAMS: Final = 20_000
"""Maximum number of connections whose addresses are kept."""


class MessageSpans:
    """The source of the spans of a capture."""

    def __init__(
        self, cluster: str = "", sampler: Sampler | None = None, wanted: LifecycleFilter | None = None
    ) -> None:
        """``cluster`` is a part of the stable trace ids. ``wanted`` is the filter; None selects all messages."""
        self.contexts = MessageContexts()
        self.findings = FindingIndex()
        self.messages = 0
        """Number of complete lifecycles."""
        self.exported = 0
        """Number of those that were selected."""
        self.first_spans: BoundedDict[tuple[Any, ...], tuple[int, int]] = BoundedDict(MAX_FINDINGS)
        """The trace and the span of the first message with a finding, by the identity of the finding."""
        self._cluster = cluster
        self._sampler = sampler or Sampler()
        self._wanted = wanted
        self._streams: BoundedDict[int, Attributes] = BoundedDict(_MAX_STREAMS)

    def see(self, facts: Facts) -> None:
        """Process a frame."""
        stream = facts.frame.stream
        if stream.number not in self._streams:
            (client, client_port), (server, server_port) = stream.client, stream.server
            self._streams[stream.number] = {
                "client.address": client, "client.port": client_port,
                "server.address": server, "server.port": server_port,
            }  # fmt: skip
        self.contexts.see(facts)

    def spans(self, lifecycle: Lifecycle, *, final: bool = True) -> list[Span]:
        """Return the spans of a lifecycle; none if the message is not selected.

        If ``final`` is false, the lifecycle may continue, and this method may be called for it again.
        """
        frames = [*frames_of(lifecycle)]
        contexts = self.contexts.take(frames) if final else self.contexts.peek(frames)
        if lifecycle.continued or is_system(lifecycle):
            return []
        self.messages += final
        found = [*self.findings.of(all_frames(lifecycle))] if self.findings else []
        wanted = self._wanted is None or self._wanted.holds(lifecycle)
        keeps = self._sampler.keeps
        if not found and not (wanted and (contexts or keeps(message_trace_id(lifecycle, self._cluster)))):
            return []
        traces = traces_of(lifecycle, contexts, self._cluster, lambda stream: self._streams.get(stream, {}))
        spans = [
            span for trace in traces if found or keeps(trace.trace_id, sampled=trace.sampled) for span in trace.spans
        ]
        self.exported += final and bool(spans)
        for finding in found:
            self._add_finding(finding, traces)
        return spans

    def _add_finding(self, finding: Finding, traces: Iterable[MessageTrace]) -> None:
        for trace in traces:
            for span in trace.spans:
                if not _frames(span).isdisjoint(finding.frames):
                    span.events.append(finding_event(finding, span))
                    self.first_spans.setdefault(finding.identity, (span.trace_id, span.span_id))


def all_frames(lifecycle: Lifecycle) -> Iterator[int]:
    """Yield the frames of a lifecycle. 0 is an unknown frame."""
    yield from frames_of(lifecycle)
    for one in (lifecycle, *lifecycle.earlier):
        yield one.receipt_frame
    yield from (frame for _, frame, _ in lifecycle.dead_letters)
    for deliveries in lifecycle.deliveries.values():
        for delivery in deliveries:
            yield delivery.again[0]
            for ack in delivery.acks:
                yield ack.frame
                yield ack.answer_frame


def _frames(span: Span) -> set[int]:
    """Return the frames of a span and of its events."""
    found = {span.attributes.get("pcli.frame"), span.attributes.get("pcli.frame.end")}
    found |= {event.attributes.get("pcli.frame") for event in span.events}
    chunks = span.attributes.get("pcli.frame.chunks", ())
    return {one for one in (*found, *(chunks if isinstance(chunks, tuple) else ())) if isinstance(one, int)}
