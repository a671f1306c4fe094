"""Findings and subscriptions compared with what the admin API of a broker reports."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.observe.broker_checks import (
    CONFIRMED,
    CONTRADICTED,
    FACT,
    UNDECIDED,
    BrokerTopic,
    check_finding,
    check_topic,
)
from pcli.codec.observe.rules import Finding
from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import EntryBudget, TopicState

TOPIC = "persistent://public/default/orders"
SUBJECT = {"topic": TOPIC, "subscription": "work", "consumer": "lazy"}
DEFAULTS = {"maxUnackedMessagesOnConsumer": 50_000, "maxUnackedMessagesOnSubscription": 200_000}


def finding(rule: str, count: int = 0, **subject: Any) -> Finding:
    return Finding("error", "certain", Cause("application"), SUBJECT | subject, "What", 1, count=count, rule=rule)


def topic(
    *consumers: dict[str, Any],
    policies: dict[str, Any] | None = None,
    cursor: tuple[int, int] | None = None,
    capture: TopicState | None = None,
    topic_stats: dict[str, Any] | None = None,
    **stats: Any,
) -> BrokerTopic:
    """A topic with the subscription work."""
    values = {"subscriptions": {"work": {"type": "Shared", "consumers": list(consumers)} | stats}} | (topic_stats or {})
    cursors = {} if cursor is None else {"work": cursor}
    return BrokerTopic(values, cursors, (DEFAULTS | (policies or {})).get, capture)


def verdict(one: Finding, found: BrokerTopic, *others: Finding) -> tuple[str, str]:
    note = check_finding(one, found, [one, *others])
    assert note is not None
    assert note.finding is one
    return note.verdict, note.text


@pytest.fixture
def capture() -> TopicState:
    """A topic of a capture with ten entries, of which the subscription work has acknowledged the first three."""
    state = TopicState(TopicRecord(TOPIC), EntryBudget())
    state.grow((7, 9), written=True)
    work = SubscriptionState(state, SubscriptionRecord(state.record, "work", "Shared", delivered=10))
    work.opened, work.mark_delete = True, (7, 2)
    state.subscriptions["work"] = work
    return state


# -- findings


def test_the_limit_of_a_consumer_confirms_a_block():
    found = topic(policies={"maxUnackedMessagesOnConsumer": 20})
    assert verdict(finding("stuck-unacked-limit", 20), found) == (
        CONFIRMED,
        "maxUnackedMessagesOnConsumer of the topic is 20, and the consumer held 20.",
    )


def test_the_limit_of_a_subscription_is_compared_with_all_its_consumers():
    found = topic(policies={"maxUnackedMessagesOnSubscription": 30})
    one, other = finding("stuck-unacked-limit", 20), finding("stuck-unacked-limit", 10, consumer="second")
    foreign = finding("stuck-unacked-limit", 90, subscription="audit")
    assert verdict(one, found, other, foreign)[0] == CONFIRMED
    assert verdict(one, found, foreign)[0] == UNDECIDED


def test_limits_that_no_consumer_can_have_reached_contradict_a_block(capture):
    assert verdict(finding("stuck-unacked-limit", 20), topic(capture=capture))[0] == CONTRADICTED


def test_messages_delivered_before_the_capture_may_have_reached_a_limit(capture):
    capture.subscriptions["work"].record.doubts.add("start")
    assert verdict(finding("stuck-unacked-limit", 20), topic(capture=capture))[0] == UNDECIDED


def test_messages_that_are_still_unacknowledged():
    held = topic({"consumerName": "lazy", "unackedMessages": 3}, msgBacklog=3)
    assert verdict(finding("never-acked", 3), held) == (CONFIRMED, "The consumer holds 3 unacknowledged messages now.")
    left = topic(msgBacklog=3)
    assert verdict(finding("never-acked", 3), left) == (
        UNDECIDED,
        "The backlog of the subscription is 3 entries now; the consumer is not attached.",
    )
    assert "backlog is empty" in verdict(finding("never-acked", 3), topic())[1]


@pytest.mark.parametrize(("permits", "expected"), [(0, CONFIRMED), (-2, CONFIRMED), (5, UNDECIDED)])
@pytest.mark.parametrize("rule", ["stuck-no-permits", "paused-client"])
def test_permits(rule, permits, expected):
    assert verdict(finding(rule), topic({"consumerName": "lazy", "availablePermits": permits}))[0] == expected


def test_a_blocked_consumer_contradicts_a_silent_dispatcher():
    found = topic({"consumerName": "lazy", "blockedConsumerOnUnackedMsgs": True})
    assert verdict(finding("dispatcher-silent"), found)[0] == CONTRADICTED


def test_a_dispatch_rate_may_be_the_reason_of_a_silent_dispatcher():
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 2}
    text = verdict(finding("dispatcher-silent"), topic(policies={"dispatchRate": rate}))[1]
    assert "dispatchRate: 5 messages per 2 s" in text
    assert "No dispatch rate" in verdict(finding("dispatcher-silent"), topic())[1]


@pytest.mark.parametrize(
    ("rule", "enabled", "expected"),
    [
        ("resend-stored", False, CONFIRMED),
        ("resend-stored", True, CONTRADICTED),
        ("resend-refused", True, CONFIRMED),
        ("resend-refused", False, CONTRADICTED),
        ("resend-stored", None, UNDECIDED),
    ],
)
def test_deduplication(rule, enabled, expected):
    assert verdict(finding(rule), topic(policies={"deduplicationEnabled": enabled}))[0] == expected


def test_messages_that_expired():
    assert verdict(finding("balance-mismatch"), topic(totalMsgExpired=4, policies={"messageTTL": 60})) == (
        CONFIRMED,
        "The subscription reports 4 expired messages (messageTTL: 60 s) and 0 messages rejected by a filter.",
    )
    assert verdict(finding("balance-mismatch"), topic())[0] == UNDECIDED


def test_the_producers_that_are_attached():
    publishers = [{"producerName": "web", "accessMode": "Exclusive", "address": "/10.0.0.1:4"}]
    found = topic(topic_stats={"publishers": publishers})
    assert verdict(finding("producer-refused"), found)[1] == "Attached producers now: web (Exclusive, /10.0.0.1:4)."


def test_the_active_consumer():
    assert verdict(finding("standby"), topic(activeConsumerName="other")) == (
        CONFIRMED,
        "The active consumer is other.",
    )
    assert verdict(finding("standby"), topic(activeConsumerName="lazy"))[0] == UNDECIDED


def test_a_topic_that_does_not_exist():
    missing = BrokerTopic(None, {}, DEFAULTS.get)
    assert verdict(finding("never-acked"), missing) == (UNDECIDED, "The topic does not exist on this broker.")
    assert [note.verdict for note in check_topic(TOPIC, missing)] == [FACT]


def test_a_finding_without_a_check():
    assert check_finding(finding("clock-skew"), topic(), []) is None


# -- topics


def facts(found: BrokerTopic) -> list[str]:
    return [note.text for note in check_topic(TOPIC, found)][1:]


def test_the_settings_of_a_topic():
    found = topic(policies={"retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}, "messageTTL": 5})
    [settings] = check_topic(TOPIC, found)
    assert settings.text == (
        "Limits: maxUnackedMessagesOnConsumer 50000, maxUnackedMessagesOnSubscription 200000. "
        "Retention: 60 min, -1 MB. Message TTL: 5 s. Deduplication: not enabled."
    )


def test_a_subscription_without_consumers():
    growing = topic(msgBacklog=100, topic_stats={"msgRateIn": 2.5})
    assert facts(growing) == [
        "The subscription has no consumers. Its backlog is 100 entries; it grows by 2.5 messages per second."
    ]
    assert facts(topic(msgBacklog=0)) == []
    assert facts(topic(msgBacklog=5, durable=False)) == []


def test_a_cursor_that_moved_forward(capture):
    lazy = {"consumerName": "lazy"}
    capture.subscriptions["work"].acked.add((7, 4))
    [text] = facts(topic(lazy, cursor=(7, 9), capture=capture, totalMsgExpired=2))
    assert text.startswith("The cursor moved forward by 6 entries that no ACK in the capture covers")
    assert text.endswith("2 messages expired.")
    assert facts(topic(lazy, cursor=(7, 2), capture=capture)) == []


def test_a_cursor_that_moved_back(capture):
    [text] = facts(topic({"consumerName": "lazy"}, cursor=(7, -1), capture=capture))
    assert text.startswith(
        "The cursor moved back: the broker's mark-delete position is 7:-1, that of the capture is 7:2"
    )


def test_a_subscription_that_was_removed(capture):
    found = topic({"consumerName": "lazy"}, capture=capture)
    assert isinstance(found.stats, dict)
    del found.stats["subscriptions"]["work"]
    assert facts(found) == ["The subscription of the capture does not exist any more."]
