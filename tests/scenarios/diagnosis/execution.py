"""Execution of a plan: namespaces, application processes, a proxy that captures, REST calls and signals."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scenarios.connections import Broker
from scenarios.diagnosis.log import Log
from scenarios.diagnosis.networks import Network
from scenarios.diagnosis.plan import V5_CLIENT, Plan, Step, Track, rest_path
from scenarios.diagnosis.processes import Application, Process, client_command
from scenarios.diagnosis.raw_client import RawClient
from scenarios.diagnosis.segment_checks import segment_figures
from scenarios.diagnosis.sniffing import Tcpdump
from scenarios.diagnosis.tokens import signed

from pcli.codec.faults import Fault
from pcli.replay.proxy import Proxy

_NEVER = 1 << 60
"""Number of matching frames before a fault that is not effective yet."""
_SETTLE_S = 0.3
"""Time after the last step until the end of the capture; acknowledgements are sent every 100 ms."""


COMPARED = ("msgBacklog", "unackedMessages", "msgOutCounter", "availablePermits", "blockedConsumerOnUnackedMsgs")
"""The figures of subscriptions and consumers that are compared, as far as they have them."""
_STATS_REQUESTS, _STATS_S = 5, 0.25


@dataclass(frozen=True)
class StatsSample:
    """The broker's statistics of a topic, and the times before and after the request."""

    topic: str
    before: float
    after: float
    stats: dict[str, Any]

    @property
    def scalable(self) -> bool:
        """Whether the topic is scalable, so that the statistics are about segments."""
        return self.topic.startswith("topic://")


@dataclass
class Ran:
    """The result of an execution."""

    capture: Path
    port: int
    log: Log
    samples: list[StatsSample] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Steps that did not run as planned: the scenario then shows nothing about the diagnosis."""


class _Run:
    """A plan during its execution."""

    def __init__(self, plan: Plan, broker: Broker, folder: Path, capture: Path | None, network: Network | None) -> None:
        """``capture`` is the capture of the proxy; None for none. ``network`` is that of the plan's route."""
        self._plan, self._broker, self._folder, self._capture = plan, broker, folder, capture
        self._network = network
        self._faults = {
            id(step): Fault(step["on"], step["action"], after=_NEVER, times=step["times"], ms=step["ms"])
            for track in plan.tracks
            for step in track.steps
            if step["do"] == "fault"
        }
        """The fault of each step `fault`, which the step makes effective."""
        self._proxy: Proxy | None = None
        self.service_url = ""
        self.port = 0
        self._apps: dict[str, Application] = {}
        self._java: dict[str, Process] = {}
        """The processes of the applications that no step kills or stops, by client: those with a client in Java."""
        self._lock = threading.Lock()
        self._raw: dict[str, RawClient] = {}
        self._silent: set[str] = set()
        """The applications that are stopped, and those whose packets are dropped."""
        self.samples: list[StatsSample] = []
        self.broken: list[str] = []

    def start(self) -> None:
        """Start the proxy, after an outage on the same port."""
        network = self._network
        where: dict[str, Any] = {}
        if network is not None:
            where = {"bind": network.broker_address, "advertised_address": network.address, "insecure": True}
        self._proxy = Proxy(
            self._broker.service_url,
            listen=self.port,
            capture=self._capture,
            faults=self._faults.values(),
            **where,
        )
        self.service_url = self._proxy.start().service_url
        self.port = int(self.service_url.rpartition(":")[2])

    def stop(self) -> None:
        """Stop the proxy, which resets all connections."""
        if self._proxy is not None:
            self._proxy.stop()

    def tracks(self) -> None:
        """Run all tracks."""
        threads = [threading.Thread(target=self._track, args=(track,), daemon=True) for track in self._plan.tracks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def mark_end(self) -> None:
        """Send a message, so that the capture lasts until the end: its last frame is the time of the diagnosis."""
        background = self._plan.tracks[-1]
        topic = f"{'topic' if background.client == V5_CLIENT else 'persistent'}://{background.namespace}/end"
        app = self._apps[f"{background.name}-app"]
        app.send({"do": "producer", "producer": "end", "topic": topic})
        app.send({"do": "send", "producer": "end", "count": 1})
        while app.pending:
            app.answer()

    def close(self) -> None:
        """Close the clients of the applications that still run, and kill those that are stopped or not reached."""
        for name in self._silent:
            self._apps[name].process.end()
        running = [app for app in self._apps.values() if app.process.alive]
        for app in running:
            while app.pending:
                app.answer()
            app.send({"do": "close"})
        for app in running:
            app.answer()
        for client in self._raw.values():
            client.close()

    def end(self) -> Log:
        """End all processes and return their logs."""
        for app in self._apps.values():
            app.process.end()
        return Log.read(app.log for app in self._apps.values())

    def _track(self, track: Track) -> None:
        try:
            self._rest("PUT", f"namespaces/{track.namespace}")
            for path, body in track.policies:
                self._rest("POST", f"namespaces/{track.namespace}/{path}", body)
            for app in dict.fromkeys(step["app"] for step in track.steps if "app" in step):
                self._apps[f"{track.name}-{app}"] = self._application(track, app)
            for step in track.steps:
                if fault := self._step(track, step):
                    self.broken.append(f"{track.name}: {fault}")
                    break
        except Exception as fault:  # a step of the plan does not run: the scenario is broken
            self.broken.append(f"{track.name}: {type(fault).__name__}: {fault}")

    def _application(self, track: Track, app: str) -> Application:
        """Start an application.

        All applications with the same client in Java share one process, except those that a step ends or stops and
        those on the far host.
        """
        name, client = f"{track.name}-{app}", track.clients.get(app, track.client)
        log = self._folder / f"{name}.ndjson"
        command = client_command(client)
        if client == "go":
            process = self._process(track, app, [*command, self.service_url, log])
        elif client == "python":
            process = self._process(track, app, [*command, self.service_url, log, self._broker.token])
        elif app in track.far or any(step.get("of") == app or _ends(step, app) for step in track.steps):
            process = self._process(track, app, [*command, self.service_url, self._folder])
        else:
            with self._lock:
                if client not in self._java:
                    self._java[client] = self._process(track, app, [*command, self.service_url, self._folder])
                process = self._java[client]
        return process.application(name, log)

    def _process(self, track: Track, app: str, command: list[str | Path]) -> Process:
        prefix = self._network.on_host("far" if app in track.far else "near") if self._network else []
        return Process([*prefix, *command], self._folder / f"{track.name}-{app}.log")

    def _step(self, track: Track, step: Step) -> str:
        """Execute a step; return what went wrong, or an empty string."""
        if "app" not in step:
            getattr(self, f"_do_{step['do']}")(track, step)
            return ""
        app = self._apps[f"{track.name}-{step['app']}"]
        app.send({**step, "token": signed(**step["token"])} if "token" in step else step)
        if step.get("wait", True):
            while app.pending > 1:
                app.answer()
            answer = app.answer()
            if bool(step.get("fails")) != ("error" in answer):
                return f"{step['app']} {step['do']}: {answer}"
        return ""

    # -- steps of the driver

    def _do_lose(self, track: Track, step: Step) -> None:
        assert self._network is not None
        self._network.drop(step["direction"])
        self._silent.update(f"{track.name}-{app}" for app in track.far)

    def _do_restore(self, track: Track, _step: Step) -> None:
        assert self._network is not None
        self._network.restore()
        self._silent.difference_update(f"{track.name}-{app}" for app in track.far)

    def _do_sleep(self, _track: Track, step: Step) -> None:
        time.sleep(step["seconds"])

    def _do_rest(self, _track: Track, step: Step) -> None:
        self._rest(step["method"], step["path"], step.get("body"))

    def _do_policy(self, track: Track, step: Step) -> None:
        self._rest("POST", f"namespaces/{track.namespace}/{step['path']}", step["body"])

    def _do_stats(self, _track: Track, step: Step) -> None:
        """Request statistics until they are equal twice: the proxy can be late, because it shares a process."""
        topic = step["topic"]
        path = f"{rest_path(topic)}/stats?getPreciseBacklog=true"
        last: list[Any] = []
        for _ in range(_STATS_REQUESTS):
            before = time.time()
            stats = self._rest("GET", path)
            sample = StatsSample(topic, before, time.time(), stats)
            figures = segment_figures(stats) if sample.scalable else list(_figures(stats))
            if figures == last:
                break
            last = figures
            time.sleep(_STATS_S)
        self.samples.append(sample)
        file = self._folder / f"stats-{len(self.samples)}.json"
        file.write_text(json.dumps(vars(sample), indent=1))

    def _do_kill(self, track: Track, step: Step) -> None:
        self._signal(track, step, signal.SIGKILL)

    def _do_pause(self, track: Track, step: Step) -> None:
        self._signal(track, step, signal.SIGSTOP)
        self._silent.add(f"{track.name}-{step['of']}")

    def _do_resume(self, track: Track, step: Step) -> None:
        self._signal(track, step, signal.SIGCONT)
        self._silent.discard(f"{track.name}-{step['of']}")

    def _signal(self, track: Track, step: Step, number: int) -> None:
        self._apps[f"{track.name}-{step['of']}"].process.signal(number)

    def _do_outage(self, _track: Track, step: Step) -> None:
        self.stop()
        time.sleep(step["seconds"])
        self.start()

    def _do_crash(self, _track: Track, _step: Step) -> None:
        """Kill the broker and start it again. Without a proxy, connections are refused in between."""
        assert self._broker.kill is not None
        assert self._broker.restart is not None
        self._broker.kill()
        self.stop()
        self._broker.restart()
        self.start()

    def _do_raw(self, track: Track, step: Step) -> None:
        name, call = f"{track.name}-{step['client']}", step["call"]
        if call == "open":
            self._raw[name] = RawClient(self.service_url, step["fields"].get("connect", {}))
        else:
            getattr(self._raw[name], call)(**step["fields"])

    def _do_fault(self, _track: Track, step: Step) -> None:
        self._faults[id(step)].after = 0

    def _rest(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._broker.http_url}/admin/v2/{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        if self._broker.token:
            request.add_header("Authorization", f"Bearer {self._broker.token}")
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                text = response.read()
        except urllib.error.HTTPError as fault:
            raise OSError(f"{method} {path}: {fault.code} {fault.read().decode(errors='replace')[:200]}") from None
        return json.loads(text) if text.strip() else None


def _figures(stats: dict[str, Any]) -> Iterator[Any]:
    """Yield the figures of a topic that checks.py compares."""
    yield stats["msgInCounter"]
    for subscription in stats["subscriptions"].values():
        for one in (subscription, *subscription["consumers"]):
            yield [one.get(name) for name in COMPARED]


def _ends(step: Step, app: str) -> bool:
    return step["do"] == "exit" and step["app"] == app


def run(plan: Plan, broker: Broker, folder: Path, *, sniffing: bool) -> Ran:
    """Execute a plan and return the capture, the logs and the statistics. ``sniffing``: tcpdump captures."""
    folder.mkdir(parents=True, exist_ok=True)
    capture = folder / ("capture.pcap" if sniffing else "capture.pcapng")
    route = next((track.route for track in plan.tracks if track.route), None)
    with ExitStack() as stack:
        network = stack.enter_context(Network(route)) if route else None
        running = _Run(plan, broker, folder, None if sniffing else folder / "passing.pcapng", network)
        stack.callback(running.stop)
        running.start()
        point = network.capture_point if network else ()
        tcpdump = Tcpdump(running.port, capture, *point) if sniffing else None
        if tcpdump is not None:
            stack.callback(tcpdump.stop)
        running.tracks()
        time.sleep(_SETTLE_S)
        if not running.broken:
            running.mark_end()
        if plan.ends_open:
            if tcpdump is not None:
                tcpdump.stop()
            else:
                shutil.copyfile(folder / "passing.pcapng", capture)
        running.close()
        log = running.end()
    if not sniffing and not plan.ends_open:
        (folder / "passing.pcapng").replace(capture)
    return Ran(capture, running.port, log, running.samples, running.broken)
