"""The control port: toxics, protocol faults and the state of a proxy that runs."""

import json
import socket
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from pcli.cli.common.addons import Addon, AddonFault
from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.replay.proxy import ByteFault, Proxy
from tests.replay.proxy.conftest import CONNECT, address

PING, PONG = push_frame(pb.CommandPing()), push_frame(pb.CommandPong())
TOXICS = "/proxies/pulsar/toxics"


@pytest.fixture
def proxy(fake_broker, start):
    return start(to=fake_broker.url, control=0)


@pytest.fixture
def control(proxy):
    def send(method, path, body=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(proxy.control_url + path, data, headers, method=method), timeout=10) as response:
            text = response.read()
            return json.loads(text) if text else None

    return send


@pytest.fixture
def pair(proxy, fake_broker, peers):
    """Open connections through the proxy, each with both of its ends."""

    def connect():
        client = peers(proxy.service_url)
        client.send(CONNECT)
        broker = fake_broker.accept()
        assert broker.receive(len(CONNECT)) == CONNECT
        return client, broker

    return connect


def refused(call, *args, **more):
    with pytest.raises(HTTPError) as raised:
        call(*args, **more)
    with raised.value as response:
        return response.code, json.loads(response.read())["error"]


def test_a_toxic_applies_to_open_connections_until_it_is_removed(control, pair):
    client, broker = pair()
    control("POST", TOXICS, {"name": "outage", "type": "timeout", "stream": "upstream"})
    client.send(PING)
    broker.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        broker.receive(1)
    broker.socket.settimeout(10)
    broker.send(PONG)
    assert client.receive(len(PONG)) == PONG
    control("DELETE", f"{TOXICS}/outage")
    assert broker.receive(len(PING)) == PING


def test_a_timeout_ends_the_connection(control, pair):
    client, broker = pair()
    control("POST", TOXICS, {"type": "timeout", "attributes": {"timeout": 50}})
    assert (client.end(), broker.end()) == (b"", b"")


def test_reset_peer_resets_the_connection(control, pair):
    client, _ = pair()
    control("POST", TOXICS, {"type": "reset_peer"})
    with pytest.raises(ConnectionResetError):
        client.end()


def test_a_removed_toxic_does_not_end_the_connection(control, pair):
    client, broker = pair()
    control("POST", TOXICS, {"name": "t", "type": "reset_peer", "attributes": {"timeout": 300}})
    control("DELETE", f"{TOXICS}/t")
    client.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        client.end()
    broker.send(PONG)
    assert client.receive(len(PONG)) == PONG


def test_limit_data_ends_both_connections_after_the_bytes(control, pair):
    client, broker = pair()
    control("POST", TOXICS, {"type": "limit_data", "attributes": {"bytes": 5}})
    broker.send(PONG)
    assert client.end() == PONG[:5]
    assert broker.end() == b""


def test_a_disabled_proxy_refuses_connections_until_it_is_enabled(control, pair, proxy):
    client, _ = pair()
    assert not control("POST", "/proxies/pulsar", {"enabled": False})["enabled"]
    with pytest.raises(ConnectionResetError):
        client.end()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address(proxy.service_url))
    assert control("PATCH", "/proxies/pulsar", {"enabled": True})["enabled"]
    client, broker = pair()
    broker.send(PONG)
    assert client.receive(len(PONG)) == PONG


def test_a_port_that_another_program_uses_now(control, proxy):
    control("POST", "/proxies/pulsar", {"enabled": False})
    with socket.create_server(address(proxy.service_url)):
        assert refused(control, "POST", "/proxies/pulsar", {"enabled": True}) == (
            400,
            f"port {address(proxy.service_url)[1]} of 127.0.0.1: address already in use",
        )
    assert control("POST", "/proxies/pulsar", {"enabled": True})["enabled"]


def test_the_api_of_toxiproxy(control, proxy, fake_broker):
    assert set(control("GET", "/version")) == {"version"}
    made = control("POST", TOXICS, {"type": "latency", "attributes": {"latency": 50}})
    name = f"{TOXICS}/latency_downstream"
    assert made == control("GET", name)
    assert control("PATCH", name, {"toxicity": 0.5})["toxicity"] == 0.5
    assert control("GET", TOXICS) == [made | {"toxicity": 0.5}]
    [found] = control("GET", "/proxies").values()
    assert (found["name"], found["upstream"], found["enabled"]) == ("pulsar", fake_broker.url[9:], True)
    assert found["toxics"] == control("GET", TOXICS)
    assert refused(control, "POST", TOXICS, {"type": "latency", "attributes": {"latency": 5}})[0] == 409
    control("POST", "/reset")
    assert control("GET", TOXICS) == []
    assert refused(control, "GET", name) == (404, "toxic latency_downstream does not exist")
    assert refused(control, "GET", "/proxies/other/toxics")[0] == 404
    assert refused(control, "POST", TOXICS, {"type": "latency"})[0] == 400
    assert refused(control, "POST", TOXICS, "latency") == (400, "the body is not a JSON object")


def test_protocol_faults(control, pair):
    made = control("POST", "/faults", {"fault": "drop times=1 on pulsar.type == 'PING'"})
    assert made == {"number": 0, "action": "drop", "on": "pulsar.type == 'PING'", "seen": 0, "fired": 0}
    client, broker = pair()
    client.send(PING + PONG)
    assert broker.receive(len(PONG)) == PONG
    assert control("GET", "/faults")[0]["fired"] == 1
    control("POST", "/faults", {"fault": "drop on pulsar.type == 'PONG'"})
    control("DELETE", "/faults/0")
    client.send(PONG + PING)
    assert broker.receive(len(PING)) == PING
    assert refused(control, "DELETE", "/faults/5") == (404, "fault 5 does not exist")
    assert "'drap' is not an action" in refused(control, "POST", "/faults", {"fault": "drap on pulsar.type"})[1]


@pytest.mark.parametrize("body", [b"[" * 100_000, b"9" * 5000, b'{"name": "\\ud800"}', b"{", b"\xff"])
def test_bodies_that_are_not_json(proxy, control, body):
    request = Request(f"{proxy.control_url}{TOXICS}", body, method="POST")
    with pytest.raises(HTTPError) as raised:
        urlopen(request, timeout=10)
    with raised.value as response:
        assert response.code == 400
    assert control("GET", TOXICS) == []


def test_a_change_without_a_state_keeps_the_state(control):
    control("POST", "/proxies/pulsar", {"enabled": False})
    assert not control("POST", "/proxies/pulsar", {})["enabled"]


def test_scripts_are_not_listed_as_faults(fake_broker, start, tmp_path):
    script = tmp_path / "addon.py"
    script.write_text("def frame(frame): frame.drop()")
    proxy = start(to=fake_broker.url, control=0, faults=[AddonFault(Addon(str(script)))])
    with urlopen(f"{proxy.control_url}/faults", timeout=10) as response:
        assert json.loads(response.read()) == []
    with pytest.raises(HTTPError) as raised:
        urlopen(Request(f"{proxy.control_url}/faults/0", method="DELETE"), timeout=10)
    with raised.value as response:
        assert response.code == 404


def test_reset_removes_the_byte_faults_of_the_start(fake_broker, start):
    proxy = start(to=fake_broker.url, control=0, byte_faults=[ByteFault("latency=1s")])
    with urlopen(f"{proxy.control_url}/proxies/pulsar", timeout=10) as response:
        assert json.loads(response.read())["bytes"] == ["latency=1s"]
    with urlopen(Request(f"{proxy.control_url}/reset", method="POST"), timeout=10):
        pass
    with urlopen(f"{proxy.control_url}/proxies/pulsar", timeout=10) as response:
        assert json.loads(response.read())["bytes"] == []


def test_web_pages_are_refused(control, proxy):
    assert refused(control, "POST", TOXICS, {"type": "timeout"}, Origin="http://evil.example")[0] == 403
    request = Request(f"{proxy.control_url}/proxies", headers={"Host": "evil.example"})
    with pytest.raises(HTTPError) as raised:
        urlopen(request, timeout=10)
    with raised.value as response:
        assert response.code == 400


def test_a_control_port_in_use(fake_broker, proxy):
    port = int(proxy.control_url.rpartition(":")[2])
    with pytest.raises(LocalError) as raised:
        Proxy(to=fake_broker.url, control=port).start()
    assert raised.value.text == f"control port {port} of 127.0.0.1: address already in use"


def test_a_control_port_in_use_keeps_the_capture_of_the_other_proxy(fake_broker, proxy, tmp_path):
    capture = tmp_path / "capture.pcapng"
    capture.write_bytes(b"packets")
    with pytest.raises(LocalError):
        Proxy(to=fake_broker.url, control=int(proxy.control_url.rpartition(":")[2]), capture=capture).start()
    assert capture.read_bytes() == b"packets"
