"""A handler that finds its broker, keeps the connection, and reconnects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.connection_handler import ConnectionHandler, State
from pcli.replay.client.connection.errors import ClientFailure

TOPIC = "persistent://public/default/t"


class Thing(ConnectionHandler):
    """A minimal consumer that subscribes and records the events of its connection."""

    kind = "consumer"

    def __init__(self, engine: Any, *, hopeless: bool = False) -> None:
        super().__init__(engine, TOPIC)
        self.hopeless = hopeless
        self.story: list[tuple[int, str]] = []
        self.born = engine.now

    def _tell(self, what: str) -> None:
        self.story.append((self.engine.now - self.born, what))

    def opened(self, connection: ClientConnection) -> None:
        self._tell(f"opened {self.epoch}")
        kind = pb.CommandSubscribe.Shared
        body = pb.CommandSubscribe(topic=TOPIC, subscription="s", consumer_id=self.number, subType=kind)
        connection.request(body, self._on_response)

    def _on_response(self, response: Any) -> None:
        if isinstance(response, ClientFailure):
            self._tell(response.error)
        else:
            self.ready()
            self._tell("ready")

    def not_opened(self, failure: ClientFailure) -> bool:
        self._tell(failure.error)
        if self.hopeless:
            self.give_up(State.FAILED)
        return self.hopeless

    def received(self, event: Any) -> None:
        self._tell(event.name)

    def lost(self) -> None:
        self._tell("lost")

    def close(self, done: Callable[[ClientFailure | None], None]) -> None:
        self.give_up(State.CLOSED)
        done(None)


@pytest.fixture
def thing(network: Any) -> Thing:
    """A handler that is ready."""
    thing = Thing(network.engine())
    thing.start()
    network.deliver_all()
    assert thing.story == [(0, "opened 0"), (0, "ready")]
    thing.story.clear()
    return thing


def test_a_broken_connection_is_replaced_after_the_back_off(network: Any, thing: Thing) -> None:
    network.cut()
    assert thing.state is State.CONNECTING
    network.run(99)
    assert thing.story == [(0, "lost")]
    network.run(1)
    assert thing.story == [(0, "lost"), (100, "opened 1"), (100, "ready")]
    assert thing.state is State.READY


def test_delays_grow_until_the_broker_is_reachable_and_are_reset(network: Any, thing: Thing) -> None:
    network.reachable = False
    network.cut()
    network.run(1_600)
    network.reachable = True
    network.run(2_000)
    assert thing.story == [
        (0, "lost"), (100, "Connect"), (300, "Connect"), (700, "Connect"), (1500, "Connect"),
        (3100, "opened 1"), (3100, "ready"),
    ]  # fmt: skip
    network.cut()
    network.run(100)
    assert thing.story[-1] == (3700, "ready")


def test_an_unload_causes_a_lookup_and_a_reconnect(network: Any, thing: Thing) -> None:
    [topic] = network.broker.topics.values()
    network.clear_frames()
    network.broker.unload(topic)
    network.broker.finish_turn()
    network.run(100)
    assert [one.name for one in network.sent_frames(from_client=True)] == ["LOOKUP", "SUBSCRIBE"]
    assert len(network.connects) == 1


def test_a_close_with_an_assigned_broker_reconnects_there_at_once(network: Any, thing: Thing) -> None:
    pipe = next(iter(network.pipes.values()))
    network.clear_frames()
    close = pb.CommandCloseConsumer(consumer_id=0, request_id=1, assignedBrokerServiceUrl="pulsar://127.0.0.2:6650")
    pipe.broker_connection.send_command(close)
    network.run(0)
    assert [one.name for one in network.sent_frames(from_client=True)] == ["CONNECT", "SUBSCRIBE"]
    # for a standalone broker, all connections use the service URL
    assert [body.proxy_to_broker_url for body in network.sent("CONNECT")] == ["127.0.0.2:6650"]


def test_a_failed_handler_does_not_reconnect(network: Any) -> None:
    network.reachable = False
    thing = Thing(network.engine(), hopeless=True)
    thing.start()
    network.run(10_000)
    assert thing.story == [(0, "Connect")]
    assert thing.state is State.FAILED


def test_a_handler_closed_during_its_lookup_gets_no_connection(network: Any) -> None:
    thing = Thing(network.engine())
    thing.start()
    thing.give_up(State.CLOSED)
    network.run(10_000)
    assert thing.story == []
    assert network.sent("SUBSCRIBE") == []


def test_only_one_search_runs_at_a_time(network: Any) -> None:
    thing = Thing(network.engine())
    thing.start()
    thing.start()
    network.deliver_all()
    thing.start()
    network.deliver_all()
    assert len(network.sent("SUBSCRIBE")) == 1


def test_closing_the_engine_closes_all_handlers(network: Any, thing: Thing) -> None:
    done: list[None] = []
    thing.engine.close(lambda: done.append(None))
    network.deliver_all()
    assert done == [None]
    assert thing.state is State.CLOSED
    assert network.pipes == {}
    refused: list[Any] = []
    thing.engine.connection_for(TOPIC, refused.append)
    thing.engine.partitions(TOPIC, refused.append)
    assert refused == [ClientFailure("Closed", "the client is closed")] * 2


def test_a_handler_of_a_closed_engine_sets_no_timer(network: Any, thing: Thing) -> None:
    thing.engine.close(lambda: None)
    late = Thing(thing.engine)
    late.start()
    network.deliver_all()
    assert late.state is State.CLOSED
    assert thing.engine.deadline is None
