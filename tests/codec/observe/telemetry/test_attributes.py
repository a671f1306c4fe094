"""The table of attributes and what the spans of all captures contain."""

from __future__ import annotations

from pcli.codec.observe.telemetry.attributes import ATTRIBUTES, EVENTS
from pcli.codec.observe.telemetry.message_spans import MessageSpans


def test_the_captures_have_no_other_attributes_and_no_reversed_span(small, export_data):
    known = {one.name for one in ATTRIBUTES}
    events = {one.name for one in EVENTS}
    seen: set[str] = set()
    for name in small.names():
        for span in export_data(small.data(name), MessageSpans("east"), findings=True):
            assert 0 < span.start_ns <= span.end_ns, name
            seen |= set(span.attributes).union(*(event.attributes for event in span.events))
            assert {event.name for event in span.events} <= events, name
            assert all(event.time_ns > 0 for event in span.events), name
    assert seen <= known
    assert len(seen) > 35


def test_no_attribute_contains_a_key_or_a_property(small, export_data):
    """The captures have batches of messages with keys and properties, and messages of ordered keys."""
    for name in ("python/02-batched-keys-properties", "java/key-shared-sticky"):
        sent = [one for one in small.truth(name)["events"] if one["type"] == "produced"]
        secrets = {str(one[field]) for one in sent for field in ("key", "ordering_key") if one.get(field)}
        secrets |= {value for one in sent for value in one.get("properties", {}).values() if len(value) > 3}
        spans = export_data(small.data(name), findings=True)
        values = [value for span in spans for one in (span, *span.events) for value in one.attributes.values()]
        assert len(secrets) > 3
        assert not [value for value in values if any(secret in str(value) for secret in secrets)], name
