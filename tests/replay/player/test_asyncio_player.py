"""The player on sockets against a mini-broker."""

import pytest

from pcli.codec.errors import LocalError, RemoteError
from pcli.replay.player.asyncio_player import call_rest
from pcli.replay.player.player import Pace

FAST = Pace(patience_ms=200)


@pytest.fixture
def against(play_live):
    """Replay a capture to a service URL with short timeouts."""
    return lambda path, url, admin="": play_live(path, url, admin, FAST)


@pytest.mark.parametrize(
    "name", ["flex/01-produce-consume.pcap", "go/nack.pcap", "python/02-batched-keys-properties.pcap"]
)
def test_responses_equal_the_captured_ones(name, small_captures, broker, against):
    report = against(small_captures / name, broker.service_url, broker.http_url)
    assert report.good, report.differences
    assert report.equal["MESSAGE"] > 5


def test_an_unload_is_repeated(small_captures, broker, against):
    report = against(small_captures / "flex" / "04-reconnect.pcapng", broker.service_url, broker.http_url)
    assert report.good, report.differences
    assert report.equal["CLOSE_CONSUMER"] == report.equal["CLOSE_PRODUCER"] == 1


@pytest.mark.parametrize(
    ("on", "intervention", "wrong"),
    [
        ("pulsar.type == 'MESSAGE'", {"do": "drop", "times": 1}, {("MESSAGE", "missing")}),
        ("pulsar.type == 'MESSAGE'", {"do": "duplicate", "times": 1}, {("MESSAGE", "extra")}),
        ("pulsar.type == 'SEND_RECEIPT'", {"do": "drop", "times": 1, "after": 3}, {("SEND_RECEIPT", "missing")}),
        (
            "pulsar.type == 'ACK'",
            {"do": "error", "error": "MetadataError: no", "times": 1},
            {("ACK_RESPONSE", "error"), ("ACK_RESPONSE", "message")},
        ),
    ],
)
def test_faults_are_found(on, intervention, wrong, small_captures, broker, against):
    broker.faults.add(on=on, **intervention)
    report = against(small_captures / "flex" / "01-produce-consume.pcap", broker.service_url, broker.http_url)
    found = {(one["command"], one["field"]) for one in report.differences if not one["rule"]}
    assert not report.good
    assert found == wrong


def test_an_unreachable_broker_is_an_error(small_captures, against):
    with pytest.raises(RemoteError, match=r"pulsar://127\.0\.0\.1:1: "):
        against(small_captures / "go" / "nack.pcap", "pulsar://127.0.0.1:1")


def test_a_listener_that_is_no_broker_is_an_error(small_captures, broker, against):
    """A TLS port that receives cleartext behaves like this: one error, without waiting for every response."""
    url = broker.http_url.replace("http", "pulsar")
    with pytest.raises(RemoteError, match="no response to CONNECT"):
        against(small_captures / "go" / "nack.pcap", url)


def test_a_refused_login_is_an_error(small_captures, broker, against):
    broker.faults.add(on="pulsar.type == 'CONNECT'", do="error", error="AuthenticationError: who are you")
    with pytest.raises(RemoteError, match="the login was refused: who are you"):
        against(small_captures / "go" / "nack.pcap", broker.service_url)


def test_http_urls_are_refused(small_captures, against):
    with pytest.raises(LocalError, match="binary protocol"):
        against(small_captures / "go" / "nack.pcap", "http://127.0.0.1:1")


def test_a_refused_call_returns_its_status(broker):
    from pcli.replay.player.script.script import RestCall

    assert call_rest(broker.http_url, RestCall("PUT", "persistent/public/default/nobody/unload")) == 404
    with pytest.raises(RemoteError):
        call_rest("http://127.0.0.1:1", RestCall("PUT", "tenants/x"))
