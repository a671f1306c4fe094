"""Spans and log records in the types of OpenTelemetry's SDK, with values that its exporters can encode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from pcli.codec.observe.telemetry.spans import Attributes, LogRecord, Span
    from pcli.codec.observe.telemetry.spans import Link as SpanLink

_LIMIT: Final = 1 << 63
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_KINDS: Final = {"producer": SpanKind.PRODUCER, "consumer": SpanKind.CONSUMER, "client": SpanKind.CLIENT}
_SEVERITIES: Final = {
    "error": ("ERROR", SeverityNumber.ERROR), "warning": ("WARN", SeverityNumber.WARN),
    "note": ("INFO", SeverityNumber.INFO),
}  # fmt: skip


def sdk_span(span: Span, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    """Return an ended span."""
    parent = _context(span.trace_id, span.parent_id, remote=span.parent_remote) if span.parent_id else None
    return ReadableSpan(
        _text(span.name),
        _context(span.trace_id, span.span_id, span.state),
        parent,
        resource,
        _encodable(span.attributes),
        [Event(one.name, _encodable(one.attributes), one.time_ns) for one in span.events],
        [_link(one, span) for one in span.links],
        _KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=scope,
    )


def _link(link: SpanLink, span: Span) -> Link:
    """Return a link. Jaeger would show a link to the parent instead of the parent, without this attribute."""
    attributes = {"opentracing.ref_type": "child_of"} if link.span_id == span.parent_id else None
    return Link(_context(link.trace_id, link.span_id, link.state), attributes)


def sdk_log(record: LogRecord, resource: Resource, scope: InstrumentationScope) -> ReadableLogRecord:
    """Return a log record."""
    text, number = _SEVERITIES[record.severity]
    found = ApiLogRecord(
        timestamp=record.time_ns,
        observed_timestamp=record.time_ns,
        trace_id=record.trace_id,
        span_id=record.span_id,
        trace_flags=_SAMPLED if record.trace_id else TraceFlags.get_default(),
        severity_text=text,
        severity_number=number,
        body=_text(record.body),
        attributes=_encodable(record.attributes),
    )
    return ReadableLogRecord(found, resource, scope)


def _encodable(attributes: Attributes) -> Attributes:
    """Return attributes that OTLP can contain: text of a peer can have surrogates, and its numbers 64 unsigned bits."""
    return {
        name: _text(value)
        if isinstance(value, str)
        else str(value)
        if isinstance(value, int) and not -_LIMIT <= value < _LIMIT
        else value
        for name, value in attributes.items()
    }


def _text(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def _context(trace_id: int, span_id: int, state: str = "", *, remote: bool = False) -> SpanContext:
    trace_state = TraceState.from_header([state]) if state else None
    return SpanContext(trace_id, span_id, remote, _SAMPLED, trace_state)
