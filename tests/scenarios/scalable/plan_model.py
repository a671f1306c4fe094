"""The objects of a plan with scalable topics while it is drawn."""

from __future__ import annotations

from typing import Any

from scenarios.plan_model import Model, Numbers

_TOPICS = (
    {"persistent": True, "partitions": 0, "segments": 1},
    {"persistent": True, "partitions": 0, "segments": 2},
    {"persistent": True, "partitions": 0, "segments": 3},
    {"persistent": True, "partitions": 0, "segments": 4},
    {"persistent": True, "partitions": 0, "segments": 0},
    {"persistent": True, "partitions": 2, "segments": 0},
)
"""A topic without segments is a classic topic that the plan can migrate."""

_POLICIES: tuple[tuple[str, Any], ...] = (
    ("deduplication", True),
    ("deduplication", True),
    ("autoTopicCreation", {"allowAutoTopicCreation": False}),
    ("maxConsumersPerTopic", 1),
    ("maxProducersPerTopic", 1),
    ("maxUnackedMessagesPerConsumer", 3),
    ("scalableTopicAutoScalePolicy", {"maxSegments": 3}),
    ("scalableTopicAutoScalePolicy", {"enabled": False}),
)
_RETENTION = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}


class ScalableModel(Model):
    """The objects that exist after the steps so far.

    The retention keeps sealed segments, because a broker otherwise removes them a minute after the election of the
    controller, which is during another step on a slower broker.
    """

    def __init__(self, header: Numbers) -> None:
        super().__init__(header, _TOPICS, _POLICIES)
        self.policies.append({"name": "retention", "value": _RETENTION})
        self.v5_producers: list[dict[str, Any]] = []
        self.v5_consumers: list[dict[str, Any]] = []
        self.watches = 0

    def topic(self, drawn: Numbers) -> int:
        """Return the number of a topic."""
        return drawn.below(len(self.topics))

    def targets(self) -> list[tuple[int, int]]:
        """Return the number and the partition (-1: none) of every topic that was a classic topic at first."""
        return [target for target in super().targets() if not self.topics[target[0]]["segments"]]

    def is_read(self, topic: int) -> bool:
        """Return whether V5 consumers read the topic (`Model.is_consumed`)."""
        return any(one["open"] and one["topic"] == topic for one in self.v5_consumers)
