"""Execution of a plan in the simulated network: one method for each kind of step.

Rules of this file
1. Everything is determined by the plan and the seed.
2. A step whose producer or consumer is missing or failed has no effect.
3. At the end the faults stop, every durable subscription gets a consumer that acknowledges everything, and the time
   advances until nothing happens any more. Then the invariants are checked (pcli's tests in `invariants`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from scenarios.plans import Plan
from simulation.applications import ConsumerApplication, ProducerApplication
from simulation.clients import Client
from simulation.events import EventActions
from simulation.history import History
from simulation.invariants import AFTER_RUN, PER_TURN, Violation
from simulation.invariants.tracker import FrameTracker
from simulation.network import Network
from simulation.plans import MIN_EVENTS
from simulation.scalable_actions import LayoutChanges, scalable_settings
from simulation.scalable_applications import JUDGE, ScalableConsumerApplication
from simulation.scalable_step_kinds import is_scalable
from simulation.scalable_transactions import QUEUE, ScalableTransactionClient
from simulation.transactions import TransactionClient

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.settings import Settings
from pcli.minibroker.topics.dispatcher import FAILOVER
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId

__all__ = ["MIN_FRAMES", "Outcome", "Run", "run_plan"]

_NAMESPACE = "public/default"
_CLIENTS = 3
"""Number of clients that share connections. Each producer with exclusive access has a client of its own: the fenced
producers of a shared connection would close it again and again."""
_SETTINGS = {
    "transactionCoordinatorEnabled": True,
    "brokerDeleteInactiveTopicsEnabled": False,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "managedLedgerMaxEntriesPerLedger": 60,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "defaultRetentionTimeInMinutes": 60,
    "defaultRetentionSizeInMB": -1,
}
_PAUSES_MS = (0, 0, 3, 20, 60, 200)
_DRAIN_ROUNDS = 40
MIN_FRAMES = 500
_RESTART_MS = 50
_FILL_MS = 500
_FILL_MESSAGES = 20
_FILLERS = 1000
"""Number of the first producer that fills a run."""
_SHARED_FILLERS = 20
_MAX_FILLERS = 60
_RECONNECT_ROUNDS = 8
_ROUND_MS = 15_000
_QUIET_MS = 200_000
_MAX_FRAMES = 30_000


class EndlessRun(Exception):  # noqa: N818
    """A run has too many frames: it does not come to rest."""


@dataclass
class Outcome:
    """The result of one run."""

    violations: list[Violation]
    frames: int
    events: Counter[str]
    digest: str
    """A hash of all frames and their times."""
    checks: Counter[str]
    exempt: Counter[str]


@dataclass
class Run:
    """One run of a plan."""

    plan: Plan
    seed: int
    network: Network
    violations: list[Violation] = field(default_factory=list)
    producers: dict[int, ProducerApplication] = field(default_factory=dict)
    consumers: dict[int, ConsumerApplication] = field(default_factory=dict)
    transactions: list[TransactionClient] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    observed: FrameTracker | None = None
    """The Tracker that is compared with the broker, if it is."""
    tracker_differences: set[tuple[str, str]] = field(default_factory=set)
    """The differences that were reported."""
    checks: Counter[str] = field(default_factory=Counter)
    """The number of cases that each invariant has checked."""
    exempt: Counter[str] = field(default_factory=Counter)
    """The number of cases that each invariant has not checked because of an exemption."""
    quiet_from: int = -1
    """Index of the first frame after everything is acknowledged; -1 before."""

    @property
    def history(self) -> History:
        """What the broker received, sent and stored."""
        return self.network.history

    # -- run -----------------------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Run the whole plan, and check the invariants."""
        self.network.on_turn = self._check_turn
        try:
            self._execute()
        except EndlessRun:
            self.network.on_turn = lambda: None
            text = f"the run has more than {_MAX_FRAMES} frames; the last is {self.history.frames[-1].name}"
            self.violations.append(Violation("no_program_fails", self.history.step, text))
            return
        self.history.drop_lost()
        for check in AFTER_RUN:
            self.violations += check(self)

    def _execute(self) -> None:
        self._random = Random(self.seed)
        self._prepare()
        for number, step in enumerate(self.plan.steps, start=1):
            self.history.step = number
            getattr(self, f"_do_{step['do']}")(step)
            self.network.run(self._random.choice(_PAUSES_MS))
        self.history.step = len(self.plan.steps)
        if sum(step["do"] == "event" for step in self.plan.steps) >= MIN_EVENTS:
            self._fill()
        self._drain()
        self.quiet_from = len(self.history.frames)
        self.network.run(_QUIET_MS)

    def _check_turn(self) -> None:
        if len(self.history.frames) > _MAX_FRAMES:
            raise EndlessRun
        for check in PER_TURN:
            self.violations += check(self)

    def _prepare(self) -> None:
        broker = self.network.broker
        for policy in self.plan.policies:
            broker.policies.set_namespace(_NAMESPACE, policy["name"], policy["value"])
        for number, topic in enumerate(self.plan.topics):
            name = TopicName.parse(self.topic((number, -1)))
            if "scalable" in topic:
                self.network.change(
                    lambda broker, name=name, topic=topic: broker.scalable_topics.create(str(name), topic["scalable"])
                )
            elif topic["partitions"]:
                self.network.change(
                    lambda broker, name=name, topic=topic: broker.create_partitioned(name, topic["partitions"])
                )
            else:
                self.network.change(lambda broker, name=name: broker.topic_registry.create(name))
        for step in self.plan.steps:
            if step["do"] == "producer" and step["exact"]:
                self._enable_deduplication(TopicName.parse(self.topic(step["target"])))
        self.network.write_all()  # a request of the administration gets its response after that
        self.clients = [Client(self.network, number) for number in range(_CLIENTS)]
        self._actions = EventActions(self.network, self.clients, self._stored_topics)
        if is_scalable(self.plan):
            self._changes = LayoutChanges(self.network, self.topic((0, -1)))

    def _enable_deduplication(self, name: TopicName) -> None:
        """Enable deduplication for a topic. The policies of a namespace apply to segments."""
        policies = self.network.broker.policies
        if is_scalable(self.plan):
            self.network.change(lambda _: policies.set_namespace(_NAMESPACE, "deduplication", True))
        else:
            self.network.change(lambda _: policies.set_topic(name, "deduplicationEnabled", True))

    def _stored_topics(self) -> list[str]:
        """Return the names of the topics that store messages. Those of a scalable topic are its segments."""
        if is_scalable(self.plan):
            return self._changes.segments()
        return [self.topic(target) for target in self.targets()]

    def targets(self) -> list[tuple[int, int]]:
        """Return the number and the partition (-1: none) of each topic that stores messages."""
        return [
            (number, partition)
            for number, topic in enumerate(self.plan.topics)
            for partition in (range(topic["partitions"]) if topic["partitions"] else (-1,))
        ]

    def topic(self, target: Any) -> str:
        """Return the name of a topic or partition of the plan."""
        number, partition = target
        if is_scalable(self.plan):
            return f"topic://{_NAMESPACE}/t{number}"
        domain = "persistent" if self.plan.topics[number]["persistent"] else "non-persistent"
        name = f"{domain}://{_NAMESPACE}/t{number}"
        return f"{name}-partition-{partition}" if partition >= 0 else name

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _do_producer(self, step: dict[str, Any]) -> None:
        number = step["producer"]
        if step["access"] == "Shared":
            client = self.clients[step["client"]]
        else:
            client = Client(self.network, len(self.clients))
            self.clients.append(client)
        self.producers[number] = ProducerApplication(client, number, self.topic(step["target"]), step)

    def _do_subscribe(self, step: dict[str, Any]) -> None:
        number = step["consumer"]
        client = self.clients[step["client"]]
        self.consumers[number] = self._consumer(client, number, self.topic(step["target"]), step)

    def _consumer(self, client: Client, number: int, topic: str, step: dict[str, Any]) -> ConsumerApplication:
        if is_scalable(self.plan):
            return ScalableConsumerApplication(client, number, topic, step, self.history.deliveries)
        return ConsumerApplication(client, number, topic, step)

    def _do_send(self, step: dict[str, Any]) -> None:
        producer = self.producers.get(step["producer"])
        if producer is not None:
            producer.send(step["count"], step["keys"], step["delay_ms"])

    def _with_consumer(self, step: dict[str, Any], action: Callable[[ConsumerApplication], None]) -> None:
        consumer = self.consumers.get(step["consumer"])
        if consumer is not None and consumer.is_live:
            action(consumer)

    def _do_ack(self, step: dict[str, Any]) -> None:
        self._with_consumer(step, lambda consumer: consumer.acknowledge(step["count"] * 3))

    def _do_redeliver(self, step: dict[str, Any]) -> None:
        which = step["which"]
        self._with_consumer(step, lambda consumer: consumer.redeliver(0 if which is None else which + 1))

    def _do_seek(self, step: dict[str, Any]) -> None:
        self._with_consumer(step, lambda consumer: consumer.seek(self._seek_target(consumer.topic, step)))

    def _seek_target(self, topic: str, step: dict[str, Any]) -> Any:
        stored = self.history.stored.get(topic, [])
        if step["to"] == "time":
            return self.network.now - 100 * step["which"]
        if step["to"] == "entry" and stored:
            return ClientMessageId(*stored[step["which"] % len(stored)].position)
        return LATEST if step["to"] == "latest" else EARLIEST

    def _do_unsubscribe(self, step: dict[str, Any]) -> None:
        self._with_consumer(step, lambda consumer: consumer.unsubscribe())

    def _do_close_consumer(self, step: dict[str, Any]) -> None:
        self._with_consumer(step, lambda consumer: consumer.close())

    def _do_close_producer(self, step: dict[str, Any]) -> None:
        producer = self.producers.get(step["producer"])
        if producer is not None:
            producer.close()

    def _do_transaction(self, step: dict[str, Any]) -> None:
        topic, number = self.topic(step["target"]), len(self.transactions)
        if is_scalable(self.plan):
            self.transactions.append(ScalableTransactionClient(self.network, number, topic, step))
        elif topic.startswith("persistent"):
            self.transactions.append(TransactionClient(self.network, number, topic, step))

    def _do_change(self, step: dict[str, Any]) -> None:
        if self._changes.run(step):
            self.events[step["change"]] += 1

    def _do_compact(self, step: dict[str, Any]) -> None:
        self._actions.compact(self.topic(step["target"]))

    def _do_wait(self, step: dict[str, Any]) -> None:
        self.network.run(step["ms"])

    def _do_event(self, step: dict[str, Any]) -> None:
        if kind := self._actions.run(step):
            self.events[kind] += 1

    def _fill(self) -> None:
        """Add crashes and messages until the run has MIN_EVENTS events and MIN_FRAMES frames.

        Steps without effect are the reason why some plans have fewer. A simplified plan is not filled.
        """
        number = 0
        while self.events.total() < MIN_EVENTS:
            self._do_event({"event": "crash", "which": number, "ms": 50})
            self.network.run(_FILL_MS)
            number += 1
        self._actions.heal()
        while self._frames() < MIN_FRAMES and number < _MAX_FILLERS:
            producer = self._filler(number)
            for _ in range(_FILL_MESSAGES):
                producer.send(1, 5, 0)
                self.network.run(_FILL_MS // _FILL_MESSAGES)
            number += 1

    def _frames(self) -> int:
        return sum(one.frame is not None and not one.lost for one in self.history.frames)

    def _filler(self, number: int) -> ProducerApplication:
        """Return a producer that can send: one whose messages have receipts, which can be exclusive, or a new one.

        If an exclusive producer that has nothing to send excludes the new ones, it is fenced in the end.
        """
        live = [one for one in self.producers.values() if one.is_open]
        choices = [one for one in live if len(one.receipts) == len(one.sent)] or (live if number % 2 else [])
        if choices:
            return choices[number // 2 % len(choices)]
        access = "Shared" if number < _SHARED_FILLERS else "ExclusiveWithFencing"
        step = {"name": None, "access": access, "exact": False, "batch": 1, "batcher": "DEFAULT"}
        target = self.targets()[number % len(self.targets())]
        producer = ProducerApplication(self.clients[number % _CLIENTS], _FILLERS + number, self.topic(target), step)
        self.producers[_FILLERS + number] = producer
        return producer

    # -- end -----------------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Stop the faults, and acknowledge everything."""
        self._actions.heal()
        for policy in self.plan.policies:
            if policy["name"].startswith(("maxConsumers", "maxProducers", "maxSubscriptions")):
                self.network.broker.policies.unset_namespace(_NAMESPACE, policy["name"])
        if not is_scalable(self.plan) and any(step["do"] == "transaction" for step in self.plan.steps):
            # The coordinator ends open transactions only while a client has connected to it.
            step = {"messages": 0, "acks": 0, "action": "COMMIT", "think_ms": 0}
            self.transactions.append(TransactionClient(self.network, len(self.transactions), "", step))
        self.network.run(_ROUND_MS)
        for consumer in self.consumers.values():
            if consumer.is_compacted:
                consumer.close()  # it does not receive the messages that a compaction has removed
            else:
                consumer.drain()
        for round_number in range(_DRAIN_ROUNDS):
            if not self._add_drain_consumers(round_number) and self._is_drained():
                break
            if round_number == _RECONNECT_ROUNDS:
                for consumer in self.consumers.values():
                    consumer.redeliver_if_outdated()
            before = len(self.history.frames)
            self.network.run(_ROUND_MS)
            if len(self.history.frames) == before and round_number > 10:
                break
        self.network.run(_ROUND_MS)

    def _is_drained(self) -> bool:
        if is_scalable(self.plan) and not self._changes.is_settled():
            return False
        return all(
            not subscription.backlog
            for topic in self.network.broker.topics.values()
            for subscription in topic.subscriptions.values()
            if subscription.durable
        )

    def _add_drain_consumers(self, round_number: int) -> bool:
        """Add a consumer to each durable subscription that needs one; return whether any were added."""
        if is_scalable(self.plan):
            return self._add_scalable_consumers()
        added = False
        for topic in self.network.broker.topics.values():
            for subscription in list(topic.subscriptions.values()):
                if not subscription.backlog or subscription.name.startswith("__"):
                    continue
                place = topic.full_name, subscription.name
                if not subscription.consumers and (round_number >= _RECONNECT_ROUNDS or not self._is_consumed(*place)):
                    self._add_drain_consumer(*place, "Shared")
                    added = True
                elif subscription.kind == FAILOVER and round_number == _RECONNECT_ROUNDS:
                    # After a seek no consumer is active until another one joins (verified on 4.2.4).
                    self._add_drain_consumer(*place, "Failover")
                    added = True
        return added

    def _add_scalable_consumers(self) -> bool:
        """Add a consumer to each subscription without one, and one that reads the whole topic for the invariants.

        A consumer that the controller has forgotten registers again when its process is started again.
        """
        topic = self.topic((0, -1))
        kinds = {one.step["subscription"]: one.step["type"] for one in self.consumers.values()}
        kinds |= {JUDGE: "queue"}
        if any(step["do"] == "transaction" for step in self.plan.steps):
            kinds |= {QUEUE: "queue"}
        found = {name for name, kind in kinds.items() if kind != "checkpoint" and not self._is_consumed(topic, name)}
        for name in sorted(found):
            self._add_drain_consumer(topic, name, kinds[name])
        orphaned = [one for one in self.consumers.values() if self._changes.is_orphaned(one)]
        for one in orphaned:
            if not one.client.down:
                one.client.crash(_RESTART_MS)
        return bool(found or orphaned)

    def _is_consumed(self, topic: str, subscription: str) -> bool:
        """Return whether an application consumes a subscription. It may be about to reconnect."""
        return any(
            one.is_live and (one.topic, one.step["subscription"]) == (topic, subscription)
            for one in self.consumers.values()
        )

    def _add_drain_consumer(self, topic: str, subscription: str, kind: str) -> None:
        number = 1000 + len(self.consumers)
        step = {
            "subscription": subscription, "type": kind, "durable": True, "position": "Earliest", "priority": 0,
            "queue": 100, "compacted": False, "group_ms": 0, "batch_acks": True, "receipts": False,
            "ack_timeout_ms": 0, "ack": 100, "nack": 0, "cumulative": False, "out_of_order": False,
        }  # fmt: skip
        application = self._consumer(self.clients[0], number, topic, step)
        application.draining = True
        self.consumers[number] = application


def run_plan(plan: Plan, seed: int, tap: Any = None) -> tuple[Outcome, Run]:
    """Run a plan. ``tap`` receives the bytes (codec.capture.tap)."""
    settings = Settings(**_SETTINGS)
    if is_scalable(plan):
        settings = scalable_settings(_SETTINGS, automatic=plan.topics[0]["automatic"])
    run = Run(plan, seed, Network(settings, seed))
    if tap is not None:
        run.history.taps.append(tap)
    run.observed = FrameTracker()
    run.history.observers.append(run.observed)
    run.execute()
    digest = hashlib.sha256()
    for one in run.history.frames:
        digest.update(b"%d %d %d %s " % (one.time, one.link, one.from_client, one.name.encode()))
        if one.frame is not None:
            digest.update(one.frame.data)
    frames = sum(one.frame is not None for one in run.history.frames)
    return Outcome(run.violations, frames, run.events, digest.hexdigest(), run.checks, run.exempt), run
