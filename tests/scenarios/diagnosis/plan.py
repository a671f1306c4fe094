"""Plans of scenarios for the diagnosis: tracks of steps, and the problems that the diagnosis must find.

Rules of this file
1. A plan depends only on its seed and on the list of recipes.
2. A track is a list of steps that run one after another; the tracks of a plan run at the same time. A track has its own
   namespace, so tracks do not disturb each other.
3. A step with `app` is a command of that application (application.py). The other steps are executed by the driver
   (execution.py).
4. `expect` of a track computes the problems from the logs of the applications, never from the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from scenarios.diagnosis.log import Log
from scenarios.diagnosis.networks import Route

CLIENTS = ("python", "java", "go")
"""The languages of the official clients that applications use."""

V5_CLIENT = "java5"
"""The client in Java with the V5 API, for scalable topics; only some recipes can use it."""

Step = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """A finding that the diagnosis must report."""

    rule: str
    subject: dict[str, str]
    """Values that the subject of the finding must contain."""
    culprit: str
    """The culprit, or several with `|` between them if the capture cannot distinguish them."""
    count: tuple[int, int] | None = None
    """The smallest and the largest correct number, in the finding's count or in its text."""
    pattern: str = r"(\d+)"
    """The place of the number in the text."""
    variant: str = ""
    """The variant of the finding, if it has to be a certain one."""
    certain: bool = False
    """Whether the cause must be certain."""


@dataclass
class Track:
    """Steps in one namespace."""

    name: str
    namespace: str
    random: Random
    near: bool = False
    """Whether the track is the near miss of its recipe."""
    client: str = "python"
    """The client of the applications: one of CLIENTS, or V5_CLIENT."""
    clients: dict[str, str] = field(default_factory=dict)
    """The clients of the applications that use another."""
    route: Route | None = None
    """The network between all applications of the plan and the broker; None for the loopback interface."""
    far: set[str] = field(default_factory=set)
    """The applications on the host whose packets the step `lose` drops."""
    steps: list[Step] = field(default_factory=list)
    policies: list[tuple[str, Any]] = field(default_factory=list)
    """Policies of the namespace: REST path and body."""
    features: set[str] = field(default_factory=set)
    """What happens in the track, in the words of checks.py."""
    problems: list[Callable[[Log], Iterable[Problem]]] = field(default_factory=list)
    allowed: set[str] = field(default_factory=set)
    """Rules whose findings about this track may be above a note because they follow from its problem."""
    culprits: set[str] = field(default_factory=set)
    """The culprits that findings above a note may name; empty for any."""

    def draw(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``."""
        return self.random.randint(low, high)

    def pick(self, *options: Any) -> Any:
        """Return one of the options."""
        return self.random.choice(options)

    def who(self, name: str) -> str:
        """Return the name of a producer or consumer on the wire and in the logs."""
        return f"{self.name}-{name}"

    def topic(self, name: str = "t", *, partitions: int = 0, persistent: bool = True) -> str:
        """Return the name of a topic; create it if it has partitions."""
        domain = "persistent" if persistent else "non-persistent"
        if partitions:
            path = f"{domain}/{self.namespace}/{name}/partitions"
            self.steps.append({"do": "rest", "method": "PUT", "path": path, "body": partitions})
        if not persistent:
            self.features.add("non-persistent")
        return f"{domain}://{self.namespace}/{name}"

    def scalable(self, name: str = "t", *, segments: int = 1) -> str:
        """Create a scalable topic with this many segments; return its name."""
        topic = f"topic://{self.namespace}/{name}"
        path = f"{rest_path(topic)}?numInitialSegments={segments}"
        self.steps.append({"do": "rest", "method": "PUT", "path": path})
        return topic

    def policy(self, path: str, body: Any) -> None:
        """Set a policy of the namespace before the first step."""
        self.policies.append((path, body))

    def do(self, app: str, do: str, **fields: Any) -> None:
        """Add a command of an application. The names of producers and consumers get the name of the track."""
        for kind in ("producer", "consumer", "reader"):
            if kind in fields:
                fields[kind] = self.who(fields[kind])
        self.steps.append({"app": app, "do": do, **fields})
        self.features |= _features(do, fields)

    def drive(self, do: str, **fields: Any) -> None:
        """Add a step of the driver."""
        self.steps.append({"do": do, **fields})
        self.features.add(do)

    def fault(self, on: str, action: str, *, times: int | None = None, ms: int = 0) -> None:
        """Let the proxy change frames that match a filter, from this step on; ``ms`` is the time of a delay."""
        self.steps.append({"do": "fault", "on": on, "action": action, "times": times, "ms": ms})
        self.features.add(action)

    def lose(self, direction: str) -> None:
        """Drop the packets of the far host from this step on: `to broker`, `from broker`, or `both`."""
        self.drive("lose", direction=direction)

    def raw(self, client: str, do: str, **fields: Any) -> None:
        """Let a raw client execute a method of RawClient; `open` creates it."""
        self.steps.append({"do": "raw", "client": client, "call": do, "fields": fields})
        self.features.add("raw")

    def sleep(self, seconds: float) -> None:
        """Add a pause."""
        self.steps.append({"do": "sleep", "seconds": seconds})

    def rest(self, method: str, topic: str, path: str = "", body: Any = None) -> None:
        """Add a REST call on a topic."""
        where = f"{rest_path(topic)}{'/' + path if path else ''}"
        self.steps.append({"do": "rest", "method": method, "path": where, "body": body})
        for word in ("unload", "resetcursor", "terminate", "skip", "expire", "split", "merge", "rebucket", "migrate"):
            if word in path:
                self.features.add(word)
        if method == "DELETE":
            self.features.add("delete")

    def stats(self, topic: str) -> None:
        """Compare the statistics of a topic at this moment."""
        self.steps.append({"do": "stats", "topic": topic})

    def expect(self, problem: Problem | Callable[[Log], Iterable[Problem]]) -> None:
        """Add an expected problem, or a function that computes problems from the logs."""
        self.problems.append((lambda _: [problem]) if isinstance(problem, Problem) else problem)


def rest_path(topic: str) -> str:
    """Return the path of a topic in REST calls, without ``/admin/v2/``."""
    return topic.replace("topic://", "scalable/").replace("://", "/")


def _features(do: str, fields: Step) -> set[str]:
    found = {do}
    for name in ("ack_timeout_ms", "dead_letter", "ranges", "sequences", "initial_sequence", "schema", "chunking"):
        if fields.get(name) is not None and fields.get(name) is not False:
            found.add(name)
    if fields.get("nacks") or fields.get("ack") == "nack":
        found.add("nack")
    if fields.get("any_order"):
        found.add("any_order")
    if do == "subscribe":
        found.add(fields["type"])
    if do == "begin":
        found.add("transaction")
    if fields.get("batch"):
        found.add("batch")
    if fields.get("access", "Shared") != "Shared":
        found.add("access")
    if fields.get("fails"):
        found.add("refused")
    return found


@dataclass(frozen=True)
class Recipe:
    """A problem by name, with the near miss."""

    name: str
    rules: tuple[str, ...]
    """The rules that must find it."""
    build: Callable[[Track], None]
    quick: bool
    """Whether it takes less than about five seconds."""
    alone: bool
    """Whether it affects other tracks of the same run: faults of the network."""
    settings: tuple[str, ...]
    """Settings of the broker, which only the recipes with the same settings share; NAME=VALUE."""
    own_broker: bool
    """Whether no other scenario may use the broker, which can be killed and started again with its data."""
    sniffed: bool
    """Whether the capture must contain what the proxy does not record, such as refused connections."""
    clients: tuple[str, ...]
    """The clients of which one can run it."""
    network: bool
    """Whether it needs namespaces with a router between them."""


@dataclass
class Plan:
    """One scenario."""

    seed: int
    recipes: list[str]
    """The names of the recipes, with `(near miss)` if it is one."""
    tracks: list[Track]
    settings: tuple[str, ...]
    """Settings of the broker, as in Recipe."""
    own_broker: bool
    """As in Recipe."""
    ends_open: bool
    """Whether the capture ends before the applications close their clients."""
    part: str = ""
    """What the capture contains: a value of partial_captures.PARTS, or an empty string for everything."""
