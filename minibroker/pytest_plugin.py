"""The pytest plugin: a broker for each test (`pulsar_broker`), or one for all of them (`pulsar_broker_session`).

Rules of this file
1. Every pytest run of whoever has pcli installed loads this module. It imports nothing but pytest and the standard
   library; the broker is imported when a fixture wants it.
2. A test says with a mark what its broker is like: ``@pytest.mark.pulsar_broker(maxUnackedMessagesPerConsumer=50)``
   takes what MiniBroker takes.
3. ``--pulsar-broker-log`` adds to the report of a failing test what the clients and its broker said to each other
   during the test.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pcli.minibroker.embedded.mini_broker import MiniBroker

__all__ = [
    "pulsar_broker",
    "pulsar_broker_session",
    "pytest_addoption",
    "pytest_configure",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
]

_SECTION = "conversation with the Pulsar broker"
_OWN: pytest.StashKey[MiniBroker] = pytest.StashKey()
"""Of a test: its own broker."""
_SHARED: pytest.StashKey[MiniBroker] = pytest.StashKey()
"""Of the run: the shared one."""
_BEFORE: pytest.StashKey[int] = pytest.StashKey()
"""Of a test: the number of the shared broker's last frame before it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of the plugin."""
    group = parser.getgroup("pulsar", "Pulsar mini-broker (pcli)")
    group.addoption(
        "--pulsar-broker-log",
        action="store_true",
        help="Show the conversation with the broker, frame by frame, in the report of a test that fails.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The mark of the plugin."""
    config.addinivalue_line("markers", "pulsar_broker(**settings): arguments for the MiniBroker of this test.")


@pytest.fixture
def pulsar_broker(request: pytest.FixtureRequest) -> Iterator[MiniBroker]:
    """A broker of this test's own; ``pulsar_broker.service_url`` is where clients connect."""
    from pcli.minibroker.embedded.mini_broker import MiniBroker

    arguments: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("pulsar_broker"))):  # the nearest one counts most
        arguments |= mark.kwargs
    with MiniBroker(**arguments) as broker:
        request.node.stash[_OWN] = broker
        yield broker


@pytest.fixture(scope="session")
def pulsar_broker_session(request: pytest.FixtureRequest) -> Iterator[MiniBroker]:
    """One broker for the whole run: topics of other tests are there, so each test takes names of its own."""
    from pcli.minibroker.embedded.mini_broker import MiniBroker

    with MiniBroker() as broker:
        request.config.stash[_SHARED] = broker
        yield broker


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember where the conversation of this test with the shared broker begins."""
    shared = item.config.stash.get(_SHARED, None)
    if shared is not None and item.config.getoption("--pulsar-broker-log"):
        item.stash[_BEFORE] = shared.frames.count


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the conversation to the report of a test that has failed."""
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
    report.sections.append((_SECTION, lines or "nobody said anything\n"))
