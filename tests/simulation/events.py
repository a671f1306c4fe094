"""The events of a plan: faults of connections and clients, and acts of the administration."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from simulation.clients import Client
from simulation.links import Link
from simulation.network import Network

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.broker import Broker
from pcli.minibroker.topics.topic_compaction import AlreadyRunningError

RESTARTS = ("restart", "kill", "kill_in_a_write")
"""The kinds of restarts: without a loss, after all writes, and with or without the last write."""
_MAX_DOWN_MS = 4000


class EventActions:
    """The events of one run. Each method returns whether the event had an effect."""

    def __init__(self, network: Network, clients: list[Client], topics: Callable[[], list[str]]) -> None:
        """``topics`` returns the names of the topics that store messages."""
        self._network, self._clients, self._topics = network, clients, topics

    def run(self, step: dict[str, Any]) -> str:
        """Run the event of a step. Return its kind, or an empty string if it has no effect."""
        kind = step["event"] if step["event"] != "restart" else RESTARTS[step["which"] % len(RESTARTS)]
        return kind if getattr(self, f"_{kind}")(step) else ""

    def _name(self, step: dict[str, Any]) -> str:
        names = self._topics()
        return names[step["which"] % len(names)]

    def _link(self, step: dict[str, Any]) -> Link | None:
        links = self._network.live_links()
        return links[step["which"] % len(links)] if links else None

    # -- connections ---------------------------------------------------------------------------------------------------

    def _stall(self, step: dict[str, Any]) -> bool:
        link = self._link(step)
        if link is None:
            return False
        direction = link.to_client if step["side"] == "client" else link.to_broker
        direction.hold(self._network.now + step["ms"])
        return True

    def _break(self, step: dict[str, Any]) -> bool:
        link = self._link(step)
        if link is not None:
            link.cut()
        return link is not None

    def _half_close(self, step: dict[str, Any]) -> bool:
        link = self._link(step)
        if link is not None:
            link.cut(client=step["side"] == "client", broker=step["side"] == "broker")
        return link is not None

    def _slow_reader(self, step: dict[str, Any]) -> bool:
        link, network = self._link(step), self._network
        if link is None:
            return False
        until = network.now + min(step["ms"], 6000)
        link.to_client.hold(until)
        network.change(lambda broker: broker.set_writable(link.broker_connection, network.now, yes=False))
        network.at(until, lambda: self._writable_again(link))
        return True

    def _writable_again(self, link: Link) -> None:
        if link.broker_open:
            now = self._network.now
            self._network.change(lambda broker: broker.set_writable(link.broker_connection, now, yes=True))

    def _outage(self, step: dict[str, Any]) -> bool:
        self._network.refuses_until = self._network.now + min(step["ms"], _MAX_DOWN_MS)
        for link in self._network.live_links():
            link.cut()
        return True

    # -- clients -------------------------------------------------------------------------------------------------------

    def _pause(self, step: dict[str, Any]) -> bool:
        client = self._clients[step["which"] % len(self._clients)]
        client.pause(step["ms"])
        return not client.down

    def _crash(self, step: dict[str, Any]) -> bool:
        client = self._clients[step["which"] % len(self._clients)]
        if client.down:
            return False
        client.crash(min(step["ms"], _MAX_DOWN_MS))
        return True

    # -- administration ------------------------------------------------------------------------------------------------

    def _unload(self, step: dict[str, Any]) -> bool:
        name = self._name(step)
        if name not in self._network.broker.topics:
            return False
        self._network.history.mark("unload", self._network.now, name)
        self._network.change(lambda broker: broker.unload(broker.topics[name]))
        return True

    def _policy(self, step: dict[str, Any]) -> bool:
        name = TopicName.parse(self._name(step))
        self._network.history.mark("policy", self._network.now)
        self._network.change(lambda broker: broker.policies.set_topic(name, step["policy"], step["value"]))
        return True

    def _restart(self, step: dict[str, Any]) -> bool:
        network = self._network
        network.refuses_until = network.now + min(step["ms"], _MAX_DOWN_MS)
        network.history.mark("restart", network.now)
        network.change(_close_connections)
        network.change(_reload)
        return True

    def _kill(self, step: dict[str, Any]) -> bool:
        self._network.kill(min(step["ms"], _MAX_DOWN_MS), written=True)
        return True

    def _kill_in_a_write(self, step: dict[str, Any]) -> bool:
        self._network.kill_in_next_write(min(step["ms"], _MAX_DOWN_MS))
        return True

    def compact(self, name: str) -> None:
        """Start a compaction."""
        topic = self._network.broker.topics.get(name)
        if topic is not None and topic.compaction is not None:
            compaction = topic.compaction

            def trigger(_: Broker) -> None:
                with suppress(AlreadyRunningError):
                    compaction.trigger()

            self._network.change(trigger)

    # -- end -----------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults."""
        network = self._network
        network.heal()
        for link in network.links:
            for direction in (link.to_broker, link.to_client):
                direction.held_until = min(direction.held_until, network.now)
                direction.pump()
            if link.client_open != link.broker_open and link.broker_connection is not None:
                link.cut()
        for client in self._clients:
            client.paused_until = min(client.paused_until, network.now)


def _close_connections(broker: Broker) -> None:
    for connection in list(broker.connections):
        connection.close("the broker is restarting")


def _reload(broker: Broker) -> None:
    """Close all topics and coordinators, as a restart of the mini-broker does; stored entries remain."""
    for topic in list(broker.topics.values()):
        if topic.persistent:
            topic.unload()
        else:
            broker.delete_topic(topic.name, force=True)
    broker.transactions.close(list(broker.transactions.stores))
    for namespace in list(broker.policies.namespaces):
        broker.topic_registry.forget_namespace(namespace)
