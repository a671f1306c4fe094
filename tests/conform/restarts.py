"""Replay conversations that contain restarts of the broker, with the conformance tool.

    python tests/conform/restarts.py check  [NAME...] [--tool TOOL] [--signal TERM|KILL] [--pulsar VERSION]
    python tests/conform/restarts.py record [NAME...] [--tool TOOL] [--signal TERM|KILL] [--pulsar VERSION]
                                            --real START [--runs 3]

``check`` uses `pcli broker --data`; ``record`` uses the script START of a real broker, and writes a transcript if all
runs agree, and if it differs from that of the earlier versions. The scenarios of the folder ``restart`` run at the same
time against one broker. The broker is restarted when each of them waits for it. There are transcripts for SIGTERM and
for SIGKILL. A scenario without transcript fails. The attribute ``not_compared`` of a scenario contains the signals with
which it is not compared, and the reasons. Both verbs print them.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pcli.minibroker.versions import DEFAULT, NAMES

HERE = Path(__file__).parent
FOLDER = HERE / "restart"
SHARED = HERE.parent.parent.parent / "shared" / "conform"
SETTINGS = ("transactionCoordinatorEnabled=true", "keepAliveIntervalSeconds=600", "enableShadowTopics=true")
"""Settings of both brokers. A scenario does not answer PINGs while it waits for the others."""
PATIENCE = 60.0
RECORD_QUIET = 1.2
"""Seconds of silence that end a step of a recording."""
SETTLED = 0.4
"""Seconds in which statistics must not change before they are compared."""
START_SECONDS = 120
_TIME = 1_000_000_000_000
"""Numbers above this one are times in milliseconds."""
LEFT_OUT = {"address", "ownerBroker", "cursorLedger", "cursorLedgerLastEntry", "pendingReadOps"}
LEFT_OUT |= {"lastAckedTime", "lastConsumedTime", "lastLedgerSwitchTimestamp", "lastLedgerCreatedTimestamp"}
AGE = "oldestBacklogMessageAgeSeconds"


def free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Broker:
    """A broker process whose ports and data remain the same at each start."""

    def __init__(self, folder: Path, version: str, real: str) -> None:
        """``real`` is the script of a real broker; if it is empty, the broker is `pcli broker` of this version."""
        port, http_port = free_port(), free_port()
        self.url, self.http = f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{http_port}"
        data = str(folder / "data")
        if real:
            ports = (f"brokerServicePort={port}", f"webServicePort={http_port}")
            self.command = [real, data, *SETTINGS, *ports]
        else:
            self.command = [sys.executable, "-m", "pcli.cli", "broker", "--data", data, "--log", "quiet"]
            self.command += ["--pulsar", version]
            self.command += ["--port", str(port), "--http-port", str(http_port)]
            self.command += [part for setting in SETTINGS for part in ("--set", setting)]
        self.log = (folder / "log").open("w")
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it serves requests."""
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        until = time.monotonic() + START_SECONDS
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise RuntimeError(f"the broker does not start; see {self.log.name}")
            time.sleep(0.1)

    def ready(self) -> bool:
        """Return whether the broker lists the topics of the default namespace."""
        try:
            with urllib.request.urlopen(f"{self.http}/admin/v2/persistent/public/default", timeout=10):
                return True
        except OSError:
            return False

    def stop(self, number: int) -> None:
        """End the process with a signal."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)


class Restarts:
    """The restarts of one broker, which happen when all scenarios that run wait for one."""

    def __init__(self, broker: Broker, number: int, running: int) -> None:
        self._broker = broker
        self._number = number
        self._running = running
        self._waiting = self._late = 0
        self._count = 0
        self._changed = threading.Condition()

    def wait(self) -> None:
        """Wait until the broker was restarted."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            count = self._count
            self._restart_if_due()
            self._changed.wait_for(lambda: self._count > count)

    def wait_for_others(self) -> None:
        """Wait until all other scenarios wait for the restart."""
        with self._changed:
            self._late += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting + self._late >= self._running)
            self._late -= 1

    def leave(self) -> None:
        """Record that a scenario has ended."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()
            self._restart_if_due()

    def _restart_if_due(self) -> None:
        if self._waiting < self._running or not self._waiting:
            return
        try:
            self._broker.stop(self._number)
            self._broker.start()
        finally:
            self._waiting, self._count = 0, self._count + 1
            self._changed.notify_all()


def load_tool(tool: Path) -> Any:
    """Return the module of the conformance tool, whose runs can restart the broker."""
    sys.path.insert(0, str(tool))
    import conform

    class Run(conform.Run):  # type: ignore[misc, name-defined]
        """A run with restarts and with statistics in which ids and times are replaced."""

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.ledgers: dict[int, str] = {}
            self.quiet = None if self.expected else RECORD_QUIET

        def restart(self) -> None:
            """Restart the broker. The transcript contains what the connections receive before their end."""
            self.did(("", "restart"))
            self.opts.restarts.wait()
            self.settle()

        def wait_for_others(self) -> None:
            """Wait until all other scenarios wait for the restart, so that it follows at once."""
            self.opts.restarts.wait_for_others()

        def receive(self, connection: Any, count: int) -> None:
            """Grant permits to consumer 1, and wait for a number of messages while recording."""
            connection.flow(100)
            until = time.monotonic() + PATIENCE
            while not self.expected and len(connection.received()) < count and time.monotonic() < until:
                self.settle()
                for name, frames in self.steps.pop()["got"].items():
                    self.steps[-1]["got"].setdefault(name, []).extend(frames)

        def show(self, topic: str, rest: str) -> Any:
            """Add the JSON value of a GET request to the transcript, one line per value, when it no longer changes.

            A broker starts reads, writes cursors and deletes ledgers some time after the command that causes this.
            """
            path = self.path(topic, rest)
            self.did(("", f"admin GET {path}"))
            before, until = None, time.monotonic() + PATIENCE
            status, value = self.http("GET", path)
            while before != value and time.monotonic() < until:
                time.sleep(SETTLED)
                before, (status, value) = value, self.http("GET", path)
            lines = [str(status)]
            if status == 200:
                lines += flat("", value, self.name_of)
            self.settle(admin=lines)
            return value

        def name_of(self, ledger: int) -> str:
            """Return a name for a ledger id, in the order of appearance."""
            if ledger not in self.ledgers:
                lower = any(ledger < known for known in self.ledgers)
                self.ledgers[ledger] = f"A{len(self.ledgers) + 1}" + ("v" if lower else "")
            return self.ledgers[ledger]

    conform.Run = Run
    return conform


def flat(path: str, value: Any, name: Callable[[int], str]) -> list[str]:
    """Return the values in a JSON value as lines; ledger ids become names, and times become T.

    Values that depend on time, addresses and cursor ledgers, and those that say that there is nothing, are left out.
    """
    if isinstance(value, dict):
        return [line for key in sorted(value) for line in flat(f"{path}.{key}" if path else key, value[key], name)]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [line for index, one in enumerate(value) for line in flat(f"{path}.{index}", one, name)]
    key = path.rpartition(".")[2]
    if key == "ledgerId" and value >= 0:
        return [f"{path} = {json.dumps(name(value))}"]
    if key == AGE and value >= 0:
        return [f'{path} = "T"']
    if key in LEFT_OUT or isinstance(value, float) or value in (0, False, "", [], -1, "[]", None):
        return []
    if (isinstance(value, int) and value > _TIME) or re.match(r"\d{4}-\d\d-\d\dT", str(value)):
        value = "T"
    elif isinstance(value, str):
        value = re.sub(r"(?<!\w)(\d+)(?=:-?\d)", lambda found: name(int(found[1])), value)
    return [f"{path} = {json.dumps(value)}"]


def play_all(conform: Any, scenarios: dict[str, Any], options: Any, expected: dict[str, Any]) -> dict[str, Any]:
    """Play all scenarios against a new broker; return the transcript and the reason of the stop by name."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), options.pulsar, options.real)
        options.url, options.http, options.keep = broker.url, broker.http, True
        options.restarts = Restarts(broker, getattr(signal, f"SIG{options.signal}"), len(scenarios))

        def play(name: str) -> Any:
            try:
                _, lines, stop = conform.play(name, scenarios[name], options, expected.get(name))
            except Exception as error:
                return [], f"stopped: {error!r}"
            finally:
                options.restarts.leave()
            return lines, stop

        try:
            with ThreadPoolExecutor(len(scenarios)) as pool:
                return dict(zip(scenarios, pool.map(play, scenarios), strict=True))
        finally:
            broker.process.kill()
            broker.process.wait()
            broker.log.close()


def file_of(name: str, options: Any) -> Path:
    """Return the file of a transcript: the one of the latest version up to ``options.pulsar`` that has one."""
    known = NAMES[1 : NAMES.index(options.pulsar) + 1]
    found = [own for version in reversed(known) if (own := own_file(name, version, options.signal)).exists()]
    return found[0] if found else own_file(name, NAMES[0], options.signal)


def own_file(name: str, version: str, number: str) -> Path:
    """Return the file of the transcript of a version."""
    folder = FOLDER / "transcripts" if version == NAMES[0] else HERE / version / "restart"
    return folder / number / f"{name}.json"


def check(conform: Any, scenarios: dict[str, Any], options: Any) -> int:
    """Compare `pcli broker` with the transcripts. Return the number of scenarios that differ or have no transcript."""
    missing = [name for name in scenarios if not file_of(name, options).exists()]
    for name in missing:
        print(f"FAIL {name} ({options.signal})", "no transcript: record it", sep="\n    ")
    scenarios = {name: one for name, one in scenarios.items() if name not in missing}
    expected = {name: json.loads(file_of(name, options).read_text())["steps"] for name in scenarios}
    failed = len(missing)
    results = play_all(conform, scenarios, options, expected) if scenarios else {}
    for name, (lines, stop) in results.items():
        if stop or not conform.same(expected[name], lines):
            failed += 1
            print(f"FAIL {name} ({options.signal})", *conform.diff(expected[name], lines, stop), sep="\n    ")
    passed = len(scenarios) + len(missing) - failed
    print(f"{passed} passed, {failed} failed (restarts with SIG{options.signal}, {options.pulsar})", flush=True)
    return failed


def record(conform: Any, scenarios: dict[str, Any], options: Any) -> int:
    """Write the transcripts of a real broker. Return the number of scenarios whose runs differ."""
    first: dict[str, Any] = {}
    unstable: dict[str, list[str]] = {}
    for _ in range(options.runs):
        for name, (lines, stop) in play_all(conform, scenarios, options, first).items():
            if stop:
                unstable[name] = [stop, *conform.flat(lines, True)[-12:]]
            elif name not in first:
                first[name] = lines
            elif not conform.same(first[name], lines):
                unstable[name] = conform.diff(first[name], lines, None)
    for name, scenario in scenarios.items():
        if name in unstable:
            print(f"UNSTABLE {name} ({options.signal})", *unstable[name], sep="\n    ")
            continue
        known = file_of(name, options)
        if known.exists() and conform.same(json.loads(known.read_text())["steps"], first[name]):
            continue
        target = own_file(name, options.pulsar, options.signal)
        text = {"name": name, "about": (scenario.__doc__ or "").strip(), "runs": options.runs, "steps": first[name]}
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(scenarios) - len(unstable)} recorded, {len(unstable)} not (SIG{options.signal})", flush=True)
    return len(unstable)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["check", "record"])
    parser.add_argument("names", nargs="*", default=["*"], help="names or globs of scenarios")
    parser.add_argument("--tool", type=Path, default=SHARED)
    parser.add_argument("--signal", choices=["TERM", "KILL"])
    parser.add_argument("--pulsar", choices=NAMES, default=DEFAULT.name)
    parser.add_argument("--real", default="")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_intermixed_args()
    options.patience = PATIENCE
    conform = load_tool(options.tool)
    known = conform.load(FOLDER)
    found = {name: one for name, one in known.items() if any(fnmatch.fnmatch(name, glob) for glob in options.names)}
    if not found:
        parser.error(f"no scenario matches {' '.join(options.names)}")
    failed = 0
    for number in [options.signal] if options.signal else ["TERM", "KILL"]:
        options.signal = number
        reasons = {name: getattr(one, "not_compared", {}).get(number) for name, one in found.items()}
        for name, reason in reasons.items():
            if reason:
                print(f"NOT COMPARED {name} ({number})", reason, sep="\n    ")
        chosen = {name: one for name, one in found.items() if not reasons[name]}
        failed += {"check": check, "record": record}[options.verb](conform, chosen, options)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
