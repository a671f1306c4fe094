"""The player on sockets, against a mini-broker that listens."""

import pytest

from pcli.codec.errors import LocalError, RemoteError
from pcli.minibroker import MiniBroker
from pcli.replay.player.player import Pace
from pcli.replay.player.replay import Replay
from pcli.replay.player.shell import call_rest, play, wall_ms
from pcli.replay.service import Security, ServiceUrl

FAST = Pace(patience_ms=200)


@pytest.fixture
def broker():
    with MiniBroker() as running:
        yield running
    assert running.failures == []


@pytest.fixture
def against(script):
    """Play a capture to a service URL, with or without its administrator."""

    def run(path, url, admin="", pace=FAST):
        replay = Replay(script(path))
        for call in replay.calls if admin else ():
            call_rest(admin, call)
        player = replay.player(wall_ms(), pace, administered=bool(admin))
        play(player, ServiceUrl.parse(url), Security(), admin=admin, progress=lambda _: None)
        return replay.report(player, own_broker=False, administered=bool(admin))

    return run


@pytest.mark.parametrize(
    "name", ["flex/01-produce-consume.pcap", "go/nack.pcap", "python/02-batched-keys-properties.pcap"]
)
def test_answers_are_those_of_the_capture(name, small_captures, broker, against):
    report = against(small_captures / name, broker.service_url, broker.http_url)
    assert report.good, report.differences
    assert report.equal["MESSAGE"] > 5


def test_an_unload_is_made(small_captures, broker, against):
    report = against(small_captures / "flex" / "04-reconnect.pcapng", broker.service_url, broker.http_url)
    assert report.good, report.differences
    assert report.equal["CLOSE_CONSUMER"] == report.equal["CLOSE_PRODUCER"] == 1


@pytest.mark.parametrize(
    ("on", "deed", "wrong"),
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
def test_faults_are_found(on, deed, wrong, small_captures, broker, against):
    broker.faults.add(on=on, **deed)
    report = against(small_captures / "flex" / "01-produce-consume.pcap", broker.service_url, broker.http_url)
    found = {(one["command"], one["field"]) for one in report.differences if not one["rule"]}
    assert not report.good
    assert found == wrong


def test_nobody_there(small_captures, against):
    with pytest.raises(RemoteError, match=r"pulsar://127\.0\.0\.1:1: "):
        against(small_captures / "go" / "nack.pcap", "pulsar://127.0.0.1:1")


def test_http_is_no_way(small_captures, against):
    with pytest.raises(LocalError, match="binary protocol"):
        against(small_captures / "go" / "nack.pcap", "http://127.0.0.1:1")


def test_a_refused_call_is_its_status(broker):
    from pcli.replay.player.calls import Call

    assert call_rest(broker.http_url, Call("PUT", "persistent/public/default/nobody/unload")) == 404
    with pytest.raises(RemoteError):
        call_rest("http://127.0.0.1:1", Call("PUT", "tenants/x"))
