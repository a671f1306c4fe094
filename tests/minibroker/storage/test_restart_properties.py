"""Any sequence of operations: a restored broker has the documents of the broker before the restart."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from tests.minibroker.storage.conftest import DurableWorld

TOPIC = "/admin/v2/persistent/public/default"
NAMESPACE = "/admin/v2/namespaces/public/default"

_topics = st.sampled_from(["a", "b", "p-partition-0"])
_entries = st.integers(0, 12)
_operations = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), _topics, st.integers(1, 4)),
        st.tuples(st.just("ack"), _topics, st.lists(_entries, min_size=1, max_size=5)),
        st.tuples(st.just("ack_batch"), _topics, _entries),
        st.tuples(st.just("seek"), _topics, _entries),
        st.tuples(st.just("unload"), _topics, st.none()),
        st.tuples(st.just("delete"), _topics, st.none()),
        st.tuples(st.just("request"), _topics, st.integers(0, 8)),
        st.tuples(st.just("restart"), st.none(), st.booleans()),
    ),
    max_size=12,
)

REQUESTS = [
    ("POST", f"{TOPIC}/{{}}/maxConsumers", 3),
    ("POST", f"{TOPIC}/{{}}/backlogQuota", {"limitSize": 10, "policy": "producer_exception"}),
    ("PUT", f"{TOPIC}/{{}}/properties", {"key": "value"}),
    ("POST", f"{TOPIC}/{{}}/permissions/app", ["produce", "consume"]),
    ("POST", f"{TOPIC}/{{}}/deduplicationEnabled", True),
    ("POST", f"{NAMESPACE}/retention", {"retentionTimeInMinutes": 5, "retentionSizeInMB": -1}),
    ("POST", f"{NAMESPACE}/subscriptionTypesEnabled", ["Shared"]),
    ("PUT", "/admin/v2/namespaces/public/other", {"bundles": {"numBundles": 2}}),
    ("DELETE", f"{TOPIC}/{{}}/permissions/app", None),
]


def run(world: DurableWorld, operation: str, topic: str, value: Any) -> None:
    client = world.client()
    if operation == "restart":
        world.restart(lazy=value)
    elif operation == "request":
        method, path, body = REQUESTS[value]
        world.rest(method, path.format(topic), body)
    elif operation == "unload":
        world.rest("PUT", f"{TOPIC}/{topic}/unload")
    elif operation == "delete":
        world.rest("DELETE", f"{TOPIC}/{topic}?force=true")
    elif operation == "publish":
        client.producer(topic)
        for number in range(value):
            client.publish(str(number), sequence_id=number)
    else:
        client.subscribe(topic, subType=pb.CommandSubscribe.Shared, initialPosition=pb.CommandSubscribe.Earliest)
        _with_consumer(client, operation, value)
    client.leave()


def _with_consumer(client: Any, operation: str, value: Any) -> None:
    ids = [body.message_id for body in client.flow() if isinstance(body, pb.CommandMessage)]
    numbers = value if isinstance(value, list) else [value]
    chosen = [ids[number] for number in numbers if number < len(ids)]
    if operation == "seek":
        for place in chosen:
            client(pb.CommandSeek(consumer_id=1, message_id=place))
    elif chosen:
        for place in chosen if operation == "ack_batch" else ():
            place.ack_set.append(0b110)
        client(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=chosen))


def documents(world: DurableWorld) -> dict[str, Any]:
    """Write all documents again; return those that a restart does not change."""
    registry = world.broker.topic_registry
    documents = world.broker.documents
    assert documents is not None
    for name in sorted(registry.stored):
        topic = registry.load(TopicName.parse(name))
        assert topic is not None
        assert topic.documents is not None
        topic.documents.changed_by_request()
        for subscription in topic.subscriptions.values():
            if subscription.documents is not None:
                subscription.documents.all_changed()
        documents.policies.changed(name)
    documents.changed_by_request({"tenant": "public", "namespace": "default"})
    world.write()
    found = {path: json.loads(text) for path, text in world.database.texts.items()}
    for path in ("/broker", "/last-storage-id"):
        found.pop(path, None)
    for path, value in found.items():
        if path.startswith("/managed-ledgers/"):
            # A restart closes the last ledger and opens an empty one.
            value["ledgers"] = [row[:4] for row in value["ledgers"] if row[2]]
    return found


def requests(world: DurableWorld) -> list[Any]:
    """Return responses that a restart does not change."""
    stats = [
        world.rest("GET", f"{path}/internalStats").json
        for name in sorted(world.broker.stored)
        for path in [f"{TOPIC}/{name.rpartition('/')[2]}"]
    ]
    names = ("numberOfEntries", "totalSize", "properties")
    return [
        [{name: one.get(name) for name in names} for one in stats],
        world.rest("GET", NAMESPACE).json,
        world.rest("GET", "/admin/v2/namespaces/public").json,
        world.rest("GET", f"{TOPIC}/a/backlogQuotaMap").json,
        world.rest("GET", f"{TOPIC}/a/maxConsumers").json,
        world.rest("GET", f"{TOPIC}/a/permissions").json,
    ]


@settings(max_examples=40, deadline=None)
@given(_operations)
@example([("publish", "a", 1), ("request", "a", 4), ("publish", "a", 1)])
def test_a_restart_keeps_the_documents(operations: list[Any]) -> None:
    # Without retention, a restart deletes acknowledged ledgers, as an unload does.
    world = DurableWorld(defaultRetentionTimeInMinutes=-1, defaultRetentionSizeInMB=-1)
    world.rest("PUT", f"{TOPIC}/p/partitions", 1)
    world.client().look_up("a")
    for operation in operations:
        run(world, *operation)
    before = requests(world), documents(world)
    world.restart()
    assert (requests(world), documents(world)) == before
    assert not world.broker.failures
