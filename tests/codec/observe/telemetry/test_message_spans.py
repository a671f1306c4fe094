"""Spans of messages, from conversations between clients and the mini-broker."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.observe.rules import Finding
from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.telemetry.finding_records import FindingIndex
from pcli.codec.observe.telemetry.message_spans import MessageSpans
from pcli.codec.observe.telemetry.sampling import Sampler
from pcli.codec.observe.telemetry.spans import Link, Span
from pcli.codec.observe.telemetry.trace_ids import trace_id
from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.compression import compress
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

TOPIC = "persistent://public/default/t"
APP, APP_SPAN = 0xABCD << 96 | 0xFF << 48 | 7, 0x1234
OTHER = 0xDCBA << 96 | 0xFE << 48 | 9


def traceparent(trace: int = APP, span: int = APP_SPAN, flags: int = 1) -> list[pb.KeyValue]:
    return [pb.KeyValue(key="traceparent", value=f"00-{trace:032x}-{span:016x}-{flags:02x}")]


def names(spans: list[Span]) -> list[str]:
    return [f"{span.attributes['messaging.operation.name']} {span.kind}" for span in spans]


def events(span: Span) -> list[str]:
    return [event.name for event in span.events]


@pytest.fixture
def play(make_scene: Any) -> Any:
    return make_scene()


@pytest.fixture
def client(play: Any) -> Any:
    """A client with a producer and a consumer of a Shared subscription."""
    client = play.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow()
    return client


def test_a_message_is_sent_and_processed(play, client, export_scene):
    client.publish(0)
    play.wait(20)
    client.ack(client.messages[0].message_id)
    send, process = export_scene(play)
    ids = client.messages[0].message_id
    trace = trace_id("", TOPIC, ids.ledgerId, ids.entryId)
    assert (send.name, process.name) == (f"send {TOPIC}", f"process {TOPIC}")
    assert names([send, process]) == ["send producer", "process consumer"]
    assert (send.trace_id, send.parent_id) == (process.trace_id, 0) == (trace, 0)
    assert (process.parent_id, process.links) == (send.span_id, [Link(trace, send.span_id)])
    assert send.start_ns < send.end_ns <= process.start_ns < process.end_ns - 19_000_000
    assert send.attributes == {
        "messaging.system": "pulsar",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": TOPIC,
        "messaging.client.id": "p",
        "messaging.message.id": f"{ids.ledgerId}:{ids.entryId}:-1",
        "messaging.message.body.size": 3,
        "messaging.pulsar.entry.id": f"{ids.ledgerId}:{ids.entryId}",
        "messaging.pulsar.sequence_id": 0,
        "messaging.pulsar.publish_time": 1_700_000_000_000,
        "messaging.pulsar.state": "acked",
        "client.address": "10.0.0.1",
        "client.port": 40_000,
        "server.address": "10.0.0.2",
        "server.port": 6650,
        "pcli.frame": 12,
        "pcli.frame.end": 13,
        "pcli.stream": 0,
    }
    assert (
        process.attributes.items()
        >= {
            "messaging.destination.subscription.name": "s",
            "messaging.pulsar.subscription.type": "Shared",
            "messaging.pulsar.redelivery.count": 0,
            "messaging.client.id": "c1",
            "pcli.frame": 14,
            "pcli.frame.end": 15,
        }.items()
    )
    assert events(process) == ["acknowledged"]


def test_a_message_joins_the_trace_of_the_application(play, client, export_scene):
    client.publish(0, properties=[*traceparent(), pb.KeyValue(key="tracestate", value="a=b")])
    client.ack(client.messages[0].message_id)
    send, process = export_scene(play)
    assert {(one.trace_id, one.parent_id, one.parent_remote, one.state) for one in (send, process)} == {
        (APP, APP_SPAN, True, "a=b")
    }
    assert names([send, process]) == ["send client", "process consumer"]
    assert send.links == [Link(APP, APP_SPAN, "a=b")]
    assert process.links == [Link(APP, send.span_id), Link(APP, APP_SPAN, "a=b")]


@pytest.mark.parametrize("topic", [TOPIC, "non-persistent://public/default/t"])
def test_the_spans_of_a_consumer_alone_belong_to_the_trace_of_the_producer(make_scene, export_scene, topic):
    play = make_scene()
    producer, consumer = play.actor("10.0.0.1"), play.actor("10.0.0.3")
    producer.producer(topic)
    consumer.subscribe(topic)
    consumer.flow()
    producer.publish(0)
    consumer.ack(consumer.messages[0].message_id)
    send, process = export_scene(play)
    play._events = [one for one in play._events if one[1] is consumer.stream]
    (alone,) = export_scene(play)
    assert (alone.trace_id, alone.span_id, alone.parent_id) == (process.trace_id, process.span_id, send.span_id)
    assert alone.links == process.links


def test_a_negative_acknowledgement_ends_the_span_and_a_redelivery_begins_another(play, client, export_scene):
    client.publish(0, properties=traceparent())
    play.wait(100)
    client.redeliver(client.messages[0].message_id)
    client.ack(client.messages[1].message_id)
    send, first, second = export_scene(play)
    assert names([first, second]) == ["process consumer"] * 2
    assert first.error in ("nack", "requested")
    assert first.attributes["error.type"] == first.error
    assert events(first)[0] in ("negative_acknowledgement", "redelivery_request")
    assert events(second) == ["redelivery", "acknowledged"]
    assert second.attributes["messaging.pulsar.redelivery.count"] == 1
    assert len({send.span_id, first.span_id, second.span_id}) == 3
    assert not second.error


def test_a_message_without_an_ack_is_received_without_a_duration(play, client, export_scene):
    client.publish(0)
    play.wait(1000)
    _, receive = export_scene(play)
    assert names([receive]) == ["receive client"]
    assert receive.start_ns == receive.end_ns
    assert receive.attributes["messaging.pulsar.state"] == "unacked"


def test_a_dead_letter_is_an_event_of_the_last_delivery(play, client, export_scene):
    client.publish(0, properties=traceparent())
    origin = client.messages[0].message_id
    client.producer("persistent://public/default/t-s-DLQ", producer_id=2)
    letter = {
        "REAL_TOPIC": TOPIC,
        "ORIGIN_MESSAGE_ID": f"{origin.ledgerId}:{origin.entryId}:-1",
        "REAL_SUBSCRIPTION": "s",
    }
    client.publish(0, producer_id=2, properties=[pb.KeyValue(key=name, value=value) for name, value in letter.items()])
    client.ack(origin)
    process = next(one for one in export_scene(play) if one.attributes["messaging.operation.name"] == "process")
    assert "dead_letter" in events(process)
    (event,) = [one for one in process.events if one.name == "dead_letter"]
    assert event.attributes["messaging.pulsar.dead_letter.topic"] == "persistent://public/default/t-s-DLQ"


def batch(scene: Any, client: Any, *contexts: Any, compression: int = 0) -> None:
    """Send a batch with a message for each list of properties."""
    payload = join_batch((pb.SingleMessageMetadata(properties=one or ()), b"m") for one in contexts)
    about = {"producer_name": "p", "sequence_id": 0, "publish_time": scene.now, "uncompressed_size": len(payload)}
    metadata = pb.MessageMetadata(**about, num_messages_in_batch=len(contexts), compression=compression)
    send = pb.CommandSend(producer_id=1, sequence_id=0, num_messages=len(contexts))
    client(send, entry=push_entry(metadata, compress(compression, payload)))


@pytest.mark.parametrize("compression", [0, 2])
def test_a_batch_has_spans_in_the_trace_of_each_message(play, client, export_scene, compression):
    batch(play, client, traceparent(), traceparent(OTHER), traceparent(), None, compression=compression)
    client.ack(client.messages[0].message_id)
    spans = export_scene(play)
    ids = client.messages[0].message_id
    own = trace_id("", TOPIC, ids.ledgerId, ids.entryId)
    counts = {one.trace_id: one.attributes["messaging.batch.message_count"] for one in spans}
    assert counts == {APP: 2, OTHER: 1, own: 1}
    assert {one.trace_id: one.attributes["messaging.pulsar.batch.indexes"] for one in spans} == {
        APP: (0, 2), OTHER: (1,), own: (3,),
    }  # fmt: skip
    sends = {one.trace_id: one for one in spans if one.name.startswith("send")}
    assert {link.trace_id for link in sends[own].links} == {APP, OTHER}
    assert len(spans) == 6


def test_a_batch_of_one_trace_is_one_span(play, client, export_scene):
    batch(play, client, traceparent(), traceparent())
    send, _ = export_scene(play)
    assert (send.trace_id, send.attributes["messaging.batch.message_count"]) == (APP, 2)
    assert "messaging.pulsar.batch.indexes" not in send.attributes
    assert "messaging.message.id" not in send.attributes


def test_messages_of_one_creation_span_share_their_span_although_their_headers_differ(play, client, export_scene):
    """Two spans would have the same id. The application exports the trace if one of the headers has the flag."""
    b3 = [pb.KeyValue(key="b3", value=f"{APP:032x}-{APP_SPAN:016x}")]
    batch(play, client, traceparent(flags=0), traceparent(), b3)
    spans = export_scene(play)
    assert names(spans) == ["send client", "receive client"]
    assert [one.attributes["messaging.batch.message_count"] for one in spans] == [3, 3]


def test_each_message_of_a_batch_ends_with_its_own_ack(make_scene, export_scene):
    play = make_scene(acknowledgmentAtBatchIndexLevelEnabled=True)
    client = play.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow()
    batch(play, client, traceparent(), traceparent(OTHER))
    place = pb.MessageIdData()
    place.CopyFrom(client.messages[0].message_id)
    play.wait(10)
    place.ack_set.append(0b10)
    client.ack(place)
    play.wait(10)
    client.ack(client.messages[0].message_id)
    ends = {one.trace_id: one.end_ns for one in export_scene(play) if one.name.startswith("process")}
    assert ends[OTHER] - ends[APP] > 9_000_000


def test_a_refused_message_is_an_error(play, client, export_scene):
    play.fault("error error=PersistenceError on pulsar.type == 'SEND_RECEIPT'")
    play.fault("drop on pulsar.type == 'SEND'")
    client.publish(0)
    client.cut(reset=True)
    (span,) = export_scene(play)
    assert (span.error, events(span)) == ("lost", ["lost"])


def test_clocks_that_differ_do_not_reverse_a_span(play, client, export_scene):
    client.publish(0)
    play.wait(50)
    client.ack(client.messages[0].message_id)
    events = play._events
    # The capture of the host that acknowledged has a clock that is a second behind.
    play._events = [(*one[:2], one[2] - 1_000_000_000 * (number == len(events) - 1), *one[3:])
                    for number, one in enumerate(events)]  # fmt: skip
    process = next(one for one in export_scene(play) if one.name.startswith("process"))
    assert process.end_ns == process.start_ns
    assert 900 < process.attributes["pcli.clock_skew_ms"] < 1000


def test_sampling_selects_the_same_messages_in_every_capture(play, client, export_scene):
    for number in range(200):
        client.publish(number)
    client.ack(*[one.message_id for one in client.messages])
    half = export_scene(play, MessageSpans(sampler=Sampler(0.5)))
    tenth = export_scene(play, MessageSpans(sampler=Sampler(0.1)))
    traces = [{one.trace_id for one in some} for some in (export_scene(play), half, tenth)]
    assert traces[2] < traces[1] < traces[0]
    assert 70 < len(traces[1]) < 130
    assert export_scene(play, MessageSpans(sampler=Sampler(0))) == []


def test_messages_that_the_application_does_not_sample_are_not_exported(play, client, export_scene):
    client.publish(0, properties=traceparent(flags=0))
    client.publish(1, properties=traceparent(flags=1))
    assert {one.attributes["messaging.pulsar.sequence_id"] for one in export_scene(play)} == {1}


def test_messages_with_findings_are_always_exported(play, client, export_scene):
    for number in range(40):
        client.publish(number)
    for _ in range(12):
        client.redeliver(client.messages[0].message_id)
    client.ack(*[one.message_id for one in client.messages[1:40]])
    spans = export_scene(play, MessageSpans(sampler=Sampler(0)), findings=True)
    found = [event for span in spans for event in span.events if event.name == "finding"]
    assert found
    assert {span.attributes["messaging.pulsar.entry.id"] for span in spans} == {"0:0"}
    assert all(event.attributes["pcli.finding.rule"] for event in found)


def test_a_finding_whose_severity_has_risen_is_one_event():
    """A diagnosis of live traffic reports it twice, the second time with more evidence."""
    found = [
        Finding(severity, "certain", Cause("broker"), {"topic": "t"}, "stuck", 1, frames)
        for severity, frames in (("note", [1]), ("error", [2]))
    ]
    assert [*FindingIndex(found).of([2, 1])] == found[1:]


def test_a_malformed_header_is_counted_and_the_message_has_a_trace_of_its_own(play, client, export_scene):
    client.publish(0, properties=[pb.KeyValue(key="traceparent", value="00-nothing")])
    messages = MessageSpans()
    send, _ = export_scene(play, messages)
    assert (send.parent_id, messages.contexts.malformed) == (0, {"traceparent": 1})


def test_headers_of_ended_lifecycles_are_dropped(play, client, export_scene):
    for number in range(50):
        client.publish(number, properties=traceparent(span=number + 1))
    client.ack(*[one.message_id for one in client.messages])
    messages = MessageSpans()
    assert len(export_scene(play, messages)) == 100
    assert messages.contexts.peek(range(1000)) == ()
