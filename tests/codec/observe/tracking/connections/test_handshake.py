"""Start, keep-alive and end of connections."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb

PING, PONG, FLOW = pb.CommandPing(), pb.CommandPong(), pb.CommandFlow(consumer_id=1, messagePermits=1)


def test_values_from_the_handshake(wire):
    wire.hello(auth_method_name="token", max_message_size=1000)
    record = wire.connection()
    assert (record.client_version, record.protocol_version) == ("a client", 21)
    assert (record.server_version, record.server_protocol_version, record.max_message_size) == ("a broker", 21, 1000)
    assert (record.connect_frame, record.connected_ns) == (1, 2_000_000)
    assert record.deprecated == {}


def test_the_deprecated_authentication_field(wire):
    wire.hello(auth_method=1)
    assert wire.connection().deprecated["CONNECT.auth_method"].frames == [1]


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("reset", [True, False])
def test_side_and_cause_of_the_end(wire, client, reset):
    wire.hello()
    wire.end(client=client, reset=reset)
    word = f"{'reset' if reset else 'fin'}_{'client' if client else 'broker'}"
    assert wire.connection().end == word
    assert wire.ends == [(0, word, 3_000_000, 2)]


def test_an_unanswered_ping_is_the_cause_of_the_end(wire):
    wire.hello()
    wire.broker(PING)
    wire.wait(30)
    wire.end(client=False)
    assert wire.connection().end == "keep_alive"
    assert wire.connection().ping_open == {False: (3, 3_000_000)}


def test_the_other_side_ended_it(wire):
    wire.hello()
    wire.broker(PING)
    wire.wait(30)
    wire.end(client=True)
    assert wire.connection().end == "fin_client"


def test_an_end_directly_after_a_ping_has_another_cause(wire):
    wire.hello()
    wire.client(PING)
    wire.wait(0.5)
    wire.end(client=True)
    assert wire.connection().end == "fin_client"


@pytest.mark.parametrize("late", [[PONG], [FLOW, PONG]], ids=["pong", "flow"])
@pytest.mark.parametrize("early", [[], [FLOW]], ids=["silent", "answered"])
def test_frames_of_a_suspended_process_after_the_fin(wire, early, late):
    wire.hello()
    wire.broker(PING)
    for frame in early:
        wire.client(frame)
    wire.wait(30)
    fin_ns = wire.conversation.now
    wire.wait(5)
    for frame in late:
        wire.client(frame)
    wire.end(client=False, at_ns=fin_ns)
    assert wire.connection().end == ("fin_broker" if early else "keep_alive")


@pytest.mark.parametrize("answer", [PONG, FLOW, PING])
def test_any_frame_answers_a_ping(wire, answer):
    wire.hello()
    wire.broker(PING)
    wire.client(answer)
    wire.wait(30)
    wire.end(client=False)
    assert wire.connection().end == "fin_broker"


def test_a_ping_after_an_answered_one_counts_separately(wire):
    wire.hello()
    wire.broker(PING)
    wire.client(FLOW)
    wire.broker(PING)
    wire.broker(PING)
    wire.wait(30)
    wire.end(client=False)
    assert wire.connection().end == "keep_alive"
    assert wire.connection().ping_open[False][0] == 5


def test_a_refused_login(wire, say):
    wire.hello(answer=False)
    wire.broker(say("Error", request_id=2**64 - 1, error=3, message="Failed to authenticate"))
    wire.end(client=False)
    assert wire.connection().end == "auth"


def test_a_refused_request_is_no_refused_login(wire, say):
    wire.hello()
    wire.client(say("Subscribe"))
    wire.broker(say("Error", error=4))
    wire.end(client=False)
    assert wire.connection().end == "fin_broker"


def test_credentials_renewed(wire):
    wire.hello()
    wire.broker(pb.CommandAuthChallenge())
    assert wire.connection().challenge_open_ns == 3_000_000
    wire.client(pb.CommandAuthResponse())
    record = wire.connection()
    assert (record.challenges.count, record.challenge_open_ns, record.refreshed_ns) == (1, -1, 4_000_000)


def test_a_login_in_several_steps_is_no_renewal(wire):
    wire.hello(answer=False)
    wire.broker(pb.CommandAuthChallenge())
    wire.client(pb.CommandAuthResponse())
    wire.broker(pb.CommandConnected(server_version="a broker"))
    record = wire.connection()
    assert (record.challenges.count, record.refreshed_ns) == (0, -1)
    assert wire.exchange("AUTH_RESPONSE").answered == 1
