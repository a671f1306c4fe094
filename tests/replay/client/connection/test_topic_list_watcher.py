"""A topic-list watcher with a broker."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.connection.topic_list_watcher import TopicListWatcher

PATTERN = "persistent://public/default/w-.*"


class Watched:
    """A watcher and all its notifications."""

    def __init__(self, engine: Any, known: str = "") -> None:
        self.known = known
        self.lists: list[Any] = []
        self.updates: list[Any] = []
        self.results: list[Any] = []
        self.watcher = TopicListWatcher(
            engine,
            "public/default",
            PATTERN,
            known_hash=lambda: self.known,
            on_list=self.lists.append,
            on_update=self.updates.append,
            done=self.results.append,
        )
        self.watcher.start()


def _create(network: Any, engine: Any, *names: str) -> None:
    for name in names:
        topic = f"persistent://public/default/{name}"
        body = pb.CommandProducer(topic=topic, producer_id=engine.next_number("producer"))
        engine.connection_for(topic, lambda connection, body=body: connection.request(body, lambda response: None))
        network.deliver_all()


def test_it_receives_existing_and_new_topics(network: Any) -> None:
    engine = network.engine()
    _create(network, engine, "w-1", "other")
    watched = Watched(engine)
    network.deliver_all()
    assert watched.results == [watched.watcher]
    assert list(watched.lists[0].topic) == ["persistent://public/default/w-1"]
    assert [body.topic for body in network.sent("LOOKUP")][-1] == PATTERN

    _create(network, engine, "w-2", "another")
    network.run(1_000)
    assert [list(update.new_topics) for update in watched.updates] == [["persistent://public/default/w-2"]]


def test_a_new_registration_contains_the_current_hash(network: Any) -> None:
    watched = Watched(network.engine())
    network.deliver_all()
    watched.known = watched.lists[0].topics_hash or "00000000"
    network.cut()
    network.run(100)
    assert [body.topics_hash for body in network.sent("WATCH_TOPIC_LIST")] == ["", watched.known]
    assert watched.results == [watched.watcher]


def test_reconcile_requests_changes_if_supported(network: Any) -> None:
    engine = network.engine()
    _create(network, engine, "w-1")
    watched = Watched(engine)
    assert not watched.watcher.can_reconcile
    network.deliver_all()
    assert watched.watcher.can_reconcile
    responses: list[Any] = []
    watched.watcher.reconcile(responses.append)
    network.deliver_all()
    assert list(responses[0].topic) == ["persistent://public/default/w-1"]


def test_closing_it_unregisters_at_the_broker(network: Any) -> None:
    watched = Watched(network.engine())
    network.deliver_all()
    closed: list[Any] = []
    watched.watcher.close(closed.append)
    network.deliver_all()
    assert closed == [None]
    assert [body.watcher_id for body in network.sent("WATCH_TOPIC_LIST_CLOSE")] == [0]
    assert watched.watcher.state is State.CLOSED


def test_a_broker_without_watchers_ends_it(make_network: Any) -> None:
    network = make_network(enableBrokerTopicListWatcher=False)
    watched = Watched(network.engine())
    network.deliver_all()
    assert watched.results == [ClientFailure("NotAllowed", "the broker does not evaluate patterns")]
    assert watched.watcher.state is State.CLOSED


def _registering(fake_broker: Any, **settings: Any) -> tuple[Any, Watched, Any]:
    """A watcher whose registration the broker has just received; the test plays the broker."""
    end = fake_broker(**settings)
    watched = Watched(end.engine)
    end.take_output()
    [(_, look)] = end.complete_handshake(supports_topic_watchers=True)
    owner = pb.CommandLookupTopicResponse.Connect
    [(_, requested)] = end.broker_sends(
        pb.CommandLookupTopicResponse(request_id=look.request_id, response=owner, brokerServiceUrl="pulsar://a:1")
    )
    return end, watched, requested


@pytest.mark.parametrize(("error", "again"), [("MetadataError", True), ("NotAllowedError", False)])
def test_a_retriable_registration_failure_is_retried(fake_broker: Any, error: str, again: bool) -> None:
    end, watched, requested = _registering(fake_broker)
    end.broker_sends(pb.CommandError(request_id=requested.request_id, error=pb.ServerError.Value(error), message="no"))
    assert [body.DESCRIPTOR.name for _, body in end.run(100)] == (["CommandLookupTopic"] if again else [])
    assert watched.results == ([] if again else [ClientFailure(error, "no")])


def test_registration_retries_end_after_the_time_out(fake_broker: Any) -> None:
    end, watched, _ = _registering(fake_broker, operationTimeoutMs=5_000)
    end.run(5_000)
    assert [one.error for one in watched.results] == ["TimeOut"]
    assert watched.watcher.state is State.FAILED
