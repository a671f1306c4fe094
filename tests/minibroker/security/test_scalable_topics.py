"""Permissions on scalable topics: the outcomes are those of a real 5.0.1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.settings import Settings
from tests.minibroker.admin.conftest import Rest
from tests.minibroker.security import access_matrix as matrix

TOPIC = "topic://public/default/orders"
SEGMENT = "segment://public/default/orders/0000-ffff-0"
COMMANDS = [
    pb.CommandScalableTopicLookup(session_id=1, topic=TOPIC),
    pb.CommandScalableTopicSubscribe(
        request_id=2, topic=TOPIC, subscription="s", consumer_name="n", consumer_id=1, consumer_type=pb.STREAM
    ),
    pb.CommandWatchScalableTopics(watch_id=3, namespace="public/default"),
    pb.CommandProducer(topic=SEGMENT, request_id=4, producer_id=1),
    pb.CommandSubscribe(
        topic=SEGMENT, subscription="s", subType=pb.CommandSubscribe.Shared, request_id=5, consumer_id=2
    ),
]
NAMES = ("ScalableTopicLookup", "ScalableTopicSubscribe", "WatchScalableTopics", "Produce", "subscribe")


@pytest.fixture
def world(make_secure_world):
    world = make_secure_world(version="5.0.1")
    world.broker.scalable_topics.create(TOPIC)
    return world


def refused(world, token, role):
    """Return the operations that a role may not perform."""
    owner = world.client(auth_method_name="token", auth_data=token("admin"))
    owner.look_up(SEGMENT)
    client = world.client(auth_method_name="token", auth_data=token(role))
    found = []
    for command, name in zip(COMMANDS, NAMES, strict=True):
        answers = [body for body in client(command) if "error" in body.DESCRIPTOR.fields_by_name]
        if any(body.HasField("error") for body in answers):
            assert (answers[0].error, answers[0].message) == (
                pb.AuthorizationError,
                f"Client is not authorized to {name}",
            )
            found.append(name)
    return found


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([], [*NAMES]),
        (["produce"], ["ScalableTopicSubscribe", "subscribe"]),
        (["consume"], ["Produce"]),
        (["produce", "consume"], []),
    ],
)
def test_a_permission_of_the_namespace(world, token, actions, expected):
    world.broker.policies.namespaces["public/default"].permissions["alice"] = actions
    assert refused(world, token, "alice") == expected


def test_a_permission_of_the_topic_applies_to_its_segments(world, token):
    world.broker.policies.topic_permissions[TOPIC] = {"alice": ["produce"]}
    assert refused(world, token, "alice") == ["ScalableTopicSubscribe", "WatchScalableTopics", "subscribe"]


def test_the_permissions_end_with_the_topic(world):
    world.broker.policies.topic_permissions[TOPIC] = {"alice": ["produce"]}
    world.broker.scalable_topics.delete(TOPIC)
    assert TOPIC not in world.broker.policies.topic_permissions


@pytest.fixture(scope="module")
def requests():
    """Return requests to a real 5.0.1: method, path, role, status, and the reason of a 401 or 403."""
    path = Path(__file__).with_name("scalable-requests-of-roles.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_requests_that_a_real_broker_refuses(make_world, requests):
    settings = Settings.from_pairs([f"{name}={value}" for name, value in matrix.SETTINGS.items()])
    world = make_world(version="5.0.1", **{name: getattr(settings, name) for name in matrix.SETTINGS})
    rest = Rest(world)

    def send(method, path, role, body=None):
        return rest(method, path, body, headers={"authorization": f"Bearer {matrix.token(role)}"})

    for method, path, body in matrix.GRANTS:
        assert send(method, path, "admin", body).status == 204
    for name in ("az?numInitialSegments=2", "az9"):
        assert send("PUT", f"/admin/v2/scalable/public/default/{name}", "admin").status == 204
    different = []
    for method, path, role, status, reason in requests:
        answer = send(method, path, role)
        refused = answer.status in (401, 403)
        if refused != (status in (401, 403)) or (
            refused and (answer.status, answer.json["reason"]) != (status, reason)
        ):
            different.append((method, path, role, status, answer.status, answer.json))
    assert different == []
