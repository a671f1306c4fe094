"""Real clients and the mini-broker.

Each client's program is built and started once, and runs the scenarios of all tests.

README.md describes the protocol between test and program. A program runs until the session ends, because a JVM starts
slowly.
"""

from __future__ import annotations

import importlib.util
import json
import queue
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from interop.building import (
    MissingError,
    build_go,
    build_java,
    digest,
    fetch,
    is_current,
    lock_folder,
    require_tools,
)

HERE = Path(__file__).parent
PLAY_SECONDS = 60
CLIENT_FIELDS = ("request_id", "consumer_name", "producer_name", "consumer_id")
"""Ids and names that each client chooses itself."""


class FailedError(Exception):
    """The scenario failed, or the program ended."""


def python_program(_: Path) -> list[str | Path]:
    if importlib.util.find_spec("pulsar") is None:
        raise MissingError("pulsar-client is not installed")
    return [sys.executable, HERE / "python" / "interop.py"]


def java_program(cache: Path) -> list[str | Path]:
    """Compile the programs. The last item of the command line is the main class."""
    return [*build_java(cache, sorted((HERE / "java").glob("*.java"))), "Interop"]


def go_program(cache: Path) -> list[str | Path]:
    return build_go(cache, HERE / "go" / "main.go")


def node_program(cache: Path) -> list[str | Path]:
    """Install the package in the cache with npm. The program is copied there, so that it finds the package."""
    require_tools("node", "npm")
    names = ("package.json", "package-lock.json")
    digest_file, sources = cache / "made-of", [HERE / "node" / name for name in names]
    if not is_current(digest_file, *sources):
        for source in sources:
            shutil.copy(source, cache)
        fetch("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=cache)
        digest_file.write_text(digest(*sources))
    shutil.copy(HERE / "node" / "interop.js", cache)
    return ["node", cache / "interop.js"]


BUILDERS: dict[str, Callable[[Path], list[str | Path]]] = {
    "python": python_program,
    "java": java_program,
    "go": go_program,
    "node": node_program,
}


class Program:
    """A running program of a client.

    It reads commands from stdin and writes results to stdout, one line of JSON each.
    """

    def __init__(self, command_line: list[str | Path], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def play(self, command: dict[str, Any], actions: dict[str, Callable[[], object]]) -> Any:
        """Run a scenario and return the client's result."""
        result = self.run_command(command, actions)
        assert result["scenario"] == command["scenario"]
        return result["saw"]

    def run_command(self, command: dict[str, Any], actions: dict[str, Callable[[], object]]) -> Any:
        """Send a command, perform the actions that the program requests, and return the result.

        Raise FailedError if the scenario fails or the program ends.
        """
        self._write_line(json.dumps(command))
        while True:
            try:
                line = self._lines.get(timeout=PLAY_SECONDS)
            except queue.Empty:
                self.stop()
                raise FailedError(f"the program printed nothing for {PLAY_SECONDS} s\n{self._errors()}") from None
            if not line:
                raise FailedError(f"the program exited with code {self._process.wait()}\n{self._errors()}")
            result = json.loads(line)
            if "please" in result:
                actions.get(result["please"], lambda: None)()
                self._write_line("done")
            elif "failed" in result:
                raise FailedError(f"{result['failed']}\n{self._errors()}")
            else:
                return result

    def _write_line(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _errors(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Programs:
    """The programs of this session. A program is built and started when a test first needs it."""

    def __init__(self, cache: Callable[[str], Path], logs: Path) -> None:
        self._cache = cache
        self._logs = logs
        self._command_lines: dict[str, list[str | Path] | str] = {}
        self._running: dict[str, Program] = {}

    def command_line(self, name: str) -> list[str | Path]:
        """Return the command line of a program. Skip the test if the program is not available."""
        if name not in self._command_lines:
            try:
                with lock_folder(self._cache(name)) as cache:
                    self._command_lines[name] = BUILDERS[name](cache)
            except (MissingError, subprocess.TimeoutExpired) as reason:
                self._command_lines[name] = str(reason)
        found = self._command_lines[name]
        if isinstance(found, str):
            pytest.skip(f"the {name} client is not available: {found}")
        return found

    def get(self, name: str) -> Program:
        return self._start(name, self.command_line(name))

    def java(self, main: str) -> Program:
        """Return a second program of the Java client; ``main`` is its main class."""
        return self._start(main, [*self.command_line("java")[:-1], main])

    def _start(self, name: str, command_line: list[str | Path]) -> Program:
        if name not in self._running or not self._running[name].alive:
            self._running[name] = Program(command_line, self._logs / f"{name}.stderr")
        return self._running[name]

    def stop_program(self, name: str) -> None:
        if name in self._running:
            self._running.pop(name).stop()

    def stop(self) -> None:
        for name in list(self._running):
            self.stop_program(name)


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    def cache(name: str) -> Path:
        return Path(request.config.cache.mkdir(f"interop-{name}"))

    running = Programs(cache, tmp_path_factory.mktemp("interop"))
    yield running
    running.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow, except those with the Python client only: the others build programs."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            if parameters.get("client") != "python":
                item.add_marker(pytest.mark.slow)


@pytest.fixture(params=list(BUILDERS))
def client(request: pytest.FixtureRequest, programs: Programs) -> str:
    """The name of a client that is available."""
    programs.command_line(request.param)
    return str(request.param)


@pytest.fixture
def play(client: str, programs: Programs, pulsar_broker: Any) -> Iterator[Callable[..., Any]]:
    """Run a scenario with this test's broker: ``play("seek", topic="orders")`` returns the client's result.

    ``over="http"`` passes the HTTP URL to the client, for lookups. An argument that is a function is an action: the
    scenario requests it by its name (``restart=broker.restart``), and continues when the function has returned.
    """

    def run(scenario: str, over: str = "pulsar", **details: Any) -> Any:
        actions = {name: value for name, value in details.items() if callable(value)}
        command = {name: value for name, value in details.items() if name not in actions}
        url = pulsar_broker.http_url if over == "http" else pulsar_broker.service_url
        try:
            return programs.get(client).play({"scenario": scenario, "url": url, **command}, actions)
        except BaseException:
            programs.stop_program(client)  # connections that it left open would be retried forever
            raise

    yield run
    assert pulsar_broker.failures == []


@pytest.fixture
def rest(pulsar_broker: Any) -> Callable[..., Any]:
    """Send a request to the broker's admin REST API: ``rest("GET", "persistent/public/default/orders/stats")``."""

    def send_request(method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"{pulsar_broker.http_url}/admin/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                text = response.read()
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{method} {path}: {refused.code} {refused.read().decode()}") from None
        return json.loads(text) if text else None

    return send_request


@pytest.fixture(scope="session")
def client_frames() -> Callable[[Any], list[tuple[Any, Any]]]:
    """The frames that clients sent to a broker, each with its body without CLIENT_FIELDS."""

    def without_client_fields(command: Any) -> Any:
        body = type(command)()
        body.CopyFrom(command)
        for name in CLIENT_FIELDS:
            if name in body.DESCRIPTOR.fields_by_name:
                body.ClearField(name)
        return body

    def client_frames_of(broker: Any) -> list[tuple[Any, Any]]:
        frames = broker.frames("pulsar.from == 'client'")
        return [
            (frame, without_client_fields(frame.command)) for frame in frames if frame.type not in ("CONNECT", "PONG")
        ]

    return client_frames_of
