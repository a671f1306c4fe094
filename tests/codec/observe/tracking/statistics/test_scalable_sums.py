"""Statistics of scalable topics, compared with those of their segments and with the logs of applications."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.statistics.broker_statistics import figures
from pcli.codec.observe.tracking.statistics.message_balance import SUBSCRIPTION_VALUES, TOPIC_VALUES, Balance, balances
from pcli.codec.observe.tracking.statistics.scalable_sums import sum_balances, sum_figures
from pcli.codec.observe.tracking.tracker import Tracker

CLASSIC = "persistent://public/default/classic"
SCALABLE = "topic://public/default/t"
SEGMENTS = [f"segment://public/default/t/0000-ffff-{number}" for number in range(3)]
NUMBER = st.one_of(st.none(), st.integers(0, 9))
BALANCES = st.dictionaries(
    st.sampled_from([CLASSIC, *SEGMENTS]),
    st.tuples(
        st.fixed_dictionaries(dict.fromkeys(TOPIC_VALUES, NUMBER)),
        st.dictionaries(st.sampled_from(["a", "b"]), st.fixed_dictionaries(dict.fromkeys(SUBSCRIPTION_VALUES, NUMBER))),
    ),
    min_size=1,
)


def of_values(name, subscription, values):
    return Balance(name, subscription, values, {one: "why" for one, value in values.items() if value is None})


def record_of(topics):
    """Return a function that returns records with all subscriptions on all topics; they are not durable."""
    records = {name: TopicRecord(name) for name in topics}
    for record in records.values():
        record.subscriptions = {name: SubscriptionRecord(record, name, durable=False) for name in ("a", "b")}
    return records.__getitem__


@given(BALANCES)
def test_sums_of_balances(drawn):
    given_balances = [
        of_values(name, one, values)
        for name, (of_topic, subscriptions) in sorted(drawn.items())
        for one, values in (("", of_topic), *subscriptions.items())
    ]
    found = {(one.topic, one.subscription): one for one in sum_balances(given_balances, record_of(drawn))}
    for one in given_balances:
        name = CLASSIC if one.topic == CLASSIC else SCALABLE
        total = found.pop((name, one.subscription), None)
        if total is None:
            continue
        members = [
            other for other in given_balances
            if other.subscription == one.subscription and (other.topic == CLASSIC) == (name == CLASSIC)
        ]  # fmt: skip
        for value, number in total.values.items():
            numbers = [other.values[value] for other in members]
            assert number == (None if None in numbers else sum(numbers))
            assert (value in total.reasons) == (number is None)
    assert found == {}


def test_a_subscription_that_a_split_copied_is_unknown_without_a_consumer():
    records = {name: TopicRecord(name) for name in SEGMENTS[:2]}
    records[SEGMENTS[0]].subscriptions["a"] = SubscriptionRecord(records[SEGMENTS[0]], "a")
    zero = dict.fromkeys(SUBSCRIPTION_VALUES, 0)
    some = [
        of_values(SEGMENTS[0], "", {**dict.fromkeys(TOPIC_VALUES, 0), "stored": 3}),
        of_values(SEGMENTS[0], "a", {**zero, "stored": 3, "remaining": 1, "delivered": 2}),
        of_values(SEGMENTS[1], "", {**dict.fromkeys(TOPIC_VALUES, 0), "stored": 4}),
    ]
    _, total = sum_balances(some, records.__getitem__)
    assert {name: total.values[name] for name in ("stored", "remaining", "delivered")} == {
        "stored": None, "remaining": None, "delivered": 2
    }  # fmt: skip
    assert "0000-ffff-1: the capture contains no consumer" in total.reasons["remaining"]
    # a segment without messages changes nothing, and a subscription that is not durable has no cursor there
    some[2].values["stored"] = 0
    assert sum_balances(some, records.__getitem__)[1].values["remaining"] == 1
    some[2].values["stored"] = 4
    records[SEGMENTS[0]].subscriptions["a"].durable = False
    assert sum_balances(some, records.__getitem__)[1].values["remaining"] == 1


def test_classic_topics_are_unchanged():
    stats = {CLASSIC: {"msgInCounter": None, "subscriptions": {}, "unknown": {"msgInCounter": "why"}}}
    assert sum_figures(stats, lambda _: pytest.fail("not needed")) == stats


def consumer(name, permits, *, blocked=False):
    return {"consumerName": name, "availablePermits": permits, "blockedConsumerOnUnackedMsgs": blocked}


def test_sums_of_figures():
    def stats(messages, type_, *consumers):
        subscription = {"msgBacklog": 1, "type": type_, "consumers": list(consumers)}
        return {"msgInCounter": messages, "subscriptions": {"s": subscription}}

    found = sum_figures(
        {
            SEGMENTS[0]: stats(1, "Exclusive", consumer("c-seg-0", 5)),
            SEGMENTS[1]: stats(2, "None"),
            SEGMENTS[2]: stats(3, "Key_Shared", consumer("c-seg-2", 7, blocked=True), consumer("d-seg-0", 1)),
        },
        record_of(SEGMENTS),
    )
    assert found == {
        SCALABLE: {
            "msgInCounter": 6,
            "subscriptions": {
                "s": {
                    "msgBacklog": 3,
                    "type": "Exclusive, Key_Shared",
                    # the suffix of another segment is part of the application's name
                    "consumers": [consumer("c", 12, blocked=True), consumer("d-seg-0", 1)],
                }
            },
        }
    }


@pytest.mark.parametrize(
    ("capture", "sent"),
    [
        ("split-merge-under-load", 2214),  # its log: 9 messages were sent twice
        ("healthy", None),
        ("consumers-join-leave-crash", None),
        ("consumers-share-segment", None),
        ("transaction-across-segments", None),
    ],
)
def test_messages_are_those_of_the_applications(captures_5, capture, sent):
    tracker, path = Tracker(), captures_5 / f"{capture}.pcap"
    with path.open("rb") as file:
        observer = Observer()
        for item in read_capture([(path.name, file)]):
            if isinstance(item, CapturedFrame):
                tracker.see(observer.see(item))
    truth = json.loads((captures_5 / f"{capture}.json").read_text())
    topics, now = tracker.subscriptions.lifecycles.topics, tracker.capture.last_ns
    [total] = [
        one for one in sum_balances(balances(tracker.subscriptions, now), lambda one: topics[one].record)
        if not one.subscription
    ]  # fmt: skip
    wanted = sent or sum(one["sent_messages"] for one in truth["producers"])
    assert (total.values["sent"], total.values["stored"]) == (wanted, wanted)
    assert total.values["refused"] == total.values["unknown"] == 0
    assert list(sum_figures(figures(tracker.subscriptions, now), lambda one: topics[one].record)) == [total.topic]
