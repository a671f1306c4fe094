"""The retry letter and dead letter topics with ``retryEnable``."""

from pcli.replay.client.settings import ConsumerSettings, DeadLetterPolicy


def subscribe(network, policy=None):
    return network.subscribe(subscriptionType="Shared", retryEnable=True, deadLetterPolicy=policy)


def test_the_retry_letters_are_consumed_as_well(network):
    consumer = subscribe(network)
    requested = network.sent("PARTITIONED_METADATA")[:2]
    assert [body.topic for body in requested] == [
        "persistent://public/default/work-RETRY",
        "persistent://public/default/work-DLQ",
    ]
    assert not any(body.metadata_auto_creation_enabled for body in requested)
    assert list(consumer.consumers) == [
        "persistent://public/default/orders",
        "persistent://public/default/orders-work-RETRY",
    ]
    assert consumer.settings.deadLetterPolicy == DeadLetterPolicy(
        deadLetterTopic="persistent://public/default/orders-work-DLQ",
        retryLetterTopic="persistent://public/default/orders-work-RETRY",
    )


def test_existing_topics_with_old_names_are_used(network):
    made = []
    old = ConsumerSettings(topicNames=("work-RETRY",), subscriptionName="x")
    network.engine().subscribe(old, made.append)
    network.wait_for(made)
    assert "persistent://public/default/work-RETRY" in subscribe(network).consumers


def test_named_topics_are_not_looked_up(network):
    policy = DeadLetterPolicy(deadLetterTopic="dead", retryLetterTopic="again")
    assert list(subscribe(network, policy).consumers) == [
        "persistent://public/default/again",
        "persistent://public/default/orders",
    ]
    assert len(network.sent("PARTITIONED_METADATA")) == 2
