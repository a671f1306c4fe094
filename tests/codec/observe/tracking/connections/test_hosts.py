"""Client addresses and their servers."""

from __future__ import annotations

import pytest

from pcli.codec.observe.tracking.connections import hosts


def test_attempts_and_ends(wire):
    for number in range(3):
        wire.hello(on=number)
        wire.end(on=number, client=False)
    host = wire.host()
    assert (host.client, host.server) == ("10.0.0.1", ("10.0.0.2", 6650))
    assert (host.attempts.count, host.attempts.frames) == (3, [1, 3, 5])
    assert host.ends["fin_broker"].frames == [2, 4, 6]
    assert [(word, frame) for _, word, frame in host.recent_ends] == [
        ("fin_broker", 2),
        ("fin_broker", 4),
        ("fin_broker", 6),
    ]


def test_refused_and_silent(wire):
    wire.end(0, client=False, reset=True, refused=True, silent=True)
    wire.end(1, silent=True)
    host = wire.host()
    assert (host.refused.count, host.refused.sample, host.attempts.count) == (1, "packet 99", 0)
    assert list(host.ends) == ["refused"]
    assert wire.ends == []


def test_denied_requests(wire, say):
    wire.hello(answer=False)
    wire.broker(say("Error", request_id=2**64 - 1, error=3, message="Failed to authenticate"))
    wire.hello(on=1)
    wire.client(say("LookupTopic"), on=1)
    wire.broker(say("LookupTopicResponse", response=2, error=4, message="no"), on=1)
    wire.client(say("Subscribe", request_id=2), on=1)
    wire.broker(say("Error", request_id=2, error=5), on=1)
    denied = wire.host().denied
    assert list(denied) == ["AuthenticationError CONNECT", "AuthorizationError LOOKUP"]
    assert (denied["AuthenticationError CONNECT"].frames, denied["AuthenticationError CONNECT"].sample) == (
        [1, 2],
        "Failed to authenticate",
    )


def test_the_oldest_host_is_evicted(wire, monkeypatch):
    monkeypatch.setattr(hosts, "MAX_HOSTS", 2)
    for number in range(3):
        wire.open(number, client=(f"10.0.1.{number}", 40_000))
        wire.hello(on=number)
    assert [(group, one.client) for group, one in wire.done] == [("host", "10.0.1.0")]
    assert wire.capture.evicted == {"host": 1}


def test_an_outage(wire):
    """Two connections are reset; then one is refused twice, one gets no response, and one succeeds."""
    for number in range(2):
        wire.hello(on=number)
    for number in range(2):
        wire.end(on=number, client=False, reset=True)
    for number in (2, 3):
        wire.end(number, client=False, reset=True, refused=True, silent=True)
    wire.hello(on=4, answer=False)
    wire.wait(10)
    wire.end(on=4)
    wire.hello(on=5)
    host = wire.host()
    [outage] = host.outages
    assert host.outage is None
    assert (outage.lost.count, outage.refused.count, outage.unanswered.count) == (2, 2, 1)
    assert (outage.since_ns, outage.until_frame) == (host.ends["reset_broker"].first_ns, 7)


@pytest.mark.parametrize(("pause", "lookups"), [(2, 1), (20, 0)])
def test_a_lookup_that_is_refused_before_the_end_of_the_connection(wire, say, pause, lookups):
    wire.hello()
    wire.client(say("LookupTopic"))
    wire.broker(say("LookupTopicResponse", response=2, error=1, message="No available broker found."))
    began_ns = wire.conversation.now
    wire.wait(pause)
    wire.end(client=False)
    for number in (1, 2):
        wire.end(number, client=False, reset=True, refused=True, silent=True)
    wire.hello(on=3)
    [outage] = wire.host().outages
    assert (outage.not_ready.count, outage.lost.count, outage.refused.count) == (lookups, 1, 2)
    assert (outage.since_ns == began_ns) == bool(lookups)


def test_reconnects_without_failed_attempts_are_no_outage(wire):
    for number in range(3):
        wire.hello(on=number)
        wire.end(on=number, client=False)
    assert wire.host().outages == []


def test_a_client_of_another_protocol_is_no_outage(wire):
    wire.note("length", 0, from_client=True, offset=0, length=0x47455420 + 4)
    wire.wait(2)
    wire.end(on=0, client=False)
    assert wire.connection().first_bytes == "http"
    assert wire.host().outage is None or not wire.host().outage.certain


def test_a_client_that_leaves_at_once_is_no_outage(wire):
    wire.hello(on=0, answer=False)
    wire.end(on=0)
    assert wire.host().outage is None or not wire.host().outage.certain
