"""The effective policies of a topic: rates by level, interceptors by name, system topics."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.topics.effective_policies import EffectivePolicies, Interceptors

T = "persistent://public/default/t"
N = "non-persistent://public/default/t"


def test_interceptors_are_identified_by_class_name_without_package():
    index, timestamp = "a.b.AppendIndexMetadataInterceptor", "AppendBrokerTimestampMetadataInterceptor"
    assert Interceptors.of([]) == Interceptors(index=False, timestamp=False)
    assert Interceptors.of([index]) == Interceptors(index=True, timestamp=False)
    assert Interceptors.of([timestamp, index]) == Interceptors(index=True, timestamp=True)
    assert Interceptors.of(["a.OtherInterceptor"]) == Interceptors(index=False, timestamp=False)


def test_dispatch_limits_come_from_broker_topic_and_subscription(make_world):
    world = make_world(dispatchThrottlingRateInMsg=7)
    client = world.client()
    client.subscribe()
    client.subscribe(N, consumer_id=2)
    rate = {"dispatchThrottlingRateInMsg": 30, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 10}
    world.broker.policies.set_topic(TopicName.parse(T), "dispatchRate", rate)
    world.broker.policies.set_topic(TopicName.parse(T), "subscriptionDispatchRate", {**rate, "ratePeriodInSecond": 1})
    topic = world.broker.topics[T]
    limiters = topic.effective_policies.dispatch_limiters(topic.subscriptions["sub"])
    assert [limiter.messages.rate for limiter in limiters] == [7, 30, 30]
    assert [limiter.messages.period_ms for limiter in limiters] == [1000, 10_000, 1000]
    other = world.broker.topics[N]
    assert [one.messages.rate for one in other.effective_policies.dispatch_limiters(other.subscriptions["sub"])] == [7]


def test_the_subscribe_rate_of_one_consumer(make_world):
    world = make_world(subscribeThrottlingRatePerConsumer=1, subscribeRatePeriodPerConsumerInSecond=30)
    client = world.client()
    assert isinstance(client.subscribe(consumer_name="c"), pb.CommandSuccess)
    client(pb.CommandCloseConsumer(consumer_id=1))
    assert client.subscribe(consumer_name="c").error == pb.NotAllowedError
    assert isinstance(client.subscribe(consumer_name="d"), pb.CommandSuccess)


def rules(world, name=T):
    return EffectivePolicies(world.broker, TopicName.parse(name))


def test_no_policies_are_enabled_by_default(world):
    assert not rules(world).affects_send


def test_system_topics_need_no_encryption_and_accept_any_schema(make_world):
    world = make_world(encryptionRequireOnProducer=True, isAllowAutoUpdateSchemaEnabled=False)
    own, other = rules(world, "persistent://public/default/__change_events"), rules(world)
    assert (own.encryption_required, other.encryption_required) == (False, True)
    asked = ("schemaCompatibilityStrategy", "isAllowAutoUpdateSchemaEnabled", "isSchemaValidationEnforced")
    assert [own.for_schemas(setting) for setting in asked] == ["ALWAYS_COMPATIBLE", True, False]
    assert [other.for_schemas(setting) for setting in asked] == ["FULL", False, False]


def test_non_persistent_topics_have_no_deduplication(make_world):
    world = make_world(brokerDeduplicationEnabled=True)
    assert (rules(world).deduplication, rules(world, N).deduplication) == (True, False)


def test_changed_policies_apply_after_a_lookup(world):
    topic = rules(world)
    world.broker.policies.set_topic(TopicName.parse(T), "maxMessageSize", 100)
    world.broker.policies.set_namespace("public/default", "encryptionRequired", True)
    assert (topic.max_message_size, topic.encryption_required) == (0, False)
    topic.refresh()
    assert (topic.max_message_size, topic.encryption_required) == (100, True)


def set_policy(world, name, value):
    world.broker.policies.set_topic(TopicName.parse(T), name, value)


def test_a_new_rate_starts_with_all_tokens(world):
    set_policy(world, "publishRate", {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1})
    topic = rules(world)
    [throttle] = topic.throttles
    throttle.limiter.charge(10, 0, world.now)
    set_policy(world, "publishRate", {"publishThrottlingRateInMsg": 9, "publishThrottlingRateInByte": -1})
    topic.refresh()
    [throttle] = topic.throttles
    assert throttle.limiter.available(world.now)[0] == 9


def test_a_publisher_stays_paused_if_another_policy_changes(world):
    client = world.client()
    client.producer()
    rate = {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": -1}
    set_policy(world, "publishRate", rate)
    client.publish()
    assert not client.connection.reading
    set_policy(world, "maxMessageSize", 1000)
    set_policy(world, "publishRate", rate)
    assert not client.connection.reading
    set_policy(world, "publishRate", {**rate, "publishThrottlingRateInMsg": 2})
    assert client.connection.reading


@pytest.mark.parametrize("policy", ["dispatchRate", "subscriptionDispatchRate"])
def test_a_dispatch_rate_is_not_refilled_when_another_policy_changes(world, policy):
    client = world.client()
    client.producer()
    client.subscribe()
    rate = {"dispatchThrottlingRateInMsg": 2, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 60}
    set_policy(world, policy, rate)
    for number in range(4):
        client.publish(f"m{number}", number)
    assert len(client.flow()) == 2
    set_policy(world, "maxMessageSize", 1000)
    world.advance(2000)
    assert client.hear() == []
    set_policy(world, policy, {**rate, "dispatchThrottlingRateInMsg": 1})
    world.advance(2000)
    assert len(client.hear()) == 1


def test_subscribe_limits_survive_changes_of_other_policies(make_world):
    world = make_world(subscribeThrottlingRatePerConsumer=1, subscribeRatePeriodPerConsumerInSecond=30)
    client = world.client()
    assert isinstance(client.subscribe(consumer_name="c"), pb.CommandSuccess)
    client(pb.CommandCloseConsumer(consumer_id=1))
    set_policy(world, "maxMessageSize", 1000)
    assert client.subscribe(consumer_name="c").error == pb.NotAllowedError


@pytest.mark.parametrize("policy", ["dispatchRate", "subscriptionDispatchRate"])
def test_a_dispatch_rate_relative_to_the_publish_rate(world, policy):
    """The publish rate is measured every minute; a lower one counts as the average with the one before."""
    client = world.client()
    client.producer()
    client.subscribe()
    rate = {"dispatchThrottlingRateInMsg": 1, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
    set_policy(world, policy, {**rate, "relativeToPublishRate": True})
    [limiter] = world.broker.topics[T].effective_policies.dispatch_limiters(world.broker.topics[T].subscriptions["sub"])
    rates = [limiter.messages.rate]
    for minute in range(3):
        for number in range(240 if minute == 0 else 0):
            client.publish(sequence_id=number)
        world.advance(60_000)
        rates.append(limiter.messages.rate)
    assert rates == [1, 5, 3, 2]


def test_dispatch_rates_can_exempt_connected_consumers(make_world):
    world = make_world(dispatchThrottlingOnNonBacklogConsumerEnabled=False, dispatchThrottlingRatePerTopicInMsg=1)
    client = world.client()
    client.producer()
    client.subscribe()
    for number in range(4):
        client.publish(sequence_id=number)
    assert len(client.flow()) == 4
