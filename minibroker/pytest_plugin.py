"""The pytest plugin: one broker for each test (`pulsar_broker`) or for the whole run (`pulsar_broker_session`).

Rules of this file
1. Every pytest run loads this module if pcli is installed. It imports only pytest and the standard library; the
   fixtures import the broker.
2. A mark configures the broker of a test: ``@pytest.mark.pulsar_broker(maxUnackedMessagesPerConsumer=50)`` accepts the
   arguments of MiniBroker.
3. ``--pulsar-broker-log`` adds the frames between the clients and the broker to the report of a failing test.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pcli.minibroker.embedded.mini_broker import MiniBroker

_SECTION = "conversation with the Pulsar broker"
_OWN: pytest.StashKey[MiniBroker] = pytest.StashKey()
"""Stash key of a test: the test's broker."""
_SHARED: pytest.StashKey[MiniBroker] = pytest.StashKey()
"""Stash key of the session: the shared broker."""
_BEFORE: pytest.StashKey[int] = pytest.StashKey()
"""Stash key of a test: the shared broker's last frame number before the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's command-line option."""
    group = parser.getgroup("pulsar", "Pulsar mini-broker (pcli)")
    group.addoption(
        "--pulsar-broker-log",
        action="store_true",
        help="Show the conversation with the broker, frame by frame, in the report of a failing test.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin's mark."""
    config.addinivalue_line("markers", "pulsar_broker(**settings): arguments for the MiniBroker of this test.")


@pytest.fixture
def pulsar_broker(request: pytest.FixtureRequest) -> Iterator[MiniBroker]:
    """A broker for this test; clients connect to ``pulsar_broker.service_url``."""
    from pcli.minibroker.embedded.mini_broker import MiniBroker

    arguments: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("pulsar_broker"))):  # the closest mark takes precedence
        arguments |= mark.kwargs
    with MiniBroker(**arguments) as broker:
        request.node.stash[_OWN] = broker
        yield broker


@pytest.fixture(scope="session")
def pulsar_broker_session(request: pytest.FixtureRequest) -> Iterator[MiniBroker]:
    """One broker for the whole run. It keeps the topics of other tests, so each test must use unique names."""
    from pcli.minibroker.embedded.mini_broker import MiniBroker

    with MiniBroker() as broker:
        request.config.stash[_SHARED] = broker
        yield broker


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Record the last frame number of the shared broker before this test."""
    shared = item.config.stash.get(_SHARED, None)
    if shared is not None and item.config.getoption("--pulsar-broker-log"):
        item.stash[_BEFORE] = shared.frames.count


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the conversation to the report of a failed test."""
    report = yield
    if report.failed and item.config.getoption("--pulsar-broker-log"):
        own, shared = item.stash.get(_OWN, None), item.config.stash.get(_SHARED, None)
        if own is not None:
            _attach(report, own, 0)
        if shared is not None and "pulsar_broker_session" in getattr(item, "fixturenames", ()):
            _attach(report, shared, item.stash.get(_BEFORE, 0))
    return report


def _attach(report: pytest.TestReport, broker: MiniBroker, before: int) -> None:
    lines = "".join(f"{frame.text}\n" for frame in broker.frames if frame.number > before)
    report.sections.append((_SECTION, lines or "no frames\n"))
