"""Live traffic of the broker, the proxy and an interface, exported while it runs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Running:
    """A running command that exports."""

    line = None

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "pcli.cli", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def url(self):
        """Return the service URL that the first line of the output contains."""
        return re.search(r"pulsar://127\.0\.0\.1:\d+", self.process.stdout.readline())[0]

    def stop(self):
        """Return the exit code and the messages."""
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=60)
        assert "Traceback" not in err, err
        return self.process.returncode, err


@pytest.fixture
def start(running):
    def go(*arguments):
        running.append(Running(*arguments))
        return running[-1]

    return go


@pytest.fixture
def exchange(pcli):
    """Produce a message with a traceparent, and consume it."""

    def go(url):
        header = f"traceparent=00-{TRACE}-{SPAN}-01"
        assert pcli("produce", "orders", "-u", url, "-m", "hello", "-p", header).code == 0
        assert pcli("consume", "orders", "-u", url, "-s", "billing", "--from", "earliest", "-n", "1").code == 0

    return go


def check(spans, attributes):
    operations = {attributes(one)["messaging.operation.name"] for one in spans}
    assert operations == {"send", "process"}
    assert {(one.trace_id.hex(), one.parent_span_id.hex()) for one in spans} == {(TRACE, SPAN)}


@pytest.mark.parametrize(
    "command", [("proxy", "--listen", "0", "--to"), ("export", "--listen", "0", "--proxy")], ids=["proxy", "export"]
)
def test_spans_leave_the_proxy_while_it_runs(start, exchange, broker, receiver, attributes, command):
    proxy = start(*command, broker.service_url, "--otlp", receiver.url)
    exchange(proxy.url())
    assert receiver.arrived.wait(60)
    check(receiver.spans, attributes)
    count = len(receiver.spans)
    code, err = proxy.stop()
    assert (code, len(receiver.spans)) == (0, count)
    assert f"exported {count} spans" in err


def test_spans_leave_the_broker_while_it_runs(start, exchange, receiver, attributes):
    broker = start("broker", "--port", "0", "--http-port", "0", "--otlp", receiver.url, "--ready-json")
    exchange(json.loads(broker.process.stdout.readline())["service_url"])
    assert receiver.arrived.wait(60)
    check(receiver.spans, attributes)
    assert broker.stop()[0] == 0


def test_an_open_message_leaves_after_the_horizon_and_its_ack_is_not_exported_again(
    start, pcli, broker, receiver, attributes
):
    proxy = start("proxy", "--listen", "0", "--to", broker.service_url, "--otlp", receiver.url, "--horizon", "1")
    assert pcli("produce", "orders", "-u", proxy.url(), "-m", "hello").code == 0
    assert receiver.arrived.wait(60)
    assert [attributes(one)["messaging.pulsar.state"] for one in receiver.spans] == ["stored"]
    assert proxy.stop()[0] == 0
    assert len(receiver.spans) == 1


def test_a_backend_that_is_down_does_not_stop_the_proxy(start, exchange, broker):
    proxy = start("proxy", "--listen", "0", "--to", broker.service_url, "--otlp", "http://127.0.0.1:9",
                  "--otlp-timeout", "0.2")  # fmt: skip
    exchange(proxy.url())
    code, err = proxy.stop()
    assert code == 2
    assert "http://127.0.0.1:9: Connection refused; the request is repeated" in err
    assert "lost 2 spans" in err


def test_spans_of_an_interface(listening, exchange, broker, receiver, attributes):
    port = broker.service_url.rpartition(":")[2]
    process = listening("export", "-f", f"tcp port {port}", "-d", f"tcp.port=={port}", "--otlp", receiver.url)
    exchange(broker.service_url)
    assert receiver.arrived.wait(60)
    check(receiver.spans, attributes)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0, err
    assert "exported 2 spans" in err
