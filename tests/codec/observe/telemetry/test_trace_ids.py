"""Trace headers in the properties of messages, and stable trace ids."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.observe.telemetry.trace_ids import (
    Headers,
    TraceContext,
    headers_of,
    is_marked,
    publication_trace_id,
    span_id,
    trace_id,
    trace_text,
)

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
T, S = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SHORT = int(T[16:], 16)
TOPIC = "persistent://public/default/orders"


@pytest.mark.parametrize(
    ("properties", "context"),
    [
        ({"traceparent": f"00-{T}-{S}-01"}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": f"00-{T}-{S}-00"}, TraceContext(TRACE, SPAN, False)),
        ({"Traceparent": f" 00-{T}-{S}-03 "}, TraceContext(TRACE, SPAN, True)),
        ({"traceparent": f"cc-{T}-{S}-01-what-the-future-adds"}, TraceContext(TRACE, SPAN, True)),
        (
            {"traceparent": f"00-{T}-{S}-01", "tracestate": "rojo=00f067,congo=t61 cWkMz"},
            TraceContext(TRACE, SPAN, True, "rojo=00f067,congo=t61 cWkMz"),
        ),
        ({"traceparent": f"00-{T}-{S}-01", "tracestate": "no value"}, TraceContext(TRACE, SPAN, True)),
        ({"b3": f"{T}-{S}-1"}, TraceContext(TRACE, SPAN, True)),
        ({"b3": f"{T[16:]}-{S}-d-{S}"}, TraceContext(SHORT, SPAN, True)),
        ({"b3": f"{T}-{S}"}, TraceContext(TRACE, SPAN, None)),
        ({"X-B3-TraceId": T, "X-B3-SpanId": S, "X-B3-Sampled": "0"}, TraceContext(TRACE, SPAN, False)),
        ({"x-b3-traceid": T[16:], "x-b3-spanid": S}, TraceContext(SHORT, SPAN, None)),
        ({"X-B3-TraceId": T, "X-B3-SpanId": S, "X-B3-Flags": "1"}, TraceContext(TRACE, SPAN, True)),
        ({"uber-trace-id": f"{T}:{S}:0:1"}, TraceContext(TRACE, SPAN, True)),
        ({"uber-trace-id": f"{T}%3A{S.lstrip('0')}%3A0%3A2"}, TraceContext(TRACE, SPAN, False)),
        (
            {"uber-trace-id": f"{T}:{S}:0:1", "traceparent": f"00-{S}{S}-{S}-01"},
            TraceContext(int(S * 2, 16), SPAN, True),
        ),
    ],
)
def test_a_header_names_the_span_that_created_the_message(properties, context):
    assert headers_of(properties.items()) == Headers(context)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("traceparent", ""),
        ("traceparent", f"00-{T.upper()}-{S}-01"),
        ("traceparent", f"00-{T}-{S}-01-more"),
        ("traceparent", f"ff-{T}-{S}-01"),
        ("traceparent", f"00-{'0' * 32}-{S}-01"),
        ("traceparent", f"00-{T}-{'0' * 16}-01"),
        ("b3", f"{T}-{S}-7"),
        ("x-b3-traceid", T),
        ("uber-trace-id", f"{T}:{S}:1"),
    ],
)
def test_a_malformed_header_is_named(name, value):
    assert headers_of([(name, value)]) == Headers(None, name)


def test_the_next_format_replaces_a_malformed_header():
    found = headers_of([("traceparent", "00-x"), ("b3", f"{T}-{S}-1")])
    assert found == Headers(TraceContext(TRACE, SPAN, True), "traceparent")


def test_messages_without_trace_headers_have_none():
    assert headers_of([("colour", "red"), ("b3x", T)]) == headers_of([]) == headers_of([("b3", "0")]) == Headers()


@given(
    st.dictionaries(st.sampled_from(["traceparent", "tracestate", "b3", "x-b3-traceid", "uber-trace-id"]), st.text())
)
def test_every_value_is_a_context_or_malformed(properties):
    found = headers_of(properties.items())
    assert found.context is None or (found.context.trace_id and found.context.span_id)


def test_a_frame_with_the_name_of_a_header_is_marked():
    frame = b"....\x0b" + b"Traceparent" + b"...."
    assert is_marked(frame, 0, len(frame))
    assert not is_marked(frame, 0, 12)


def test_the_id_of_a_message_is_that_of_its_cluster_topic_and_message_id():
    digest = sha256(f"pulsar\0east\0{TOPIC}\0{7}:{12}\0".encode()).hexdigest()
    assert trace_text(trace_id("east", TOPIC, 7, 12)) == digest[:32]
    others = [("west", TOPIC, 7, 12), ("east", f"{TOPIC}-partition-0", 7, 12), ("east", TOPIC, 71, 2)]
    assert len({trace_id("east", TOPIC, 7, 12), *(trace_id(*other) for other in others)}) == 4


def test_a_message_without_an_id_is_known_by_its_publication():
    one = publication_trace_id("", TOPIC, "till", 4, 1_700_000_000_000, 0xCAFE)
    digest = sha256(f"pulsar\0\0{TOPIC}\0till\0{4}\0{1_700_000_000_000}\0{0xCAFE}\0".encode()).hexdigest()
    assert trace_text(one) == digest[:32]
    assert span_id(one, "send") != span_id(one, "receive")
    assert span_id(one, "send") < 1 << 64 <= one < 1 << 128
