"""Whoever hands in a continuation is told exactly once, whatever happens on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer_settings import ProducerSettings

WAYS = ("default", "single", "limited", "lazy")


class Life:
    """One client's life, by lot; ``told`` counts for each continuation how often it was called."""

    def __init__(self, world: Any, seed: int, **settings: Any) -> None:
        self.world = world
        self.lot = Random(seed)
        self.engine = world.engine(operationTimeoutMs=3000, lookupTimeoutMs=3000)
        self.settings = ProducerSettings(sendTimeoutMs=2000, batchingMaxMessages=3, **settings)
        self.asked: list[str] = []
        self.told: Counter[int] = Counter()
        self.producers: list[Any] = []

    def once(self, what: str) -> Callable[[Any], None]:
        number = len(self.asked)
        self.asked.append(what)

        def told(result: Any = None) -> None:
            self.told[number] += 1
            if what == "produce" and not isinstance(result, ClientFailure):
                self.producers.append(result)

        return told

    def step(self) -> None:
        lot, world = self.lot, self.world
        match lot.choice(
            ("produce", "send", "send", "send", "flush", "close", "cut", "run", "deaf", "reach", "settle")
        ):
            case "produce":
                self.engine.produce(lot.choice(("t", "parts")), self.settings, self.once("produce"))
            case "send" | "flush" | "close" as what if self.producers:
                producer = lot.choice(self.producers)
                if what == "send":
                    told = self.once(what)
                    if not producer.send(
                        OutgoingMessage(bytes(lot.choice((1, 50, 6_000_000))), key=lot.choice("abc")), told
                    ):
                        self.asked.pop()  # it was not taken, so nobody is told
                else:
                    getattr(producer, what)(self.once(what))
            case "cut":
                world.cut()
            case "run":
                world.run(lot.choice((1, 150, 2500)))
            case "deaf":
                world.deaf = lot.random() < 0.3
            case "reach":
                world.reachable = lot.random() < 0.7
            case "settle":
                world.settle()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("way", WAYS)
def test_a_producers_life(world: Any, way: str, seed: int) -> None:
    settings: dict[str, dict[str, Any]] = {
        "default": {},
        "single": {"batchingEnabled": False},
        "limited": {"maxPendingMessages": 2},
        "lazy": {"lazyStartPartitionedProducers": True},
    }
    world.broker.create_partitioned(TopicName.parse("parts"), 3)
    life = Life(world, seed, **settings[way])
    for _ in range(60):
        life.step()
    world.reachable, world.deaf = True, False
    life.engine.close(life.once("end"))
    world.run(60_000)
    wrong = {(what, life.told[number]) for number, what in enumerate(life.asked) if life.told[number] != 1}
    assert wrong == set()
    assert len(life.asked) > 3
    assert (life.engine.handlers, life.engine.pool.connections, life.engine.memory.held) == ({}, [], 0)
    assert life.engine.deadline is None
