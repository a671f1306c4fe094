"""Fixtures of all tests: real captures, a broker, a tap."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from pcli.minibroker import MiniBroker

# No test fails because an example takes long.
settings.register_profile("pcli", deadline=None)
settings.load_profile("pcli")

SMALL = Path(__file__).parent / "captures"
SHARED = Path(__file__).parent.parent.parent / "shared"


class AllowedSkips:
    """Fails the run if a test is skipped for a reason that is not in the file."""

    def __init__(self, file: Path) -> None:
        lines = (line.strip() for line in file.read_text().splitlines())
        self._patterns = [line for line in lines if line and not line.startswith("#")]
        self.refused: dict[str, str] = {}
        """Reasons that are not listed, each with the first test that gave it."""

    def _check(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
            return
        reason = report.longrepr[2].removeprefix("Skipped: ").strip()
        if not any(fnmatchcase(reason, pattern) for pattern in self._patterns):
            self.refused.setdefault(reason, report.nodeid)

    pytest_runtest_logreport = _check
    pytest_collectreport = _check

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for reason, test in self.refused.items():
            terminalreporter.write_line(f"skip not in the list of allowed skips: {test}: {reason}", red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--allowed-skips", type=Path, metavar="FILE", help="fail on skips whose reason FILE does not list")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--allowed-skips")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(AllowedSkips(file))


PACKAGES_OF_ONE_WORKER = ("tests/spark/jobs", "tests/interop", "tests/spark/columnar/observation")
"""Packages whose fixtures take longer than their tests (JVMs, programs to build, the whole corpus). They run first."""


def _package_of(path: str) -> str | None:
    return next((package for package in PACKAGES_OF_ONE_WORKER if path.startswith(f"{package}/")), None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start Spark as slow."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _package_of(item.nodeid) is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a module, or of a package above, in one worker, so that its fixtures are made once.

    pytest 9.2 ignores the groups of pytest-xdist 3.8 (``--dist loadgroup``).
    """
    from xdist.scheduler import LoadScopeScheduling

    class ModuleScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return _package_of(path) or path

    return ModuleScheduling(config, log)


def _shared(folder: str) -> Path:
    path = SHARED / folder
    if not path.is_dir():
        if os.environ.get("PCLI_NEED_SHARED"):
            pytest.fail(f"{path} is missing, and PCLI_NEED_SHARED is set")
        pytest.skip(f"{path} is not here")
    return path


@pytest.fixture(scope="session")
def small_captures() -> Path:
    """The captures that are committed."""
    return SMALL


@pytest.fixture(scope="session")
def captures() -> Path:
    """The whole corpus."""
    return _shared("captures")


@pytest.fixture(scope="session")
def captures_5() -> Path:
    """Captures of clients of Pulsar 5, with truth files."""
    return _shared("captures-5")


@pytest.fixture(scope="session")
def pulsar_5() -> Iterator[Any]:
    """A real broker 5.0.1."""
    sys.path.insert(0, str(Path(__file__).parent))
    from scenarios.brokers import BrokerError, real_broker

    with ExitStack() as stack:
        try:
            broker = stack.enter_context(real_broker(_shared("real-broker-5") / "start"))
        except BrokerError as reason:
            pytest.skip(f"no real broker: {reason}")
        yield broker


@pytest.fixture(scope="session")
def reports() -> Path:
    """Captures of real reports, and of programs with default settings."""
    return _shared("third-look")


@pytest.fixture(scope="session")
def protocol_facts() -> Path:
    """The folder with the list of the protocol's facts."""
    return _shared("protocol")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Restore the effect of Ctrl-C, which the process that started the tests may have disabled."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def broker() -> Iterator[MiniBroker]:
    """A broker on sockets; the test fails if the broker had an internal error."""
    with MiniBroker() as running:
        yield running
    assert running.failures == []


class Notebook:
    """A tap that records all events."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.over = threading.Event()
        """Set when a connection has ended."""

    def opened(self, number: int, client: Any, server: Any, time_ns: int) -> None:
        self.lines.append(("opened", number))

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        self.lines.append((number, from_client, data))

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        self.lines.append(("closed", number, from_client, reset, reason))
        self.over.set()


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


class FullLater:
    """A file that accepts a limited number of bytes."""

    closed = False

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, data: bytes) -> None:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def full_later() -> Callable[[int], FullLater]:
    """Creates a file whose disk is full after a number of bytes."""
    return FullLater
