"""Faults on a link: what arrives at the other end, and when."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.faults import Fault, Faults, Injector
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame

MILLISECOND = 1_000_000
PING, PONG = push_frame(pb.CommandPing()), push_frame(pb.CommandPong())


def test_drop_matches_the_consumer_name(line, subscribe, flow):
    fault = Fault("pulsar.type == 'FLOW' and pulsar.consumer_name == 'c1'")
    talk = line(fault)
    talk.client(subscribe)
    talk.client(flow)
    talk.client(PING)
    assert talk.at_broker == push_frame(subscribe) + PING
    assert fault.fired == 1


def test_faults_act_on_frames_of_the_broker(line):
    talk = line(Fault("pulsar.type == 'PONG'", after=1, times=1))
    for _ in range(3):
        talk.broker(PONG)
    assert talk.at_client == 2 * PONG


def test_duplicate(line, flow):
    talk = line(Fault("pulsar.type == 'FLOW'", "duplicate", times=1))
    talk.client(flow + PING)
    assert talk.at_broker == flow + flow + PING


def test_reorder(line, flow):
    talk = line(Fault("pulsar.type == 'FLOW'", "reorder", times=1))
    talk.client(flow)
    assert talk.at_broker == b""
    talk.client(PING + flow)
    assert talk.at_broker == PING + flow + flow


def test_corrupt_breaks_the_checksum(line, send):
    talk = line(Fault("pulsar.type == 'SEND'", "corrupt"))
    talk.client(send)
    assert Frame.of(talk.at_broker).checksum == "bad"


def test_an_error_is_returned_and_the_request_is_not_forwarded(line, subscribe):
    talk = line(Fault("pulsar.type == 'SUBSCRIBE'", "error", error="TopicNotFound: no such luck"))
    talk.client(push_frame(subscribe) + PING)
    assert talk.at_broker == PING
    assert talk.at_client == push_frame(pb.CommandError(request_id=7, error=pb.TopicNotFound, message="no such luck"))


def test_a_delay_delays_later_frames(line, flow):
    talk = line(Fault("pulsar.type == 'FLOW'", "delay", ms=50, times=1))
    start = talk.now
    assert [(step.due_ns - start, bytes(step.data)) for step in talk.client(PING + flow + PING)] == [
        (0, PING),
        (50 * MILLISECOND, flow + PING),
    ]
    talk.now += 20 * MILLISECOND
    assert [step.due_ns - start for step in talk.client(PING)] == [50 * MILLISECOND]
    assert talk.injector.last_due(0, from_client=True) == start + 50 * MILLISECOND
    assert [step.due_ns for step in talk.broker(PONG)] == [talk.now]
    talk.now += 40 * MILLISECOND
    assert [step.due_ns for step in talk.client(PING)] == [talk.now]


def test_a_cut_loses_the_frame_and_all_later_ones(line, flow):
    talk = line(Fault("pulsar.type == 'FLOW'", "close"))
    steps = talk.client(PING + flow + PING)
    assert [(step.cut, bytes(step.data)) for step in steps] == [(False, PING), (True, b"")]
    assert talk.client(PING) == talk.broker(PONG) == []


def test_an_incomplete_frame_is_held(line, flow):
    talk = line(Fault("pulsar.type == 'FLOW'"))
    assert talk.client(flow[:9]) == []
    assert talk.client(flow[9:] + PING[:5]) == []
    talk.client(PING[5:])
    assert talk.at_broker == PING


def test_bytes_that_are_not_a_frame_are_forwarded(line):
    talk = line(Fault())
    garbage = b"GET / HTTP/1.1\r\n\r\n"
    talk.client(garbage[:5])
    talk.client(garbage[5:])
    talk.client(b"more")
    assert talk.at_broker == garbage + b"more"


def test_connections_are_independent(line, flow, subscribe):
    talk = line(Fault("pulsar.consumer_name == 'c1'"))
    talk.injector.open(1, ("10.0.0.3", 1), ("10.0.0.2", 6650))
    talk.client(subscribe)
    assert bytes(talk.injector.feed(1, flow, 0, from_client=True)[0].data) == flow
    talk.injector.close(0)
    talk.injector.open(0, ("10.0.0.1", 40001), ("10.0.0.2", 6650))
    talk.client(flow)
    assert talk.at_broker == flow


def test_the_injector_can_be_attached_midstream(flow, subscribe):
    """The injector is attached to running connections: it has the consumer's name, and half a frame was forwarded."""
    live = LiveFrames()
    live.open(0, ("10.0.0.1", 1), ("10.0.0.2", 6650))
    live.feed(0, push_frame(subscribe) + flow[:10], 0, from_client=True)
    injector = Injector(Faults([Fault("pulsar.consumer_name == 'c1'")]), live.fork())
    steps = injector.feed(0, flow[10:] + flow + PING, 0, from_client=True)
    assert b"".join(bytes(step.data) for step in steps) == flow[10:] + PING
    assert len(live.feed(0, flow[10:], 0, from_client=True)) == 1


@given(cuts=st.lists(st.integers(0, 400), max_size=12))
def test_chunk_sizes_make_no_difference(cuts):
    subscribe = push_frame(
        pb.CommandSubscribe(
            topic="t", subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=3, request_id=1
        )
    )
    flow = push_frame(pb.CommandFlow(consumer_id=3, messagePermits=1))
    data = subscribe + PING + flow + PING + flow + PING + flow
    injector = Injector(Faults([Fault("pulsar.type == 'FLOW'", after=1, times=1)]), LiveFrames())
    injector.open(0, ("10.0.0.1", 1), ("10.0.0.2", 6650))
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    out = b""
    for start, end in pairwise(places):
        out += b"".join(bytes(one.data) for one in injector.feed(0, data[start:end], 0, from_client=True))
    assert out == subscribe + PING + flow + PING + PING + flow


@given(data=st.binary(max_size=300), filter_=st.sampled_from(["", "pulsar.type == 'SEND'", "pulsar.payload"]))
def test_any_bytes_are_forwarded_or_held(data, filter_):
    injector = Injector(Faults([Fault(filter_, "duplicate")]), LiveFrames())
    injector.open(0, ("10.0.0.1", 1), ("10.0.0.2", 6650))
    steps = injector.feed(0, data, 0, from_client=True)
    assert all(step.to_broker and not step.cut for step in steps)


@pytest.mark.parametrize("do", ["drop", "duplicate", "reorder", "corrupt", "error"])
def test_malformed_frames_raise_no_error(line, do):
    """Frames of every type with invalid protobuf raise no error."""
    talk = line(Fault("", do))
    for kind in range(3, 90):
        talk.client((8).to_bytes(4, "big") + (4).to_bytes(4, "big") + bytes((8, kind, 255, 255)))
    assert isinstance(talk.at_broker, bytes)
