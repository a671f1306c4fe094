"""Invalid settings that are refused before anything is sent."""

import pytest

from pcli.replay.client.consumer.settings_checks import ranges_fault, settings_fault
from pcli.replay.client.settings import ConsumerSettings, DeadLetterPolicy, KeySharedPolicy

GOOD = {"topicNames": ("orders",), "subscriptionName": "work"}


def fault(**settings):
    found = settings_fault(ConsumerSettings(**GOOD | settings))
    return None if found is None else (found.error, found.message)


def test_valid_settings():
    assert fault() is None
    assert fault(subscriptionType="Key_Shared", keySharedPolicy=KeySharedPolicy(((0, 5), (6, 65535)))) is None
    assert fault(readCompacted=True, subscriptionType="Failover") is None
    assert fault(topicNames=(), topicsPattern="public/default/a.*") is None


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"topicNames": ()}, "is required"),
        ({"topicsPattern": "a.*"}, "cannot be combined"),
        ({"topicNames": ("a", "a")}, "twice"),
        ({"topicNames": "orders"}, "must be a tuple"),
        ({"subscriptionType": "shared"}, "subscriptionType is 'shared', not Exclusive, Shared, Failover, Key_Shared"),
        ({"subscriptionInitialPosition": "earliest"}, "not Latest, Earliest"),
        ({"subscriptionMode": "durable"}, "not Durable, NonDurable"),
        ({"regexSubscriptionMode": "all"}, "not PersistentOnly"),
        ({"cryptoFailureAction": "fail"}, "not FAIL"),
        ({"subscriptionName": " "}, "subscription"),
        ({"keySharedPolicy": KeySharedPolicy()}, "Key_Shared"),
        ({"receiverQueueSize": -1}, "receiverQueueSize"),
        ({"receiverQueueSize": 0, "topicNames": ("a", "b")}, "single topic"),
        ({"receiverQueueSize": 0, "retryEnable": True}, "single topic"),
        ({"ackTimeoutMillis": 999}, "ackTimeoutMillis"),
        ({"tickDurationMillis": 99}, "tickDurationMillis"),
        ({"acknowledgementsGroupTimeMicros": -1}, "acknowledgementsGroupTimeMicros"),
        ({"negativeAckRedeliveryDelayMicros": -1}, "negativeAckRedeliveryDelayMicros"),
        ({"negativeAckPrecisionBitCnt": -1}, "negativeAckPrecisionBitCnt"),
        ({"priorityLevel": -1}, "priorityLevel"),
        ({"deadLetterPolicy": DeadLetterPolicy(maxRedeliverCount=0)}, "maxRedeliverCount"),
        ({"patternAutoDiscoveryPeriod": -1}, "patternAutoDiscoveryPeriod"),
        ({"maxTotalReceiverQueueSizeAcrossPartitions": -1}, "maxTotalReceiverQueueSizeAcrossPartitions"),
        ({"properties": {"": "x"}}, "properties"),
        ({"readCompacted": True, "subscriptionType": "Shared"}, "readCompacted"),
        ({"readCompacted": True, "topicNames": ("non-persistent://public/default/a",)}, "readCompacted"),
    ],
)
def test_invalid_settings(settings, word):
    error, message = fault(**settings)
    assert error == "InvalidConfiguration"
    assert word in message


def test_an_invalid_topic():
    assert fault(topicNames=("a/b",))[0] == "InvalidTopicName"


@pytest.mark.parametrize("ranges", [((-1, 5),), ((0, 65536),), ((5, 4),), ((0, 5), (5, 6)), ((10, 20), (0, 15))])
def test_ranges(ranges):
    assert ranges_fault(ranges) is not None
    found = fault(subscriptionType="Key_Shared", keySharedPolicy=KeySharedPolicy(ranges))
    assert found[0] == "InvalidConfiguration"
