"""The settings of a broker with a scalable topic, and the changes of its layout by an administrator."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from simulation.network import Network
from simulation.scalable_applications import ScalableConsumerApplication

from pcli.minibroker.broker import Broker
from pcli.minibroker.errors import Refused
from pcli.minibroker.scalable.layout_changes import LayoutError
from pcli.minibroker.scalable.subscription_coordinator import SubscriptionCoordinator
from pcli.minibroker.settings import Settings
from pcli.minibroker.versions import version_of

__all__ = ["LayoutChanges", "scalable_settings"]

_MAX_SEGMENTS = 8
"""The number of active segments from which on the administrator splits none."""
_SETTINGS = {
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


def scalable_settings(common: dict[str, Any], *, automatic: bool) -> Settings:
    """Return the settings of a broker of Pulsar 5 with short intervals. ``automatic`` enables automatic changes."""
    settings = Settings.of_version(version_of("5.0.1"))
    for name, value in (common | _SETTINGS | (_AUTOMATIC if automatic else {})).items():
        setattr(settings, name, value)
    return settings


class LayoutChanges:
    """The changes of the layout of one topic (``topic://…``)."""

    def __init__(self, network: Network, topic: str) -> None:
        self._network, self._topic = network, topic

    def segments(self) -> list[str]:
        """Return the names of the topics that store the segments."""
        topic = self._network.broker.scalable_topics.topics[self._topic]
        return [topic.segment_name(one) for one in topic.layout.segments.values()]

    def is_settled(self) -> bool:
        """Return whether no segment waits for its parents."""
        return not any(one.waiting for one in self._coordinators().values())

    def is_orphaned(self, application: ScalableConsumerApplication) -> bool:
        """Return whether the controller has forgotten a consumer that is connected.

        This happens if the connection of its former registration ends after the new registration (measured on 5.0.1).
        """
        coordinator = self._coordinators().get(application.step["subscription"])
        return application.is_registered and (coordinator is None or application.name not in coordinator.consumers)

    def _coordinators(self) -> dict[str, SubscriptionCoordinator]:
        return self._network.broker.scalable_topics.topics[self._topic].coordinators

    def run(self, step: dict[str, Any]) -> bool:
        """Do the change of a step; return whether it was possible."""
        before = self._layout()
        self._network.change(lambda broker: self._change(broker, step))
        return self._layout() is not before

    def _layout(self) -> Any:
        return self._network.broker.scalable_topics.topics[self._topic].layout

    def _change(self, broker: Broker, step: dict[str, Any]) -> None:
        service = broker.scalable_topics
        topic = service.controlled(self._topic)
        active = topic.layout.active
        index = step["which"] % len(active)
        with suppress(LayoutError, Refused):
            if step["change"] == "rebucket":
                service.rebucket(topic, active[index].id, step["buckets"])
            elif step["change"] == "merge":
                service.merge(topic, active[index].id, active[(index + 1) % len(active)].id)
            elif len(active) < _MAX_SEGMENTS:
                service.split(topic, active[index].id)
