"""Every continuation is called exactly once, whatever happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ProducerSettings

WAYS = ("default", "single", "limited", "lazy")


class Life:
    """A random run of one client; ``results`` counts the calls of each continuation."""

    def __init__(self, network: Any, seed: int, **settings: Any) -> None:
        self.network = network
        self.lot = Random(seed)
        self.engine = network.engine(operationTimeoutMs=3000, lookupTimeoutMs=3000)
        self.settings = ProducerSettings(sendTimeoutMs=2000, batchingMaxMessages=3, **settings)
        self.requested: list[str] = []
        self.results: Counter[int] = Counter()
        self.producers: list[Any] = []

    def once(self, what: str) -> Callable[[Any], None]:
        number = len(self.requested)
        self.requested.append(what)

        def results(result: Any = None) -> None:
            self.results[number] += 1
            if what == "produce" and not isinstance(result, ClientFailure):
                self.producers.append(result)

        return results

    def step(self) -> None:
        lot, network = self.lot, self.network
        match lot.choice(
            ("produce", "send", "send", "send", "flush", "close", "cut", "run", "deaf", "reach", "settle")
        ):
            case "produce":
                self.engine.produce(lot.choice(("t", "parts")), self.settings, self.once("produce"))
            case "send" | "flush" | "close" as what if self.producers:
                producer = lot.choice(self.producers)
                if what == "send":
                    results = self.once(what)
                    if not producer.send(
                        OutgoingMessage(bytes(lot.choice((1, 50, 6_000_000))), key=lot.choice("abc")), results
                    ):
                        self.requested.pop()  # it was not accepted, so its continuation is not called
                else:
                    getattr(producer, what)(self.once(what))
            case "cut":
                network.cut()
            case "run":
                network.run(lot.choice((1, 150, 2500)))
            case "deaf":
                network.unresponsive = lot.random() < 0.3
            case "reach":
                network.reachable = lot.random() < 0.7
            case "settle":
                network.deliver_all()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("way", WAYS)
def test_the_lifetime_of_a_producer(network: Any, way: str, seed: int) -> None:
    settings: dict[str, dict[str, Any]] = {
        "default": {},
        "single": {"batchingEnabled": False},
        "limited": {"maxPendingMessages": 2},
        "lazy": {"lazyStartPartitionedProducers": True},
    }
    network.broker.create_partitioned(TopicName.parse("parts"), 3)
    life = Life(network, seed, **settings[way])
    for _ in range(60):
        life.step()
    network.reachable, network.unresponsive = True, False
    life.engine.close(life.once("end"))
    network.run(60_000)
    wrong = {(what, life.results[number]) for number, what in enumerate(life.requested) if life.results[number] != 1}
    assert wrong == set()
    assert len(life.requested) > 3
    assert (life.engine.handlers, life.engine.pool.connections, life.engine.memory.held) == ({}, [], 0)
    assert life.engine.deadline is None
