"""The target of each connection: missing and different brokers, listeners, and TLS on both sides."""

import contextlib
import queue
import socket
import ssl
import struct

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.minibroker import MiniBroker
from pcli.replay.proxy import ByteFault, listener
from pcli.replay.service_url import Security

CONNECT = push_frame(pb.CommandConnect(client_version="tester", protocol_version=20))


def test_an_unreachable_broker_is_noted_once(start, peers, broker):
    gone = socket.create_server(("127.0.0.1", 0))
    port = gone.getsockname()[1]
    gone.close()
    proxy = start(to=f"127.0.0.1:{port}")
    for _ in range(3):
        client = peers(proxy.service_url)
        client.send(CONNECT)
        with contextlib.suppress(ConnectionResetError):
            assert client.end() == b""
    assert proxy.notes == [f"no broker at pulsar://127.0.0.1:{port}: connection refused"]
    back = MiniBroker(port=port).start()
    assert (
        peers(proxy.service_url)
        .request(pb.CommandConnect(client_version="c", protocol_version=20))
        .HasField("connected")
    )
    back.stop()


def test_the_first_reachable_host_is_used(start, peers, fake_broker):
    gone = socket.create_server(("127.0.0.1", 0))
    port = gone.getsockname()[1]
    gone.close()
    proxy = start(to=f"127.0.0.1:{port},{fake_broker.url.partition('://')[2]}")
    peers(proxy.service_url).send(CONNECT)
    fake_broker.accept().receive(len(CONNECT))
    assert proxy.notes == []


@pytest.mark.parametrize(
    ("to", "said"),
    [("a..b", "pulsar://a..b:6650: invalid host name"), ("pulsar+ssl://SILENT", "SILENT: it took too long")],
)
def test_the_reason_for_an_unreachable_broker(start, peers, fake_broker, monkeypatch, to, said):
    """An invalid name; an address that never completes a TLS handshake."""
    silent = fake_broker.url.partition("://")[2]
    monkeypatch.setattr(listener, "_CONNECT", 0.05)
    proxy = start(to=to.replace("SILENT", silent))
    client = peers(proxy.service_url)
    client.send(CONNECT)
    with contextlib.suppress(ConnectionResetError):
        client.end()
    [note] = proxy.notes
    assert note.startswith("no broker at ")
    assert note.endswith(said.replace("SILENT", silent))


def test_a_tls_connection_to_a_cleartext_port_is_noted(start, peers, fake_broker):
    """The connection is closed, as by the binary port of Pulsar 4.2.4."""
    proxy = start(to=fake_broker.url.replace("pulsar:", "pulsar+ssl:"))
    client = peers(proxy.service_url)
    client.send(CONNECT)
    broker = fake_broker.accept()
    broker.receive(6)
    broker.socket.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ConnectionResetError):
        client.end()
    [note] = proxy.notes
    assert note.endswith(": no TLS: it closed the connection")


def test_clients_that_disconnect_before_they_are_accepted(start, peers, broker, notebook):
    """The peer name of a reset socket cannot be read."""
    proxy = start(taps=[notebook], http_listen=0, http_to=broker.http_url)
    for url in (proxy.service_url, proxy.http_url):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 10) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peers(proxy.service_url).request(pb.CommandConnect(client_version="behind them", protocol_version=20))
    last = peers(proxy.http_url)
    last.send(b"GET / HTTP/1.1\r\nHost: behind them\r\n\r\n")
    assert last.end().startswith(b"HTTP/1.1 ")
    proxy.stop()
    assert [line[0] for line in notebook.lines].count("closed") == 21
    assert proxy.notes == []


def test_the_number_of_ports_is_limited(fake_broker, start, peers, broker, monkeypatch):
    monkeypatch.setattr(listener, "_MAX_LISTENERS", 1)
    proxy = start(to=fake_broker.url)
    kind = pb.CommandLookupTopicResponse.Connect
    first, second = (redirecting(fake_broker, proxy, peers, kind, f"pulsar://b{number}:6650") for number in (1, 2))
    assert first.brokerServiceUrl.startswith("pulsar://127.0.0.1:")
    assert second.brokerServiceUrl == "pulsar://b2:6650"
    assert proxy.notes == ["no port for pulsar://b2:6650, so clients connect to it directly: the limit is 1"]


def redirecting(fake_broker, proxy, peers, response, url):
    """Return the client's response to a lookup whose response from the listener's broker names a different broker."""
    client = peers(proxy.service_url)
    client.send(CONNECT)
    front = fake_broker.accept()
    front.receive(len(CONNECT))
    response = pb.CommandLookupTopicResponse(brokerServiceUrl=url, response=response, request_id=1)
    front.send(push_frame(response))
    return client.frame().command.lookupTopicResponse


def test_another_broker_through_the_one_listener(fake_broker, start, peers, broker):
    proxy = start(to=fake_broker.url)
    told = redirecting(fake_broker, proxy, peers, pb.CommandLookupTopicResponse.Connect, broker.service_url)
    assert told.proxy_through_service_url
    client = peers(proxy.service_url)
    client.request(
        pb.CommandConnect(
            client_version="c", protocol_version=20, proxy_to_broker_url=told.brokerServiceUrl.partition("://")[2]
        )
    )
    [connect] = broker.frames("pulsar.type == 'CONNECT'")
    assert connect.facts.frame.data == push_frame(pb.CommandConnect(client_version="c", protocol_version=20))


def test_another_broker_through_its_port(fake_broker, start, peers, broker):
    """Used for clients without proxy settings, and for redirects."""
    proxy = start(to=fake_broker.url)
    told = redirecting(fake_broker, proxy, peers, pb.CommandLookupTopicResponse.Redirect, broker.service_url)
    assert told.brokerServiceUrl not in (broker.service_url, proxy.service_url)
    client = peers(told.brokerServiceUrl)
    client.request(pb.CommandConnect(client_version="c", protocol_version=20))
    response = client.request(pb.CommandLookupTopic(topic="orders", request_id=1)).lookupTopicResponse
    assert response.brokerServiceUrl == told.brokerServiceUrl
    assert len(broker.frames("pulsar.type == 'CONNECT'")) == 1


def test_an_unknown_broker_address_is_not_connected_to(fake_broker, start, peers, broker):
    """The proxy is no open relay: the client is connected to the listener's broker, which receives the name."""
    proxy = start(to=fake_broker.url)
    connect = push_frame(pb.CommandConnect(client_version="c", proxy_to_broker_url=broker.service_url))
    peers(proxy.service_url).send(connect)
    assert fake_broker.accept().receive(len(connect)) == connect
    assert list(broker.frames) == []


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def trusting(certificate):
    return ssl.create_default_context(cafile=str(certificate[0]))


def test_tls_ends_on_the_clients_side(start, peers, broker, certificate, trusting, tmp_path, read):
    cert, key = map(str, certificate)
    path = tmp_path / "talk.pcapng"
    proxy = start(listen_cert=cert, listen_key=key, capture=path)
    assert proxy.service_url.startswith("pulsar+ssl://127.0.0.1:")
    client = peers(proxy.service_url)
    with trusting.wrap_socket(client.socket, server_hostname="127.0.0.1") as client.socket:
        client.request(pb.CommandConnect(client_version="c", protocol_version=20))
        response = client.request(pb.CommandLookupTopic(topic="orders", request_id=1)).lookupTopicResponse
    assert (response.brokerServiceUrl, response.brokerServiceUrlTls) == ("", proxy.service_url)
    broker.wait_until(lambda b: b.connections == [])
    proxy.stop()
    frames, notes = read(path)
    assert notes == []
    assert [frame.type for frame in frames] == [2, 3, 23, 24]


def test_tls_ends_on_the_brokers_side(start, peers, broker, certificate):
    """A TLS proxy in front of the broker, and a second proxy that connects to it with TLS."""
    cert, key = map(str, certificate)
    inner = start(listen_cert=cert, listen_key=key)
    outer = start(to=inner.service_url, security=Security(trust=cert))
    client = peers(outer.service_url)
    client.request(pb.CommandConnect(client_version="c", protocol_version=20))
    response = client.request(pb.CommandLookupTopic(topic="orders", request_id=1)).lookupTopicResponse
    assert response.brokerServiceUrl == outer.service_url
    client.socket.close()
    broker.wait_until(lambda b: b.connections == [])
    assert (inner.notes, outer.notes) == ([], [])


def test_delayed_bytes_are_dropped_at_the_end(fake_broker, start, peers, certificate, trusting, notebook):
    """The end of TLS ends both directions while bytes of the broker are still pending."""
    cert, key = map(str, certificate)
    late = ByteFault("latency=10ms from=broker")
    proxy = start(to=fake_broker.url, listen_cert=cert, listen_key=key, byte_faults=[late], taps=[notebook])
    client = peers(proxy.service_url)
    with trusting.wrap_socket(client.socket, server_hostname="127.0.0.1") as client.socket:
        client.send(CONNECT)
        broker = fake_broker.accept()
        broker.receive(len(CONNECT))
        broker.send(push_frame(pb.CommandPong()) * 2)
        client.receive(1)
        broker.send(push_frame(pb.CommandPong()))
        with contextlib.suppress(OSError):
            client.socket.unwrap()
    broker.end()
    assert notebook.over.wait(10)
    proxy.stop()
    assert notebook.lines[-1][0] == "closed"


def test_an_untrusted_broker_certificate_is_noted(start, peers, certificate):
    cert, key = map(str, certificate)
    inner = start(listen_cert=cert, listen_key=key)
    outer = start(to=inner.service_url)
    client = peers(outer.service_url)
    client.send(CONNECT)
    with contextlib.suppress(ConnectionResetError):
        client.end()
    assert outer.notes == [f"no broker at {inner.service_url}: no TLS: self-signed certificate"]


def test_tls_from_a_client_to_a_cleartext_port_is_one_note(start, peers, trusting):
    proxy = start()
    for _ in range(2):
        client = peers(proxy.service_url)
        with pytest.raises(OSError, match=r"."):
            trusting.wrap_socket(client.socket, server_hostname="127.0.0.1")
    [note] = proxy.notes
    assert note.endswith("uses TLS: give --listen-cert and --listen-key")


def test_cleartext_from_a_client_to_a_tls_port_is_one_note(start, peers, certificate):
    cert, key = map(str, certificate)
    told = queue.Queue()
    proxy = start(listen_cert=cert, listen_key=key, on_note=told.put)
    client = peers(proxy.service_url)
    client.send(CONNECT)
    with contextlib.suppress(ConnectionResetError):
        client.end()
    assert ": no TLS: " in told.get(timeout=10)
    assert len(proxy.notes) == 1


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (bytes.fromhex("15030300020250"), "uses TLS: write --to pulsar+ssl://…"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "uses HTTP: write the binary port in --to"),
        (b"", "closed the connection without a response; if it uses TLS, write --to pulsar+ssl://…"),
    ],
)
def test_a_broker_with_another_protocol_is_one_note(fake_broker, start, peers, notebook, response, said):
    """Responses to clear text: a TLS alert, the response of Jetty, and that of the TLS port of Pulsar 4.2.4."""
    proxy = start(to=fake_broker.url, taps=[notebook])
    for _ in range(2):
        client = peers(proxy.service_url)
        client.send(CONNECT)
        broker = fake_broker.accept()
        broker.receive(len(CONNECT))
        broker.send(response)
        broker.socket.close()
        assert client.end() == response
        client.socket.close()
        assert notebook.over.wait(10)
        notebook.over.clear()
    assert proxy.notes == [f"the broker at {fake_broker.url} {said}"]
