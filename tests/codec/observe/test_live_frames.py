"""Live frames: the same facts as from a capture, and independent forks."""

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.observe import Observer
from pcli.codec.observe.live_frames import LiveFrames
from pcli.codec.observe.output.frame_summary import describe
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import BY_NAME

ENDS = ("10.0.0.1", 40000), ("10.0.0.2", 6650)
FLOW = push_frame(pb.CommandFlow(consumer_id=3, messagePermits=10))
SUBSCRIBE = push_frame(
    pb.CommandSubscribe(
        topic="orders", subscription="work", subType=pb.CommandSubscribe.Shared, consumer_id=3, request_id=1,
        consumer_name="c1",
    )
)  # fmt: skip


def test_a_captured_conversation_fed_live(small_captures):
    """Fed byte by byte, it returns the same facts as the capture."""
    path = small_captures / "python" / "10-shared-redelivery.pcap"
    with path.open("rb") as file:
        frames = [one for one in read_capture([(path.name, file)]) if isinstance(one, CapturedFrame)]
    observer, live = Observer(), LiveFrames()
    known = set()
    for frame in frames:
        number = frame.stream.number
        if number not in known:
            known.add(number)
            live.open(number, frame.stream.client, frame.stream.server)
        told = observer.see(frame)
        found = []
        for byte in frame.data:
            found += live.feed(number, bytes((byte,)), frame.time_ns, from_client=frame.from_client)
        assert [(one.frame.data, one.frame.number, describe(one)) for one in found] == [
            (frame.data, live.count, describe(told))
        ]
    assert live.count == len(frames) > 50


def test_other_types_are_counted_but_not_returned():
    live = LiveFrames(types={BY_NAME["SUBSCRIBE"].number})
    live.open(0, *ENDS)
    found = live.feed(0, FLOW + SUBSCRIBE + FLOW, 5, from_client=True)
    assert [(one.frame.number, one.frame.offset) for one in found] == [(2, len(FLOW))]
    assert live.count == 3


def test_a_broken_direction_is_ignored_and_the_other_continues():
    live = LiveFrames()
    live.open(0, *ENDS)
    assert live.feed(0, b"GET / HTTP/1.1\r\n", 0, from_client=True) == []
    assert live.broken(0, from_client=True)
    assert live.feed(0, FLOW, 0, from_client=True) == []
    assert len(live.feed(0, FLOW, 0, from_client=False)) == 1
    assert not live.broken(0, from_client=False)


def test_unknown_and_closed_connections_return_no_frames():
    live = LiveFrames()
    assert live.feed(9, FLOW, 0, from_client=True) == []
    assert live.broken(9, from_client=True)
    live.open(0, *ENDS)
    live.feed(0, FLOW[:6], 0, from_client=True)
    assert live.pending(0, from_client=True) == 6
    live.close(0)
    assert live.pending(0, from_client=True) == 0
    assert live.feed(0, FLOW, 0, from_client=True) == []


def test_a_fork_copies_the_state_and_is_independent():
    live = LiveFrames()
    live.open(0, *ENDS)
    live.feed(0, SUBSCRIBE + FLOW[:10], 0, from_client=True)
    fork = live.fork()
    assert [describe(one) for one in fork.feed(0, FLOW[10:], 0, from_client=True)] == ["orders/work (c1)  10 permits"]
    fork.close(0)
    assert [describe(one) for one in live.feed(0, FLOW[10:], 0, from_client=True)] == ["orders/work (c1)  10 permits"]


def test_the_end_of_a_connection():
    """It tells whether any byte was received, also of a frame that is incomplete or invalid."""
    live = LiveFrames()
    for number, data in enumerate((b"", FLOW, FLOW[:2], b"\xff" * 8)):
        live.open(number, *ENDS)
        live.feed(number, data, 1, from_client=number % 2 == 0)
        end = live.end(number, 7, from_client=False, reset=True)
        assert (end.stream.number, end.packet, end.time_ns, end.from_client, end.reset) == (
            number, live.count, 7, False, True,
        )  # fmt: skip
        assert end.silent == (not data)
        assert live.feed(number, FLOW, 8, from_client=True) == []
