"""The brokers that plans run against: processes that are started for a run, or given URLs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scenarios.connections import Broker

from pcli.minibroker.versions import DEFAULT

_START_S = 120
_SETTINGS = ("transactionCoordinatorEnabled=true", "forceDeleteNamespaceAllowed=true")
"""Settings of all brokers. The first is part of the real broker's standalone.conf."""

_SHARED = Path(__file__).parent.parent.parent.parent / "shared"
STARTS = {"4.2.4": _SHARED / "real-broker" / "start", "5.0.1": _SHARED / "real-broker-5" / "start"}
"""The scripts that start a real broker, by version."""


class BrokerError(Exception):
    """A broker cannot be started. The text is one line."""


@contextmanager
def mini_broker(*settings: str, token: str = "", version: str = DEFAULT.name) -> Iterator[Broker]:
    """Run `pcli broker` in its own process, with more settings of the form NAME=VALUE.

    ``token`` is that of a superuser, if the settings require authentication.
    """
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [sys.executable, "-m", "pcli.cli", "broker", "--port", "0", "--http-port", "0", "--log", "quiet"]
        command += ["--pulsar", version]
        command += [word for setting in (*_SETTINGS, *settings) for word in ("--set", setting)]
        with _process([*command, "--ready-file", str(ready)], Path(folder) / "log") as process:
            _wait(process, lambda: ready.exists() and bool(ready.read_text()), Path(folder) / "log")
            urls = json.loads(ready.read_text())
            yield Broker(urls["service_url"], urls["http_url"], "mini-broker", token=token)


@contextmanager
def real_broker(start: Path, *settings: str, token: str = "") -> Iterator[Broker]:
    """Run a real broker with the script ``start`` (its first argument is a folder, the others are settings).

    ``settings`` are more settings of the form NAME=VALUE; ``token`` is that of a superuser, if they require
    authentication.
    """
    if not start.is_file():
        raise BrokerError(f"{start}: no such script; set REAL to a script that starts a real broker, or URL and ADMIN")
    if shutil.which("java") is None:
        raise BrokerError("java: not found; a real broker needs Java 17 or newer, or set URL and ADMIN")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ports = _free_port(), _free_port()
        command = [str(start), f"{folder}/data", f"brokerServicePort={ports[0]}", f"webServicePort={ports[1]}"]
        urls = f"pulsar://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
        processes: list[subprocess.Popen[bytes]] = []

        def begin() -> None:
            log = Path(folder) / f"log{len(processes)}"
            processes.append(stack.enter_context(_process([*command, *_SETTINGS, *settings], log)))
            url = f"{urls[1]}/admin/v2/persistent/public/default"
            _wait(processes[-1], lambda: _answers(url, token), log)

        def kill() -> None:
            os.killpg(processes[-1].pid, signal.SIGKILL)
            processes[-1].wait()

        begin()
        yield Broker(*urls, "real broker", token=token, kill=kill, restart=begin)


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(process: subprocess.Popen[bytes], is_ready, log: Path) -> None:
    until = time.monotonic() + _START_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > until:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            raise BrokerError(f"the broker did not start: {lines[-1] if lines else 'no output'}")
        time.sleep(0.1)


def _answers(url: str, token: str) -> bool:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
