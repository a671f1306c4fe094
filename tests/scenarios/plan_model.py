"""The objects of a plan while it is drawn: topics, producers, consumers, transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T")

_TOPICS = (
    {"persistent": True, "partitions": 0},
    {"persistent": True, "partitions": 0},
    {"persistent": True, "partitions": 0},
    {"persistent": True, "partitions": 2},
    {"persistent": False, "partitions": 0},
)
_POLICIES: tuple[tuple[str, Any], ...] = (
    ("deduplication", True),
    ("maxUnackedMessagesPerConsumer", 3),
    ("maxUnackedMessagesPerSubscription", 4),
    ("maxConsumersPerSubscription", 2),
    ("maxConsumersPerTopic", 2),
    ("maxProducersPerTopic", 1),
    ("maxSubscriptionsPerTopic", 1),
    ("retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 10}),
)


class Numbers:
    """Numbers drawn by Hypothesis (bytes), used one after another. When they are used up, every choice is the first."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._left = list(numbers)

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit`` - 1."""
        return (self._left.pop(0) if self._left else 0) % limit

    def pick(self, options: Sequence[_T]) -> _T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def one_in(self, count: int) -> bool:
        """Return true with a probability of one in ``count``; 0 gives false."""
        return self.below(count) == count - 1


class Model:
    """The objects that exist after the steps so far."""

    def __init__(
        self,
        header: Numbers,
        topics: Sequence[Mapping[str, Any]] = _TOPICS,
        policies: Sequence[tuple[str, Any]] = _POLICIES,
    ) -> None:
        self.topics = [dict(header.pick(topics)) for _ in range(1 + header.one_in(4))]
        self.policies: list[dict[str, Any]] = []
        if header.one_in(3):
            name, value = header.pick(policies)
            self.policies.append({"name": name, "value": value})
        self.producers: list[dict[str, Any]] = []
        self.consumers: list[dict[str, Any]] = []
        self.transactions: list[dict[str, Any]] = []
        self.messages = 0

    def targets(self) -> list[tuple[int, int]]:
        """Return the number and the partition (-1: none) of every topic that stores messages."""
        return [
            (number, partition)
            for number, topic in enumerate(self.topics)
            for partition in (range(topic["partitions"]) if topic["partitions"] else (-1,))
        ]

    def open(self, objects: Sequence[dict[str, Any]]) -> list[int]:
        """Return the numbers of the objects that the plan has not closed."""
        return [number for number, one in enumerate(objects) if one["open"]]

    def close_one(self, drawn: Numbers, objects: Sequence[dict[str, Any]]) -> int | None:
        """Close an open object that is drawn. Return its number, or None if no object is open."""
        choices = self.open(objects)
        if not choices:
            return None
        number = drawn.pick(choices)
        objects[number]["open"] = False
        return number

    def consumers_of(self, target: tuple[int, int], subscription: str) -> list[dict[str, Any]]:
        """Return the open consumers of a subscription."""
        return [
            one
            for one in self.consumers
            if one["open"] and one["target"] == target and one["subscription"] == subscription
        ]

    def is_consumed(self, target: tuple[int, int]) -> bool:
        """Return whether the topic has consumers.

        The number of reads then determines how entries that are published at once are distributed, and whether limits
        and permits are exceeded.
        """
        return any(one["open"] and one["target"] == target for one in self.consumers)
