"""The proxy's Python API: its events and its errors."""

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.faults import Fault
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.proxy import Proxy
from pcli.replay.service_url import Security

CONNECT = push_frame(pb.CommandConnect(client_version="tester", protocol_version=20))


def test_a_capture_contains_the_bytes_of_the_client(start, peers, broker, tmp_path, read):
    path = tmp_path / "talk.pcapng"
    proxy = start(capture=path)
    client = peers(proxy.service_url)
    client.request(pb.CommandConnect(client_version="c", protocol_version=20))
    response = client.request(pb.CommandLookupTopic(topic="orders", request_id=1))
    proxy.stop()
    frames, notes = read(path)
    assert notes == []
    assert [frame.from_client for frame in frames] == [True, False, True, False]
    assert frames[-1].command == response
    assert response.lookupTopicResponse.brokerServiceUrl == proxy.service_url


def test_a_full_disk_does_not_stop_the_proxy(start, peers, full_later):
    from pcli.codec.capture.tap_recording import Recording

    recording = Recording(full_later(2000))
    client = peers(start(taps=[recording]).service_url)
    client.request(pb.CommandConnect(client_version="c", protocol_version=20))
    for _ in range(50):
        assert client.request(pb.CommandPing()).HasField("pong")
    assert recording.failure.errno == 28


@pytest.mark.parametrize("by_client", [True, False])
def test_a_tap_receives_the_side_that_closed(fake_broker, start, peers, notebook, by_client):
    proxy = start(to=fake_broker.url, taps=[notebook])
    client = peers(proxy.service_url)
    client.send(CONNECT)
    broker = fake_broker.accept()
    broker.receive(len(CONNECT))
    one, other = (client, broker) if by_client else (broker, client)
    one.socket.close()
    other.end()
    other.socket.close()
    assert notebook.over.wait(10)
    assert notebook.lines == [("opened", 0), (0, True, CONNECT), ("closed", 0, by_client, False, "")]


def test_a_tap_receives_a_fault_as_the_reason(fake_broker, start, peers, notebook):
    proxy = start(to=fake_broker.url, taps=[notebook], faults=[Fault("pulsar.type == 'CONNECT'", "close")])
    client = peers(proxy.service_url)
    client.send(CONNECT)
    with pytest.raises(ConnectionResetError):
        client.end()
    assert notebook.over.wait(10)
    assert notebook.lines == [("opened", 0), (0, True, CONNECT), ("closed", 0, False, True, "cut by a fault")]


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"to": "http://b:8080"}, "binary port"),
        ({"to": "b:1:2"}, "is not host:port"),
        ({"http_listen": 0}, "HTTP needs both a port"),
        ({"http_listen": 0, "http_to": "pulsar://b:1"}, "HTTP needs both a port"),
        ({"listen_cert": "c.pem"}, "two files"),
        ({"key_log": "keys"}, "--keylog keys: the proxy uses TLS on neither side"),
        ({"to": "pulsar+ssl://x:6651", "key_log": "/nowhere/keys"}, "--keylog /nowhere/keys: no such file"),
        ({"listen_cert": "/nowhere/c.pem", "listen_key": "k.pem"}, "/nowhere/c.pem, k.pem: no such file"),
        ({"capture": "/nowhere/t.pcapng"}, "/nowhere/t.pcapng: no such file"),
        ({"bind": "a..b", "insecure": True}, "port 0 of a..b: name or service not known"),
        ({"advertised_address": "here:6650"}, "advertised address here:6650: write a host without a port"),
        ({"advertised_address": "a b"}, "advertised address a b: write a host"),
        ({"listen": 70000}, "port 70000: write a number from 0 to 65535"),
        ({"http_listen": -1, "http_to": "http://b"}, "port -1: write a number from 0 to 65535"),
        ({"bind": "203.0.113.7"}, "address 203.0.113.7: other hosts could use the broker through the proxy"),
        ({"bind": "203.0.113.7", "insecure": True}, "port 0 of 203.0.113.7: cannot assign"),
        ({"to": "pulsar+ssl://b:1", "security": Security(trust="/nowhere/ca.pem")}, "/nowhere/ca.pem: no such file"),
    ],
)
def test_invalid_arguments_are_reported_at_the_start(details, said):
    with pytest.raises(LocalError) as told:
        Proxy(**{"to": "b:6650"} | details).start()
    assert said in told.value.text


def test_a_port_in_use_is_an_error(broker, tmp_path):
    """A capture that a different proxy is recording remains unchanged."""
    path = tmp_path / "talk.pcapng"
    path.write_bytes(b"of the other one")
    port = int(broker.service_url.rpartition(":")[2])
    with pytest.raises(LocalError, match=f"port {port} of 127.0.0.1: address already in use"):
        Proxy(to=broker.service_url, listen=port, capture=path).start()
    assert path.read_bytes() == b"of the other one"


def test_an_unexpected_exception_does_not_block_start(monkeypatch):
    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Proxy, "_open", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        Proxy("b:6650").start()


def test_the_latest_notes_are_kept():
    proxy = Proxy("b:6650")
    for number in range(2500):
        proxy._note(str(number))
    assert (len(proxy.notes), proxy.notes[-1]) == (1000, "2499")
