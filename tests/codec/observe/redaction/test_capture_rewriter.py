"""Rewritten captures: the same conversation packet by packet, without application data."""

import io
import random

import pytest
from google.protobuf.descriptor import FieldDescriptor

from pcli.codec.capture import (
    CapturedFrame,
    Note,
    Packet,
    PcapngWriter,
    ReadOptions,
    TcpRecorder,
    read_capture,
    read_packets,
)
from pcli.codec.errors import LocalError
from pcli.codec.observe import Observer
from pcli.codec.observe.bit_set import Bits
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.redaction import CaptureRewriter, Names, Selection, capture_rewriter, select_around
from pcli.codec.observe.redaction.frame_selection import EVERYTHING
from pcli.codec.observe.redaction.messages import FIELDS
from pcli.codec.payload import open_entry
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame

SMALL = [
    "flex/01-produce-consume", "flex/04-reconnect", "go/batch-index", "go/chunks", "go/compressions", "go/nack",
    "java/broker-entry-metadata", "java/key-shared-sticky", "java/late-capture", "java/pattern-watcher",
    "java/refusals", "java/scalable-topic", "java/schemas", "java/size-limits", "java/txn-commit",
    "python/01-exclusive-unbatched", "python/02-batched-keys-properties", "python/08-encrypted",
]  # fmt: skip


def rewritten(data, selection=EVERYTHING, **options):
    out = io.BytesIO()
    work = CaptureRewriter(Names(**options), selection)
    work.prepare(read_packets([("", io.BytesIO(data))]))
    work.write(read_packets([("", io.BytesIO(data))]), PcapngWriter(out))
    return out.getvalue()


def events(data):
    return list(read_capture([("", io.BytesIO(data))], ReadOptions(ends=True)))


def outline(event):
    """Return the attributes of an event that redaction must keep."""
    if isinstance(event, CapturedFrame):
        problems = [one.kind for one in (*event.capture_problems, *event.problems)]
        place = (event.number, event.time_ns, event.stream.number, event.from_client, event.sync)
        return (*place, event.type, event.missing, event.checksum, problems)
    if isinstance(event, Note):
        return event.kind, event.stream and event.stream.number, event.from_client
    return event.stream.number, event.time_ns, event.from_client, event.reset, event.refused, event.silent


def outlines(data):
    return [outline(event) for event in events(data)]


def diagnosis(data):
    """Return the findings without names."""
    found, observer = Diagnosis(), Observer()
    for event in events(data):
        if isinstance(event, CapturedFrame):
            found.see(observer.see(event))
        elif isinstance(event, Note):
            found.note(event)
        else:
            found.ended(event)
    found.finish()
    return sorted(
        (one.rule, one.severity, one.culprit, one.certainty, one.since_ns, *one.frames) for one in found.findings()
    )


@pytest.mark.parametrize("name", SMALL)
def test_the_same_frames_at_the_same_times(small, name):
    data = small.data(name)
    assert outlines(rewritten(data)) == outlines(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_same_findings_in_incomplete_captures(small, variants, name):
    data = small.data(name)
    for one in (data, *variants(data, seed=7).values()):
        assert diagnosis(rewritten(one)) == diagnosis(one)


@pytest.mark.parametrize("name", ["go/chunks", "java/txn-commit", "python/01-exclusive-unbatched", "flex/04-reconnect"])
def test_gaps_late_starts_and_missing_directions_stay(small, variants, name):
    worse = variants(small.data(name), seed=3)
    for kind in ("begins late", "ends early", "has holes", "only from the client", "only from the broker"):
        assert outlines(rewritten(worse[kind])) == outlines(worse[kind]), kind


def test_repeated_and_reordered_packets(corpus):
    data = corpus.data("python/38-repeated-reordered")
    assert outlines(rewritten(data)) == outlines(data)


def test_a_different_retransmission_stays_different(small):
    """The retransmission may also contain new bytes, which are unchanged."""
    file, number = io.BytesIO(), 0
    recorder = TcpRecorder(PcapngWriter(file))
    conversation = recorder.open(("192.168.7.1", 40_000), ("192.168.7.2", 6650), 1)
    said = CONNECT + push_frame(pb.CommandFlow(consumer_id=1, messagePermits=5))
    start = conversation.next[0]
    for piece in (said[:-6], said[5:9] + bytes(5) + said[14:]):
        recorder.data(conversation, piece, 2 + number, from_client=True)
        conversation.next[0], number = start + 5, number + 1
    data = file.getvalue()
    assert [event.kind for event in events(data) if isinstance(event, Note)][:1] == ["overlap"]
    assert outlines(rewritten(data)) == outlines(data)


# -- removal of application data -------------------------------------------------------------------------------------


def texts_of(message):
    """Yield the texts and bytes with application data in a protobuf message."""
    for field, value in message.ListFields():
        for one in value if field.is_repeated else (value,):
            if field.message_type is not None:
                yield from texts_of(one)
            elif field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
                kind = FIELDS.get(f"{message.DESCRIPTOR.name}.{field.name}") or FIELDS.get(field.name)
                if kind not in ("kept", "version", "method", "text"):
                    yield one if isinstance(one, bytes) else one.encode()


def secrets_of(data):
    """Yield all application data of six bytes and more, payloads in parts of twelve bytes."""
    for frame in events(data):
        if not isinstance(frame, CapturedFrame):
            continue
        yield from texts_of(frame.command)
        if frame.metadata is None:
            continue
        yield from texts_of(frame.metadata)
        payloads = [frame.payload or b""]
        for message in open_entry(frame.metadata, frame.payload or b"").messages:
            payloads.append(message.payload)
            if message.single is not None:
                yield from texts_of(message.single)
        yield from (one[at : at + 12] for one in payloads for at in range(0, len(one) - 12, 61))


KEPT = (b"ORIGIN_MESSAGE_ID", b"REAL_TOPIC", b"RECONSUMETIMES", b"__", b"pulsar/system", b"transaction_coordinator")
"""Texts that clients and brokers write themselves."""


@pytest.mark.parametrize(
    "name",
    [
        "python/02-batched-keys-properties", "python/08-encrypted", "python/09-schemas",
        "python/20-token-authentication", "python/15-dead-letter-retry", "java/auth-token", "java/refusals",
        "java/message-shapes", "java/compressions",
        "java/retry-letter", "go/compressions", "rust/batching",
    ],
)  # fmt: skip
def test_the_result_contains_no_application_data(corpus, name):
    data = corpus.data(name)
    new = rewritten(data)
    own = {one for one in secrets_of(new) if len(one) >= 6}
    secrets = {one for one in secrets_of(data) if len(one) >= 6 and not any(word in one for word in KEPT)}
    assert secrets
    found = {one for one in secrets - own if one in new}
    # Words of the protocol itself occur in any capture.
    assert found <= {b"shared", b"reader", b"STRING", b"sticky", b"token", b"standalone"}


def test_kept_names_are_kept(small):
    new = rewritten(small.data("python/02-batched-keys-properties"), keep_names=True)
    assert b"persistent://public/02-batched-keys-properties/events" in new


# -- other protocols -------------------------------------------------------------------------------------------------


def recorded(*pieces, port=6650):
    """Return a capture of a connection with these bytes, alternately from the client and the server."""
    file = io.BytesIO()
    recorder = TcpRecorder(PcapngWriter(file))
    conversation = recorder.open(("192.168.7.1", 40_000), ("192.168.7.2", port), 1)
    for number, piece in enumerate(pieces):
        recorder.data(conversation, piece, number + 2, from_client=number % 2 == 0)
    recorder.close(conversation, 99, from_client=True)
    return file.getvalue()


CONNECT = push_frame(pb.CommandConnect(client_version="2.4.2"))


@pytest.mark.parametrize(
    "pieces",
    [
        (b"\x16\x03\x01\x00\xc8" + b"\x01acme.com" * 22 + b"\x14\x03", b"\x16\x03\x03\x00\x10" + b"s" * 16),
        (b"GET /admin/acme HTTP/1.1\r\nAuthorization: Bearer acme\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nacme"),
        (CONNECT, b"HTTP/1.1 400 Bad Request\r\n\r\nacme acme acme"),
        (b"PROXY TCP4 192.168.7.9 192.168.7.2 4 6650\r\n" + CONNECT,),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\xa8\x07\x09\xc0\xa8\x07\x02\0\x04\x19\xfa" + CONNECT,),
        (b"EHLO acme.com and more of it\r\n", b"250 acme.com"),
        (CONNECT, b"\0\0\0\x05", b""),
        (b"\x7f\xff\xff\xff acme acme acme", b""),
    ],
    ids=["tls", "http", "http for pulsar", "proxy 1", "proxy 2", "text", "half a length", "impossible"],
)
def test_other_protocols_stay_recognizable_without_content(pieces):
    data = recorded(*pieces)
    new = rewritten(data)
    assert outlines(new) == outlines(data)
    assert b"acme" not in new
    assert bytes([192, 168, 7]) not in new


# -- selections ------------------------------------------------------------------------------------------------------


def test_selected_connections(small):
    data = small.data("flex/04-reconnect")
    streams = Bits()
    streams.add(2)
    new = rewritten(data, Selection(streams))
    taken = [outline(one) for one in events(data) if isinstance(one, CapturedFrame) and one.stream.number == 2]
    assert taken
    assert [outline(one)[5:] for one in events(new) if isinstance(one, CapturedFrame)] == [one[5:] for one in taken]
    assert {one.stream.number for one in events(new)} == {0}


def test_a_window_keeps_order_and_marks_omitted_frames(small):
    data = small.data("python/01-exclusive-unbatched")
    frames = [one for one in events(data) if isinstance(one, CapturedFrame)]
    middle = frames[len(frames) // 2].number
    selection = select_around(lambda: events(data), middle, "10")
    new = events(rewritten(data, selection))
    found = [one for one in new if isinstance(one, CapturedFrame)]
    wanted = [one for one in frames if one.stream.number in selection.streams and selection.takes(one)]
    assert [(one.time_ns, one.type) for one in found] == [(one.time_ns, one.type) for one in wanted]
    assert len(found) < len(frames)
    assert {one.type for one in wanted} >= {pb.BaseCommand.CONNECT, pb.BaseCommand.SUBSCRIBE}
    assert "were omitted" in next(one.text for one in new if isinstance(one, Note) and one.kind == "gap")


def test_too_many_bytes_are_refused(small, monkeypatch):
    monkeypatch.setattr(capture_rewriter, "MAX_BYTES", 1000)
    with pytest.raises(LocalError, match="--around"):
        rewritten(small.data("go/nack"))


def test_random_packets_raise_no_error(small):
    dice = random.Random(4)
    packets = [one for one in read_packets([("", io.BytesIO(small.data("go/nack")))]) if isinstance(one, Packet)]
    for _ in range(5):
        file = io.BytesIO()
        writer = PcapngWriter(file)
        for packet in dice.choices(packets, k=len(packets)):
            writer.packet(packet)
        new = rewritten(file.getvalue())
        assert b"go-nack" not in new
        assert len(events(new)) > 0
