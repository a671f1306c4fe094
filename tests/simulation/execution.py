"""Execution of a plan in the simulated network: one method for each kind of step.

Rules of this file
1. Everything is determined by the plan and the seed.
2. A step whose producer or consumer is missing or failed has no effect.
3. At the end the faults stop, every durable subscription gets a consumer that acknowledges everything, and the time
   advances until nothing happens any more. Then the invariants are checked (pcli's tests in `invariants`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
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
from simulation.transactions import TransactionClient

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.broker import Broker
from pcli.minibroker.settings import Settings
from pcli.minibroker.topics.dispatcher import FAILOVER
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId

NAMESPACE = "public/default"
_CLIENTS = 3
"""Number of clients that share connections. Each producer with exclusive access has a client of its own: the fenced
producers of a shared connection would close it again and again."""
SETTINGS = {
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

    @staticmethod
    def settings(plan: Plan) -> Settings:
        """Return the settings of the broker."""
        del plan
        return Settings(**SETTINGS)

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
            broker.policies.set_namespace(NAMESPACE, policy["name"], policy["value"])
        for number, topic in enumerate(self.plan.topics):
            self.network.change(partial(self._create, self.topic((number, -1)), topic))
        for step in self.plan.steps:
            if step["do"] == "producer" and step["exact"]:
                self.network.change(partial(self._enable_deduplication, self.topic(step["target"])))
        self.network.write_all()  # a request of the administration gets its response after that
        self.clients = [Client(self.network, number) for number in range(_CLIENTS)]
        self._actions = EventActions(self.network, self.clients, self._stored_topics)

    def _create(self, name: str, topic: dict[str, Any], broker: Broker) -> None:
        if topic["partitions"]:
            broker.create_partitioned(TopicName.parse(name), topic["partitions"])
        else:
            broker.topic_registry.create(TopicName.parse(name))

    def _enable_deduplication(self, name: str, broker: Broker) -> None:
        broker.policies.set_topic(TopicName.parse(name), "deduplicationEnabled", True)

    def _stored_topics(self) -> list[str]:
        """Return the names of the topics that store messages."""
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
        domain = "persistent" if self.plan.topics[number]["persistent"] else "non-persistent"
        name = f"{domain}://{NAMESPACE}/t{number}"
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
        topic = self.topic(step["target"])
        if topic.startswith("persistent"):
            self.transactions.append(TransactionClient(self.network, len(self.transactions), topic, step))

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
                self.network.broker.policies.unset_namespace(NAMESPACE, policy["name"])
        self._end_transactions()
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

    def _end_transactions(self) -> None:
        """Connect to the coordinator, which ends open transactions only while a client has connected to it."""
        if self._has_transactions():
            step = {"messages": 0, "acks": 0, "action": "COMMIT", "think_ms": 0}
            self.transactions.append(TransactionClient(self.network, len(self.transactions), "", step))

    def _has_transactions(self) -> bool:
        return any(step["do"] == "transaction" for step in self.plan.steps)

    def _is_drained(self) -> bool:
        return all(
            not subscription.backlog
            for topic in self.network.broker.topics.values()
            for subscription in topic.subscriptions.values()
            if subscription.durable
        )

    def _add_drain_consumers(self, round_number: int) -> bool:
        """Add a consumer to each durable subscription that needs one; return whether any were added."""
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
