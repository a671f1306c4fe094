"""Programs of the ecosystem, run through a proxy that captures their traffic with a broker (see README.md)."""

from __future__ import annotations

import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from ecosystem.running import Traffic
from scenarios.brokers import BrokerError, mini_broker, real_broker
from scenarios.connections import Broker

from pcli.replay.proxy import Proxy

HERE = Path(__file__).parent
REAL = HERE.parents[2] / "shared" / "real-broker" / "start"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker that ECOSYSTEM_BROKER selects: mini (default), or real with the start script REAL."""
    with ExitStack() as stack:
        if os.environ.get("ECOSYSTEM_BROKER", "mini") == "mini":
            yield stack.enter_context(mini_broker())
            return
        try:
            yield stack.enter_context(real_broker(Path(os.environ.get("REAL") or REAL)))
        except BrokerError as reason:
            pytest.skip(f"no real broker: {reason}")


@pytest.fixture
def traffic(broker: Broker, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Traffic]:
    """The addresses for a program. ECOSYSTEM_KEEP is a folder for the captures."""
    folder = Path(os.environ.get("ECOSYSTEM_KEEP") or tmp_path)
    capture = folder / f"{request.node.name.removeprefix('test_')}-{broker.name.split('-')[0].split()[0]}.pcapng"
    with Proxy(to=broker.service_url, http_listen=0, http_to=broker.http_url, capture=capture) as proxy:
        yield Traffic(proxy, capture, request.config)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, broker: Broker) -> str:
    """A new namespace with the name of the test."""
    name = f"public/{request.node.name.removeprefix('test_').replace('_', '-')}"
    put = urllib.request.Request(f"{broker.http_url}/admin/v2/namespaces/{name}", method="PUT")
    with urllib.request.urlopen(put, timeout=30):
        return name
