"""The pytest plugin in a project that has pcli installed: each test runs pytest in its own process."""

import os
import subprocess
import sys

import pytest

PEER = """
import socket
import pytest
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame

def connect(broker):
    host, _, port = broker.service_url.removeprefix("pulsar://").rpartition(":")
    with socket.create_connection((host, int(port)), 10) as line:
        line.sendall(push_frame(pb.CommandConnect(client_version=CLIENT, protocol_version=20)))
        assert line.recv(4096)
"""


@pytest.fixture
def run(tmp_path):
    """Run pytest on a test file; return its output."""

    def go(source, *options):
        (tmp_path / "test_it.py").write_text(PEER + source)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *options]
        environment = {**os.environ, "PYTEST_ADDOPTS": "", "NO_COLOR": "1"}
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
        ).stdout

    return go


def test_loading_it_imports_nothing_of_the_broker():
    script = (
        "import sys; import pcli.minibroker.pytest_plugin; print([m for m in sys.modules if m.startswith('pcli.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pcli.minibroker', 'pcli.minibroker.pytest_plugin']"


def test_a_broker_for_each_test_and_one_for_all(run):
    output = run(
        """
CLIENT = "one"
seen = []

def test_own(pulsar_broker, pulsar_broker_session):
    connect(pulsar_broker)
    seen.append((pulsar_broker.service_url, pulsar_broker_session.service_url))
    assert pulsar_broker.frames("pulsar.type == 'CONNECT'")

def test_another(pulsar_broker, pulsar_broker_session):
    assert pulsar_broker.frames() == []
    assert pulsar_broker_session.service_url == seen[0][1]
    assert pulsar_broker.service_url not in seen[0]

@pytest.fixture(scope="module")
def topics(pulsar_broker_session):
    pulsar_broker_session.create_topic("orders")
    return pulsar_broker_session.topics

def test_wider_fixtures_can_use_the_shared_one(topics):
    assert topics == ["persistent://public/default/orders"]
"""
    )
    assert "3 passed" in output


@pytest.mark.slow
def test_a_mark_configures_the_broker(run):
    output = run(
        """
pytestmark = pytest.mark.pulsar_broker(topics=["orders"], maxMessageSize=1000)

@pytest.mark.pulsar_broker(topics=["jobs:2"])
def test_it(pulsar_broker):
    assert len(pulsar_broker.topics) == 2
""",
        "--strict-markers",
    )
    assert "1 passed" in output


FAILING = """
CLIENT = "nobody-else"

def test_fine(pulsar_broker_session):
    connect(pulsar_broker_session)

def test_own(pulsar_broker):
    connect(pulsar_broker)
    assert False

def test_silent(pulsar_broker):
    assert False

def test_shared(pulsar_broker_session):
    connect(pulsar_broker_session)
    assert False

def test_without():
    assert False
"""


@pytest.mark.slow
def test_a_failed_test_reports_its_own_frames(run):
    output = run(FAILING, "--pulsar-broker-log")
    assert "4 failed, 1 passed" in output
    parts = output.split("conversation with the Pulsar broker")
    assert [part.count("CONNECT  ") for part in parts[1:]] == [1, 0, 1]
    assert "no frames" in parts[2]
    assert "     3 " in parts[3]  # the earlier frames belong to a different test


@pytest.mark.slow
def test_without_the_option_nothing_is_attached(run):
    output = run(FAILING)
    assert "4 failed, 1 passed" in output
    assert "conversation" not in output
