"""A client's session: sent commands, and the pairing of responses with requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.session import ClientSession, KeepAlive, State, TickAction, read_command
from pcli.codec.wire.build import join_frame, push_frame
from pcli.codec.wire.reader import FrameReader


def sent(session):
    """Return the bodies in the output."""
    return [read_command(frame.data[8 : frame.parts.command_end])[1] for frame in FrameReader().feed(session.output())]


@pytest.fixture
def session():
    """Return a session after the handshake."""
    one = ClientSession(version=20, features=("supports_auth_refresh",))
    one.connect()
    one.output()
    one.receive(push_frame(pb.CommandConnected(server_version="s", protocol_version=19, max_message_size=100)))
    return one


def hear(session, *bodies):
    return session.receive(b"".join(push_frame(body) for body in bodies))


# -- the handshake ---------------------------------------------------------------------------------------------------


def test_handshake():
    one = ClientSession(client_version="me", version=20, features=("supports_auth_refresh",))
    one.connect(auth_method_name="token", auth_data=b"t")
    [connect] = sent(one)
    assert connect == pb.CommandConnect(
        client_version="me",
        protocol_version=20,
        auth_method_name="token",
        auth_data=b"t",
        feature_flags=pb.FeatureFlags(supports_auth_refresh=True),
    )
    assert one.state is State.CONNECTING
    [event] = hear(one, pb.CommandConnected(server_version="s", protocol_version=19, max_message_size=7))
    assert (event.name, event.request) == ("CONNECTED", connect)
    assert (one.state, one.version, one.connected.max_message_size) == (State.CONNECTED, 19, 7)


def test_a_refusal_ends_the_session():
    """A broker at its connection limit answers CONNECT with ERROR and request id 2^64-1."""
    one = ClientSession()
    one.connect()
    nobody = 2**64 - 1
    [event] = hear(one, pb.CommandError(request_id=nobody, error=pb.NotAllowedError, message="too many"))
    assert isinstance(event.request, pb.CommandConnect)
    assert one.state is State.FAILED
    assert "too many" in one.error.text


def test_a_second_connect_is_a_local_error(session):
    with pytest.raises(LocalError):
        session.connect()


def test_an_unexpected_connected():
    one = ClientSession()
    assert hear(one, pb.CommandConnected(server_version="s")) == []
    assert one.state is State.FAILED


# -- requests and responses ------------------------------------------------------------------------------------------


def test_request_ids_are_assigned(session):
    first = session.send(pb.CommandLookupTopic(topic="t"))
    second = session.send(pb.CommandPartitionedTopicMetadata(topic="t"))
    own = session.send(pb.CommandUnsubscribe(consumer_id=1, request_id=77))
    assert (first.request_id, second.request_id, own.request_id) == (1, 2, 77)
    assert sent(session) == [first, second, own]


def test_an_ack_without_request_id_is_no_request(session):
    ack = session.send(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual))
    assert not ack.HasField("request_id")
    assert session.open_requests == []
    asked = session.send(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=5))
    [event] = hear(session, pb.CommandAckResponse(consumer_id=1, request_id=5))
    assert event.request == asked


def test_responses_in_any_order(session):
    lookup = session.send(pb.CommandLookupTopic(topic="t"))
    metadata = session.send(pb.CommandPartitionedTopicMetadata(topic="t"))
    gone = session.send(pb.CommandUnsubscribe(consumer_id=1))
    events = hear(
        session,
        pb.CommandError(request_id=3, error=pb.MetadataError, message="no"),
        pb.CommandPartitionedTopicMetadataResponse(request_id=2, partitions=3),
        pb.CommandLookupTopicResponse(request_id=1),
    )
    assert [event.request for event in events] == [gone, metadata, lookup]
    assert session.open_requests == []


def test_a_response_of_another_type_is_not_paired(session):
    session.send(pb.CommandLookupTopic(topic="t"))
    [event] = hear(session, pb.CommandSuccess(request_id=1))
    assert event.request is None
    assert len(session.open_requests) == 1


def test_a_second_response_is_not_paired(session):
    session.send(pb.CommandUnsubscribe(consumer_id=1))
    events = hear(session, pb.CommandSuccess(request_id=1), pb.CommandSuccess(request_id=1))
    assert [event.request is None for event in events] == [False, True]


def test_a_waiting_producer_has_two_responses(session):
    producer = session.send(pb.CommandProducer(topic="t", producer_id=1))
    waiting = pb.CommandProducerSuccess(request_id=1, producer_name="p", producer_ready=False)
    ready = pb.CommandProducerSuccess(request_id=1, producer_name="p")
    events = hear(session, waiting, ready, ready)
    assert [event.request for event in events] == [producer, producer, None]


def test_receipts_are_paired_with_sends(session):
    first = session.send(pb.CommandSend(producer_id=1, sequence_id=5), b"entry")
    second = session.send(pb.CommandSend(producer_id=2, sequence_id=5), b"entry")
    events = hear(
        session,
        pb.CommandSendReceipt(producer_id=2, sequence_id=5),
        pb.CommandSendError(producer_id=1, sequence_id=5, error=pb.ChecksumError, message="bad"),
        pb.CommandSendReceipt(producer_id=1, sequence_id=6),
    )
    assert [event.request for event in events] == [second, first, None]


def test_commands_without_a_request(session):
    [event] = hear(session, pb.CommandCloseConsumer(consumer_id=1, request_id=2**64 - 1))
    assert (event.name, event.request) == ("CLOSE_CONSUMER", None)


# -- keep-alive ------------------------------------------------------------------------------------------------------


def test_a_ping_is_answered(session):
    [event] = hear(session, pb.CommandPing())
    assert event.name == "PING"
    assert sent(session) == [pb.CommandPong()]


def test_pings_of_the_client():
    one = ClientSession(keep_alive=KeepAlive(30_000, 0))
    one.connect()
    hear(one, pb.CommandConnected(server_version="s", protocol_version=21))
    one.output()
    assert one.tick(30_000) is TickAction.PING
    assert sent(one) == [pb.CommandPing()]
    [event] = hear(one, pb.CommandPong())
    assert event.request == pb.CommandPing()
    assert one.tick(60_000) is TickAction.PING
    assert one.tick(90_000) is TickAction.CLOSE
    assert one.state is State.FAILED


# -- invalid input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        join_frame(b""),
        join_frame(b"\xff" * 9),
        push_frame(pb.CommandFlow(consumer_id=1, messagePermits=1)),
        (100 + 10240 - 3).to_bytes(4, "big"),
    ],
    ids=["nothing", "garbage", "a client's command", "larger than announced"],
)
def test_end_of_a_session(session, data):
    assert session.receive(data) == []
    assert session.state is State.FAILED
    assert session.error is not None
    assert session.receive(push_frame(pb.CommandPing())) == []


@given(st.binary(max_size=300))
def test_any_bytes(data):
    one = ClientSession()
    one.connect()
    one.receive(data)
    assert (one.error is None) == (one.state is not State.FAILED)


def test_posted_commands_are_no_requests(session):
    session.post(pb.CommandSend(producer_id=1, sequence_id=2), b"entry")
    session.post_frame(push_frame(pb.CommandFlow(consumer_id=1, messagePermits=1)))
    assert [type(body) for body in sent(session)] == [pb.CommandSend, pb.CommandFlow]
    assert session.open_requests == []
    receipt = pb.CommandSendReceipt(producer_id=1, sequence_id=2)
    [event] = session.receive(push_frame(receipt))
    assert (event.body, event.request) == (receipt, None)


RECORDED = ("java/key-shared-sticky.pcap", "java/pattern-watcher.pcap", "java/refusals.pcap", "go/nack.pcap")


@pytest.mark.parametrize("name", RECORDED)
def test_a_captured_conversation(small_captures, name):
    """Send a real client's commands through sessions and receive the real broker's responses: each finds its request.

    The expected request has the same request id, or the same producer and sequence id.
    """
    sessions, asked, told = {}, {}, 0
    with (small_captures / name).open("rb") as file:
        frames = [item for item in read_capture([(name, file)]) if isinstance(item, CapturedFrame)]
    for frame in frames:
        command, body = read_command(frame.data[8 : frame.parts.command_end])
        one = sessions.setdefault(frame.stream.number, ClientSession())
        ids = (frame.stream.number, *_ids(body))
        if frame.from_client:
            if command.type == pb.BaseCommand.CONNECT:
                one.connect(**{field.name: value for field, value in body.ListFields()})
            elif command.type != pb.BaseCommand.PONG:
                assert one.send(body, frame.data[frame.parts.command_end :]) == body
                asked[ids] = body
            continue
        [event] = one.receive(frame.data)
        assert event.body == body
        if len(ids) > 1 and ids in asked:
            assert event.request == asked[ids]
            told += 1
    assert all(one.error is None for one in sessions.values())
    assert told > 5


def _ids(body):
    if isinstance(body, (pb.CommandSend, pb.CommandSendReceipt, pb.CommandSendError)):
        return body.producer_id, body.sequence_id
    if "request_id" in body.DESCRIPTOR.fields_by_name and body.HasField("request_id"):
        return (body.request_id,)
    return ()
