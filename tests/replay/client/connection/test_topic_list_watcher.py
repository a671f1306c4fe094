"""A watcher of topics against the broker."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.connection.topic_list_watcher import TopicListWatcher

PATTERN = "persistent://public/default/w-.*"


class Watched:
    """A watcher and all that it hears."""

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


def _create(world: Any, engine: Any, *names: str) -> None:
    for name in names:
        topic = f"persistent://public/default/{name}"
        body = pb.CommandProducer(topic=topic, producer_id=engine.next_number("producer"))
        engine.connection_for(topic, lambda connection, body=body: connection.request(body, lambda answer: None))
        world.settle()


def test_it_hears_what_is_there_and_what_comes(world: Any) -> None:
    engine = world.engine()
    _create(world, engine, "w-1", "other")
    watched = Watched(engine)
    world.settle()
    assert watched.results == [watched.watcher]
    assert list(watched.lists[0].topic) == ["persistent://public/default/w-1"]
    assert [body.topic for body in world.said("LOOKUP")][-1] == PATTERN

    _create(world, engine, "w-2", "another")
    world.run(1_000)
    assert [list(update.new_topics) for update in watched.updates] == [["persistent://public/default/w-2"]]


def test_it_says_what_it_knows_by_then_when_it_comes_back(world: Any) -> None:
    watched = Watched(world.engine())
    world.settle()
    watched.known = watched.lists[0].topics_hash or "00000000"
    world.cut()
    world.run(100)
    assert [body.topics_hash for body in world.said("WATCH_TOPIC_LIST")] == ["", watched.known]
    assert watched.results == [watched.watcher]


def test_it_asks_for_differences_where_the_broker_can_say_them(world: Any) -> None:
    engine = world.engine()
    _create(world, engine, "w-1")
    watched = Watched(engine)
    assert not watched.watcher.can_reconcile
    world.settle()
    assert watched.watcher.can_reconcile
    answers: list[Any] = []
    watched.watcher.reconcile(answers.append)
    world.settle()
    assert list(answers[0].topic) == ["persistent://public/default/w-1"]


def test_closing_it_tells_the_broker(world: Any) -> None:
    watched = Watched(world.engine())
    world.settle()
    closed: list[Any] = []
    watched.watcher.close(closed.append)
    world.settle()
    assert closed == [None]
    assert [body.watcher_id for body in world.said("WATCH_TOPIC_LIST_CLOSE")] == [0]
    assert watched.watcher.state is State.CLOSED


def test_a_broker_that_evaluates_no_patterns_ends_it(make_world: Any) -> None:
    world = make_world(enableBrokerTopicListWatcher=False)
    watched = Watched(world.engine())
    world.settle()
    assert watched.results == [ClientFailure("NotAllowed", "the broker does not evaluate patterns")]
    assert watched.watcher.state is State.CLOSED


def _registering(wire: Any, **settings: Any) -> tuple[Any, Watched, Any]:
    """One whose registration has just been heard, played by hand."""
    end = wire(**settings)
    watched = Watched(end.engine)
    end.hear()
    [(_, look)] = end.shake(supports_topic_watchers=True)
    owner = pb.CommandLookupTopicResponse.Connect
    [(_, asked)] = end.say(
        pb.CommandLookupTopicResponse(request_id=look.request_id, response=owner, brokerServiceUrl="pulsar://a:1")
    )
    return end, watched, asked


@pytest.mark.parametrize(("error", "again"), [("MetadataError", True), ("NotAllowedError", False)])
def test_a_refused_registration_is_tried_again_if_that_may_help(wire: Any, error: str, again: bool) -> None:
    end, watched, asked = _registering(wire)
    end.say(pb.CommandError(request_id=asked.request_id, error=pb.ServerError.Value(error), message="no"))
    assert [body.DESCRIPTOR.name for _, body in end.run(100)] == (["CommandLookupTopic"] if again else [])
    assert watched.results == ([] if again else [ClientFailure(error, "no")])


def test_the_time_for_it_ends(wire: Any) -> None:
    end, watched, _ = _registering(wire, operationTimeoutMs=5_000)
    end.run(5_000)
    assert [one.error for one in watched.results] == ["TimeOut"]
    assert watched.watcher.state is State.FAILED
