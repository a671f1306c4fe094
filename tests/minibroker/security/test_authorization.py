"""Permissions of roles: commands that are refused, with the errors of a real 4.2.4."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName

TOPIC = "persistent://public/default/t"


@pytest.fixture
def policies(secure_world):
    return secure_world.broker.policies


@pytest.fixture
def client(secure_world, token):
    """Connect as alice, after the topic's bundle was looked up by the superuser."""
    secure_world.client(auth_method_name="token", auth_data=token("admin")).look_up(TOPIC)
    return secure_world.client(auth_method_name="token", auth_data=token("alice"))


def refusals(client):
    """Send each command that requires a permission. Return the messages of the errors by command."""
    commands = {
        "metadata": pb.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=1),
        "lookup": pb.CommandLookupTopic(topic=TOPIC, request_id=2),
        "produce": pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=3),
        "consume": pb.CommandSubscribe(
            topic=TOPIC, subscription="work", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=4
        ),
        "list": pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=5),
        "watch": pb.CommandWatchTopicList(namespace="public/default", topics_pattern="t.*", watcher_id=1, request_id=6),
        "initial": pb.CommandProducer(
            topic=TOPIC, producer_id=2, request_id=7, initial_subscription_name="work", producer_name="p2"
        ),
    }
    found = {}
    for name, command in commands.items():
        response = client.one(command)
        if pb.AuthorizationError in (getattr(response, "error", None),):
            found[name] = response.message
    return found


ALL = {
    "metadata": "Client is not authorized to Get Partition Metadata",
    "lookup": "Client is not authorized to Lookup",
    "produce": "Client is not authorized to Produce",
    "consume": "Client is not authorized to subscribe",
    "list": "Client is not authorized to GetTopicsOfNamespace",
    "watch": "Proxy Client is not authorized to watchTopicList",
    "initial": "Client is not authorized to Produce",
}


def only(*names):
    return {name: ALL[name] for name in names}


def test_a_role_without_permissions_may_do_nothing(client):
    assert refusals(client) == ALL


@pytest.mark.parametrize("role", ["admin", "boss"])
def test_a_superuser_and_the_administrator_of_the_tenant_may_do_everything(secure_world, policies, token, role):
    policies.tenants["public"].roles.append("boss")
    assert refusals(secure_world.client(auth_method_name="token", auth_data=token(role))) == {}


@pytest.mark.parametrize(
    ("actions", "refused"),
    [
        (["produce"], only("consume", "initial")),
        (["consume"], only("produce", "initial")),
        (["produce", "consume"], {}),
    ],
)
def test_a_role_may_take_the_permitted_actions_on_a_namespace(policies, client, actions, refused):
    policies.namespaces["public/default"].permissions["alice"] = actions
    assert refusals(client) == refused


def test_a_permission_of_a_topic_does_not_permit_lists(policies, client):
    policies.topic_permissions[TOPIC] = {"alice": ["produce", "consume"]}
    assert refusals(client) == only("list", "watch")


def test_a_permission_of_a_partitioned_topic_applies_to_its_partitions(policies, client):
    policies.partitioned["persistent://public/default/parts"] = 2
    policies.topic_permissions["persistent://public/default/parts"] = {"alice": ["produce"]}
    partition = "persistent://public/default/parts-partition-1"
    assert client.one(pb.CommandLookupTopic(topic=partition, request_id=1)).response == 1


def test_a_subscription_can_be_restricted_to_roles(policies, client):
    namespace = policies.namespaces["public/default"]
    namespace.permissions["alice"] = ["consume", "produce"]
    namespace.subscription_permissions["work"] = ["bob"]
    assert refusals(client) == only("consume", "initial")


def test_names_of_subscriptions_can_require_the_role_as_a_prefix(secure_world, policies, client):
    policies.namespaces["public/default"].permissions["alice"] = ["consume"]
    policies.set_namespace("public/default", "subscriptionAuthMode", "Prefix")
    assert "needs to be prefixed by the authentication role" in refusals(client)["consume"]
    subscribe = pb.CommandSubscribe(
        topic=TOPIC, subscription="alice-work", subType=pb.CommandSubscribe.Shared, consumer_id=5, request_id=9
    )
    assert isinstance(client.one(subscribe), pb.CommandSuccess)


def test_wildcards_match_if_the_setting_allows_them(make_secure_world, token):
    for allowed in (True, False):
        world = make_secure_world(authorizationAllowWildcardsMatching=allowed)
        world.broker.policies.namespaces["public/default"].permissions["al*"] = ["produce"]
        alice = world.client(auth_method_name="token", auth_data=token("alice"))
        response = alice.one(pb.CommandLookupTopic(topic=TOPIC, request_id=1))
        assert (response.response == pb.CommandLookupTopicResponse.Connect) == allowed


def test_a_proxy_and_its_client_both_need_the_permission(make_secure_world, token):
    world = make_secure_world(proxyRoles=["proxy"])
    permissions = world.broker.policies.namespaces["public/default"].permissions
    client = world.accept(version=21)
    client.session.connect(auth_method_name="token", auth_data=token("proxy"), original_principal="alice")
    client()
    lookup = pb.CommandLookupTopic(topic=TOPIC, request_id=1)
    permissions["alice"] = ["produce"]
    assert client.one(lookup).error == pb.AuthorizationError
    permissions["proxy"] = ["produce"]
    assert client.one(lookup).response == pb.CommandLookupTopicResponse.Connect


def test_only_the_owner_or_a_superuser_ends_a_transaction(make_secure_world, token):
    world = make_secure_world(transactionCoordinatorEnabled=True)
    alice, bob, admin = (
        world.client(auth_method_name="token", auth_data=token(role)) for role in ("alice", "bob", "admin")
    )
    admin.look_up("persistent://pulsar/system/transaction_coordinator_assign-partition-0")
    assert not alice.one(pb.CommandTcClientConnectRequest(tc_id=0, request_id=1)).HasField("error")
    ids = [alice.one(pb.CommandNewTxn(request_id=2, txn_ttl_millis=60000)).txnid_least_bits for _ in range(2)]
    end = [pb.CommandEndTxn(request_id=3, txnid_least_bits=least, txn_action=pb.ABORT) for least in ids]
    assert bob.one(end[0]).error == pb.TransactionNotFound
    assert not alice.one(end[0]).HasField("error")
    assert not admin.one(end[1]).HasField("error")


def test_only_a_superuser_ends_a_transaction_on_a_topic(make_secure_world, token):
    world = make_secure_world(transactionCoordinatorEnabled=True)
    command = pb.CommandEndTxnOnPartition(topic=TOPIC, request_id=1, txn_action=pb.COMMIT)
    for role, refused in (("alice", True), ("admin", False)):
        client = world.client(auth_method_name="token", auth_data=token(role))
        assert client.one(command).HasField("error") == refused


def test_permissions_of_a_topic_end_with_the_topic(policies):
    policies.topic_permissions[TOPIC] = {"alice": ["produce"]}
    policies.forget(TopicName.parse(TOPIC))
    assert policies.topic_permissions == {}
