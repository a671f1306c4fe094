"""Real clients at the mini-broker: their programs are built once a session, and told by a test what to play.

README.md says how a test and a program talk. A program lives as long as the session: a JVM starts once.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
BUILD_SECONDS = 300
PLAY_SECONDS = 60
OWN = ("request_id", "consumer_name", "producer_name", "consumer_id")
"""Ids and names that each client has of its own."""


class MissingError(Exception):
    """A tool chain, or the packages of a client, can't be had here."""


class FailedError(Exception):
    """The program said that its scenario failed, or it died of it."""


def fetched(*words: str | Path, cwd: Path) -> None:
    """Let a tool fetch packages; MissingError when it can't."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if done.returncode:
        raise MissingError(f"{words[0]} {words[1]}: {(done.stderr.strip() or done.stdout.strip())[-500:]}")


def needed(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            raise MissingError(f"there is no {tool} here")


def compiled(*words: str | Path, cwd: Path, **environment: str) -> None:
    """Compile our own source: when that fails it is wrong, and nothing is missing."""
    env = os.environ | environment
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr


def stamped(mark: Path, *sources: Path) -> bool:
    """Whether what was made of these sources is there already."""
    return mark.exists() and mark.read_text() == digest(*sources)


def digest(*sources: Path) -> str:
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def python_program(_: Path) -> list[str | Path]:
    if importlib.util.find_spec("pulsar") is None:
        raise MissingError("there is no pulsar-client here")
    return [sys.executable, HERE / "python" / "interop.py"]


def java_program(cache: Path) -> list[str | Path]:
    """Maven tells the class path (and fetches what is not here yet), javac compiles. The last word is the program."""
    needed("java", "javac", "mvn")
    pom, *sources = HERE / "java" / "pom.xml", *sorted((HERE / "java").glob("*.java"))
    path, mark = cache / "class-path", cache / "made-of"
    if not stamped(mark, pom, *sources) or not all(map(os.path.exists, path.read_text().split(os.pathsep))):
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
        fetched("mvn", "-q", "-B", "-f", pom, plugin, f"-Dmdep.outputFile={path}", cwd=cache)
        compiled("javac", "-proc:none", "-d", cache, "-cp", path.read_text(), *sources, cwd=cache)
        mark.write_text(digest(pom, *sources))
    return ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{cache}{os.pathsep}{path.read_text()}", "Interop"]


def go_program(cache: Path) -> list[str | Path]:
    """Go's own cache knows what is to be done again."""
    needed("go")
    fetched("go", "list", "-mod=readonly", "-deps", ".", cwd=HERE / "go")
    # Without cgo the client uses a zstd in Go: the build needs no C compiler, and half the time.
    words = ("go", "build", "-mod=readonly", "-buildvcs=false", "-o", cache / "interop", ".")
    compiled(*words, cwd=HERE / "go", CGO_ENABLED="0")
    return [cache / "interop"]


def node_program(cache: Path) -> list[str | Path]:
    """npm installs in the cache; the program finds the package there, because it lies beside it."""
    needed("node", "npm")
    names = ("package.json", "package-lock.json")
    mark, sources = cache / "made-of", [HERE / "node" / name for name in names]
    if not stamped(mark, *sources):
        for source in sources:
            shutil.copy(source, cache)
        fetched("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=cache)
        mark.write_text(digest(*sources))
    shutil.copy(HERE / "node" / "interop.js", cache)
    return ["node", cache / "interop.js"]


BUILDERS: dict[str, Callable[[Path], list[str | Path]]] = {
    "python": python_program,
    "java": java_program,
    "go": go_program,
    "node": node_program,
}


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Hold the lock of a folder: the workers of pytest-xdist build the same programs."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder


class Program:
    """A client's program that runs. It prints a JSON line for what it wants to say, and reads one for what to do."""

    def __init__(self, words: list[str | Path], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def play(self, order: dict[str, Any], deeds: dict[str, Callable[[], object]]) -> Any:
        """Play a scenario; give what the client saw."""
        said = self.tell(order, deeds)
        assert said["scenario"] == order["scenario"]
        return said["saw"]

    def tell(self, order: dict[str, Any], deeds: dict[str, Callable[[], object]]) -> Any:
        """Give an order, do meanwhile what is asked for; the answer. FailedError: the program failed, or is gone."""
        self._say(json.dumps(order))
        while True:
            try:
                line = self._lines.get(timeout=PLAY_SECONDS)
            except queue.Empty:
                self.stop()
                raise FailedError(f"nothing was heard of it for {PLAY_SECONDS} s\n{self._errors()}") from None
            if not line:
                raise FailedError(f"it ended with {self._process.wait()}\n{self._errors()}")
            said = json.loads(line)
            if "please" in said:
                deeds.get(said["please"], lambda: None)()
                self._say("done")
            elif "failed" in said:
                raise FailedError(f"{said['failed']}\n{self._errors()}")
            else:
                return said

    def _say(self, line: str) -> None:
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
    """The programs of this session, built and started when the first test wants them."""

    def __init__(self, cache: Callable[[str], Path], logs: Path) -> None:
        self._cache = cache
        self._logs = logs
        self._words: dict[str, list[str | Path] | str] = {}
        self._running: dict[str, Program] = {}

    def words(self, name: str) -> list[str | Path]:
        """How to call it. The test is skipped where it can't be had."""
        if name not in self._words:
            try:
                with locked(self._cache(name)) as cache:
                    self._words[name] = BUILDERS[name](cache)
            except (MissingError, subprocess.TimeoutExpired) as reason:
                self._words[name] = str(reason)
        found = self._words[name]
        if isinstance(found, str):
            pytest.skip(f"the {name} client can't run: {found}")
        return found

    def get(self, name: str) -> Program:
        return self._started(name, self.words(name))

    def java(self, main: str) -> Program:
        """Another program of the Java client: the class that has its ``main``."""
        return self._started(main, [*self.words("java")[:-1], main])

    def _started(self, name: str, words: list[str | Path]) -> Program:
        if name not in self._running or not self._running[name].alive:
            self._running[name] = Program(words, self._logs / f"{name}.stderr")
        return self._running[name]

    def end(self, name: str) -> None:
        if name in self._running:
            self._running.pop(name).stop()

    def stop(self) -> None:
        for name in list(self._running):
            self.end(name)


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    def cache(name: str) -> Path:
        return Path(request.config.cache.mkdir(f"interop-{name}"))

    running = Programs(cache, tmp_path_factory.mktemp("interop"))
    yield running
    running.stop()


@pytest.fixture(params=list(BUILDERS))
def client(request: pytest.FixtureRequest, programs: Programs) -> str:
    """The name of a client that can run here."""
    programs.words(request.param)
    return str(request.param)


@pytest.fixture
def play(client: str, programs: Programs, pulsar_broker: Any) -> Iterator[Callable[..., Any]]:
    """Let the client play a scenario at this test's broker: ``play("seek", topic="orders")`` gives what it saw.

    ``over="http"`` gives the client the HTTP URL to look topics up at. A word with a function is a deed: the scenario
    asks for it by its name (``restart=broker.restart``), and goes on when the function has returned.
    """

    def run(scenario: str, over: str = "pulsar", **details: Any) -> Any:
        deeds = {name: value for name, value in details.items() if callable(value)}
        order = {name: value for name, value in details.items() if name not in deeds}
        url = pulsar_broker.http_url if over == "http" else pulsar_broker.service_url
        try:
            return programs.get(client).play({"scenario": scenario, "url": url, **order}, deeds)
        except BaseException:
            programs.end(client)  # what it left open would come back for ever
            raise

    yield run
    assert pulsar_broker.failures == []


@pytest.fixture
def rest(pulsar_broker: Any) -> Callable[..., Any]:
    """Ask the broker's admin REST: ``rest("GET", "persistent/public/default/orders/stats")``."""

    def ask(method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            f"{pulsar_broker.http_url}/admin/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                text = answer.read()
        except urllib.error.HTTPError as refused:
            raise AssertionError(f"{method} {path}: {refused.code} {refused.read().decode()}") from None
        return json.loads(text) if text else None

    return ask


@pytest.fixture(scope="session")
def heard() -> Callable[[Any], list[tuple[Any, Any]]]:
    """What clients said to a broker: each frame, and its body without what is the client's own."""

    def bare(command: Any) -> Any:
        body = type(command)()
        body.CopyFrom(command)
        for name in OWN:
            if name in body.DESCRIPTOR.fields_by_name:
                body.ClearField(name)
        return body

    def told(broker: Any) -> list[tuple[Any, Any]]:
        frames = broker.frames("pulsar.from == 'client'")
        return [(frame, bare(frame.command)) for frame in frames if frame.type not in ("CONNECT", "PONG")]

    return told
