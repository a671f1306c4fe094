"""The effective value for a topic: its policy, the namespace's, or the broker's setting (HierarchyTopicPolicies)."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.policies.errors import BadValueError
from pcli.minibroker.policies.policy_store import Policies
from pcli.minibroker.policies.policy_table import BY_SETTING, NAMESPACE, POLICIES, TOPIC
from pcli.minibroker.settings import Settings

T = TopicName.parse("persistent://public/default/t")
OTHER = TopicName.parse("persistent://public/default/other")
SPACE = "public/default"


@pytest.fixture
def policies():
    return Policies(Settings(maxProducersPerTopic=1))


def test_a_standalone_at_its_start(policies):
    assert sorted(policies.tenants) == ["public", "pulsar"]
    assert sorted(policies.namespaces) == ["public/default", "pulsar/system"]
    assert list(policies.clusters) == ["standalone"]
    assert policies.tenants["public"].clusters == ["standalone"]


def test_the_most_specific_policy_takes_precedence(policies):
    assert policies.effective(T, "maxProducersPerTopic") == 1
    policies.set_namespace(SPACE, "maxProducersPerTopic", 2)
    assert policies.effective(T, "maxProducersPerTopic") == 2
    policies.set_topic(T, "maxProducers", 3)
    assert policies.effective(T, "maxProducersPerTopic") == 3
    assert policies.effective(OTHER, "maxProducersPerTopic") == 2
    policies.unset_topic(T, "maxProducers")
    policies.unset_namespace(SPACE, "maxProducersPerTopic")
    assert policies.effective(T, "maxProducersPerTopic") == 1


def test_zero_is_a_value(policies):
    """0 means no limit; it does not mean "not set"."""
    policies.set_namespace(SPACE, "maxProducersPerTopic", 0)
    assert policies.effective(T, "maxProducersPerTopic") == 0


def test_partitions_have_the_policies_of_their_topic(policies):
    policies.set_topic(T, "maxMessageSize", 100)
    assert policies.effective(T.with_partition(3), "maxMessageSize") == 100
    policies.forget(T)
    assert policies.effective(T.with_partition(3), "maxMessageSize") == 5242880


def test_a_topic_cannot_revoke_a_namespaces_requirement(policies):
    assert policies.effective(T, "isSchemaValidationEnforced") is False
    policies.set_namespace(SPACE, "schemaValidationEnforced", True)
    policies.set_topic(T, "schemaValidationEnforced", False)
    assert policies.effective(T, "isSchemaValidationEnforced") is True


@pytest.mark.parametrize(
    ("policy", "value", "setting"),
    [
        ("schemaCompatibilityStrategy", "UNDEFINED", "schemaCompatibilityStrategy"),
        ("subscriptionTypesEnabled", [], "subscriptionTypesEnabled"),
    ],
)
def test_undefined_means_the_brokers_value(policies, policy, value, setting):
    policies.set_namespace(SPACE, policy, value)
    assert policies.effective(T, setting) == getattr(Settings(), setting)


def test_the_older_strategy_of_schemas_applies_if_the_newer_is_undefined(policies):
    """As in AbstractTopic.updateSchemaCompatibilityStrategyNamespaceValue."""
    policies.set_namespace("public/default", "schemaAutoUpdateCompatibilityStrategy", "AutoUpdateDisabled")
    assert policies.effective(T, "schemaCompatibilityStrategy") == "ALWAYS_INCOMPATIBLE"
    policies.set_namespace("public/default", "schemaCompatibilityStrategy", "FORWARD")
    assert policies.effective(T, "schemaCompatibilityStrategy") == "FORWARD"


def test_one_policy_for_several_settings(policies):
    policies.set_namespace(SPACE, "delayedDelivery", {"active": False, "tickTime": 2000})
    assert policies.effective(T, "delayedDeliveryEnabled") is False
    assert policies.effective(T, "delayedDeliveryTickTimeMillis") == 2000


def test_unset_parts_have_the_brokers_values(policies):
    """The policy as the conformance scenario sets it, without topicType and defaultNumPartitions."""
    policies.set_namespace(SPACE, "autoTopicCreation", {"allowAutoTopicCreation": False})
    assert policies.effective(T, "allowAutoTopicCreation") is False
    assert policies.effective(T, "allowAutoTopicCreationType") == "non-partitioned"
    assert policies.effective(T, "defaultNumPartitions") == 1


def test_an_unset_policy_is_built_from_the_settings(policies):
    """The objects that a real broker returns for `?applied=true`."""
    rate = {"dispatchThrottlingRateInMsg": 0, "dispatchThrottlingRateInByte": 0, "relativeToPublishRate": False}
    assert policies.policy(T, "dispatchRate") == {**rate, "ratePeriodInSecond": 1}
    assert policies.policy(T, "subscribeRate") == {"subscribeThrottlingRatePerConsumer": 0, "ratePeriodInSecond": 30}
    assert policies.policy(T, "maxUnackedMessagesOnConsumer") == 50000
    assert policies.policy(T, "retention") == {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
    assert policies.policy(T, "compactionThreshold") == 0
    assert policies.policy(T, "inactiveTopicPolicies")["maxInactiveDurationSeconds"] == 60


def test_a_topic_of_no_namespace(policies):
    assert policies.effective(TopicName.parse("persistent://a/b/c"), "maxProducersPerTopic") == 1


def test_changes_are_notified(policies):
    told = []
    policies.on_change = told.append
    policies.set_namespace(SPACE, "maxProducersPerTopic", 2)
    policies.set_topic(T.with_partition(1), "maxProducers", 2)
    policies.unset_topic(T, "maxProducers")
    policies.unset_namespace(SPACE, "maxProducersPerTopic")
    assert told == [SPACE, str(T), str(T), SPACE]


@pytest.mark.parametrize(
    ("policy", "value", "status"),
    [
        ("maxProducersPerTopic", -1, 412),
        ("maxProducersPerTopic", True, 400),
        ("maxProducersPerTopic", 1 << 31, 400),
        ("deduplication", "maybe", 400),
        ("retention", {"retentionTimeInMinutes": -5}, 400),
        ("dispatchRate", {"dispatchThrottlingRateInMsg": "x"}, 400),
        ("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "odd"}, 412),
        ("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "partitioned"}, 412),
        ("subscriptionTypesEnabled", ["Odd"], 500),
        ("subscriptionTypesEnabled", [["Shared"]], 400),
    ],
)
def test_invalid_values(policies, policy, value, status):
    with pytest.raises(BadValueError) as error:
        policies.set_namespace(SPACE, policy, value)
    assert error.value.status == status
    assert policies.namespaces[SPACE].policies == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def keys(policy):
    """Return the keys of a policy that is an object; empty for other policies."""
    try:
        return sorted(policy.read({}, Settings()))
    except (LocalError, TypeError):
        return []


@given(data=st.data(), policy=st.sampled_from(POLICIES))
def test_any_body_is_a_value_or_an_error(data, policy):
    """For any value that a client sends, the result is a policy that can be read, or an error of the expected class."""
    known = keys(policy)
    value = data.draw(st.dictionaries(st.sampled_from(known), JSON) if known else JSON)
    policies = Policies(Settings())
    try:
        if policy.name:
            policies.set_namespace(SPACE, policy.name, value)
        else:
            policies.set_topic(T, policy.topic, value)
    except LocalError:
        return
    for setting, _ in policy.settings:
        assert isinstance(policies.effective(T, setting), type(getattr(Settings(), setting)))


def test_the_table():
    settings = {row.name for row in Settings.describe()}
    assert BY_SETTING.keys() <= settings
    assert len(NAMESPACE) + len(TOPIC) == sum(bool(one.name) + bool(one.topic) for one in POLICIES)


@pytest.mark.parametrize("count", [1, 4, 7])
def test_bundles(policies, count):
    """Equal parts of the CRC32 range; the boundaries of 7 are those of a real broker."""
    namespace = policies.namespaces[SPACE]
    namespace.divide(count)
    edges = namespace.boundaries
    if count == 7:
        assert edges[1:3] == ["0x24924924", "0x49249248"]
    for index in range(200):
        name = f"persistent://public/default/topic-{index}"
        low, high = (int(edge, 16) for edge in namespace.bundle(name).split("_"))
        assert low <= zlib.crc32(name.encode()) <= high


def test_removing_all_policies_of_a_topic_keeps_its_properties(policies):
    policies.set_topic(T, "maxProducers", 3)
    policies.values_of(T).shadow_topics = [str(OTHER)]
    policies.properties[str(T)] = {"owner": "me"}
    policies.unset_all_of_topic(T)
    assert policies.effective(T, "maxProducersPerTopic") == 1
    assert policies.values_of(T).shadow_topics is None
    assert policies.properties
    policies.forget(T)
    assert policies.properties == {}
