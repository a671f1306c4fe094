"""The processes of applications: the programs with the Python, the Java, the Java V5 and the Go client."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from interop.building import MissingError, build_go, build_java, digest, lock_folder
from scenarios.diagnosis.plan import Step

_FOLDER = Path(__file__).parent
_ANSWER_S = 30

_SOURCES = {
    "python": "application.py",
    "java": "Application.java",
    "java5": "ApplicationV5.java",
    "go": "application.go",
}
_SHARED, _POM_V5 = _FOLDER / "ClientProgram.java", _FOLDER / "pom-v5.xml"


@cache
def client_command(client: str) -> list[str | Path]:
    """Return the start of the command line of the program with a client. It is compiled if it has changed.

    Raises MissingError without the tools or packages of the client.
    """
    source = _FOLDER / _SOURCES[client]
    if client == "python":
        return [sys.executable, source]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "pcli-scenarios" / f"{client}-{digest(source, _SHARED)[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        if client == "go":
            return build_go(folder, source)
        poms = [_POM_V5] if client == "java5" else []
        return [*build_java(folder, [_SHARED, source], *poms), source.stem]


def client_fault(client: str) -> str:
    """Return why the program with a client cannot run, or an empty string."""
    try:
        client_command(client)
    except (MissingError, subprocess.TimeoutExpired) as reason:
        return str(reason).splitlines()[-1]
    return ""


class Process:
    """A process that runs one or more applications."""

    def __init__(self, command: Sequence[str | Path], errors: Path) -> None:
        self._errors = errors.open("wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1
        )
        self._lock = threading.Lock()
        self._answers: dict[str, queue.Queue[str]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def application(self, name: str, log: Path) -> Application:
        """Return an application of this process. ``log`` is the file with its events."""
        self._answers[name] = queue.Queue()
        return Application(name, log, self, self._answers[name])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers[json.loads(line)["app"]].put(line)
        for answers in self._answers.values():
            answers.put("")

    def write(self, command: Step) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    @property
    def alive(self) -> bool:
        """Whether the process runs or is stopped."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process. A second call has no effect."""
        if self.alive:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for file in (self._process.stdin, self._process.stdout, self._errors):
            if file is not None:
                with suppress(BrokenPipeError):
                    file.close()


class Application:
    """An application: a client with its producers and consumers, and a log."""

    def __init__(self, name: str, log: Path, process: Process, answers: queue.Queue[str]) -> None:
        self.name, self.log, self.process = name, log, process
        self._answers = answers
        self.pending = 0
        """The number of commands without a response."""

    def send(self, step: Step) -> None:
        """Send a command."""
        self.process.write({**step, "app": self.name})
        self.pending += 1

    def answer(self) -> dict[str, Any]:
        """Return the response to the oldest command without one."""
        self.pending -= 1
        try:
            line = self._answers.get(timeout=_ANSWER_S)
        except queue.Empty:
            return {"error": f"no response after {_ANSWER_S} s"}
        return json.loads(line) if line else {"error": "the process ended"}
