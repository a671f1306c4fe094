"""Execution of a plan with a scalable topic, whose layout an administrator changes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from scenarios.plans import Plan
from simulation.applications import ConsumerApplication
from simulation.clients import Client
from simulation.execution import NAMESPACE, SETTINGS, Run
from simulation.scalable_applications import JUDGE, ScalableConsumerApplication
from simulation.scalable_transactions import QUEUE, ScalableTransactionClient

from pcli.minibroker.broker import Broker
from pcli.minibroker.errors import Refused
from pcli.minibroker.scalable.layout_changes import LayoutError
from pcli.minibroker.scalable.scalable_topic import ScalableTopic
from pcli.minibroker.settings import Settings
from pcli.minibroker.versions import version_of

_RESTART_MS = 50
_MAX_SEGMENTS = 8
"""The number of active segments from which the administrator splits none."""
_SHORT = {
    "scalableTopicConsumerSessionGracePeriodSeconds": 10,
    "scalableTopicAutoScaleEnabled": False,
    "transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds": 5,
}
_AUTOMATIC = {
    "scalableTopicAutoScaleEnabled": True,
    "scalableTopicAutoScaleIntervalSeconds": 5,
    "scalableTopicLoadReportIntervalSeconds": 2,
    "statsUpdateFrequencyInSecs": 4,
    "scalableTopicMaxSegments": 6,
    "scalableTopicSplitMsgRateInThreshold": 2.0,
    "scalableTopicSplitCooldownSeconds": 8,
    "scalableTopicMergeCooldownSeconds": 15,
    "scalableTopicMergeWindowSeconds": 20,
    "scalableTopicRebucketCooldownSeconds": 5,
}


class ScalableRun(Run):
    """One run of a plan whose only topic is scalable, on a broker of Pulsar 5."""

    @staticmethod
    def settings(plan: Plan) -> Settings:
        """Return the settings of the broker, with short intervals and, if the plan is so, automatic changes."""
        settings = Settings.of_version(version_of("5.0.1"))
        for name, value in (SETTINGS | _SHORT | (_AUTOMATIC if plan.topics[0]["automatic"] else {})).items():
            setattr(settings, name, value)
        return settings

    def topic(self, target: Any = (0, -1)) -> str:
        """Return the name of the topic."""
        return f"topic://{NAMESPACE}/t{target[0]}"

    def _scalable_topic(self) -> ScalableTopic:
        return self.network.broker.scalable_topics.topics[self.topic()]

    def _stored_topics(self) -> list[str]:
        topic = self._scalable_topic()
        return [topic.segment_name(one) for one in topic.layout.segments.values()]

    def _create(self, name: str, topic: dict[str, Any], broker: Broker) -> None:
        broker.scalable_topics.create(name, topic["scalable"])

    def _enable_deduplication(self, name: str, broker: Broker) -> None:
        broker.policies.set_namespace(NAMESPACE, "deduplication", True)  # topic policies do not apply to segments

    def _consumer(self, client: Client, number: int, topic: str, step: dict[str, Any]) -> ConsumerApplication:
        return ScalableConsumerApplication(client, number, topic, step, self.history.deliveries)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _do_transaction(self, step: dict[str, Any]) -> None:
        number = len(self.transactions)
        self.transactions.append(ScalableTransactionClient(self.network, number, self.topic(), step))

    def _do_change(self, step: dict[str, Any]) -> None:
        before = self._scalable_topic().layout
        self.network.change(lambda broker: self._change_layout(broker, step))
        if self._scalable_topic().layout is not before:
            self.events[step["change"]] += 1

    def _change_layout(self, broker: Broker, step: dict[str, Any]) -> None:
        service = broker.scalable_topics
        topic = service.controlled(self.topic())
        active = topic.layout.active
        index = step["which"] % len(active)
        with suppress(LayoutError, Refused):
            if step["change"] == "rebucket":
                service.rebucket(topic, active[index].id, step["buckets"])
            elif step["change"] == "merge":
                service.merge(topic, active[index].id, active[(index + 1) % len(active)].id)
            elif len(active) < _MAX_SEGMENTS:
                service.split(topic, active[index].id)

    # -- end -----------------------------------------------------------------------------------------------------------

    def _end_transactions(self) -> None:
        """Do nothing: the coordinators of scalable topics need no client."""

    def _is_drained(self) -> bool:
        return super()._is_drained() and not any(one.waiting for one in self._scalable_topic().coordinators.values())

    def _add_drain_consumers(self, _round_number: int) -> bool:
        """Add a consumer to each subscription without one, and one that reads the whole topic for the invariants.

        A consumer that the controller has forgotten registers again when its process is started again.
        """
        kinds = {one.step["subscription"]: one.step["type"] for one in self.consumers.values()}
        kinds |= {JUDGE: "queue"}
        if self._has_transactions():
            kinds |= {QUEUE: "queue"}
        found = {
            name for name, kind in kinds.items() if kind != "checkpoint" and not self._is_consumed(self.topic(), name)
        }
        for name in sorted(found):
            self._add_drain_consumer(self.topic(), name, kinds[name])
        orphaned = [one for one in self.consumers.values() if self._is_orphaned(one)]
        for one in orphaned:
            if not one.client.down:
                one.client.crash(_RESTART_MS)
        return bool(found or orphaned)

    def _is_orphaned(self, application: ScalableConsumerApplication) -> bool:
        """Return whether the controller has forgotten a consumer that is connected.

        This happens if the connection of its former registration ends after the new registration (measured on 5.0.1).
        """
        coordinator = self._scalable_topic().coordinators.get(application.step["subscription"])
        return application.is_registered and (coordinator is None or application.name not in coordinator.consumers)
