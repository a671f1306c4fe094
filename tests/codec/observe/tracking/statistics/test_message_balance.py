"""Message balances: in scenes, and in captures, compared with the broker's statistics and the applications' logs."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from pcli.codec.capture import Note
from pcli.codec.observe.tracking.statistics.message_balance import Balance, balances
from pcli.codec.proto import pb
from tests.codec.observe.tracking.statistics.test_broker_statistics import SHORT, names, of_the_broker, tracked

TOPIC = "persistent://public/default/t"
MEMORY = "non-persistent://public/default/t"

UNANSWERED = {"java/access-modes": 1, "python/23b-access-modes": 1, "python/36b-ends-mid-record": 1}
"""Messages without a response: of fenced producers, and at the end of a truncated capture."""


def of(play: Any) -> list[Balance]:
    return balances(play.tracker.subscriptions, play.now * 1_000_000)


def shown(play: Any) -> dict[str, dict[str, int]]:
    """Return the values that are not 0 by subscription; the name of the topic's balance is empty."""
    return {one.subscription: {name: value for name, value in one.values.items() if value} for one in of(play)}


def subscribed(play: Any, topic: str = TOPIC, kind: str = "Exclusive", **fields: Any) -> Any:
    client = play.actor()
    client.subscribe(topic, kind=kind, initialPosition=pb.CommandSubscribe.Earliest, **fields)
    client.flow(100)
    return client


def test_batches_redeliveries_and_acknowledgements(make_scene: Any) -> None:
    play = make_scene()
    source = play.actor()
    source.producer()
    source.publish(0)
    sink = subscribed(play, kind="Shared")
    source.publish(1, batch=5)
    source.publish(6, batch=3)
    sink.redeliver(sink.messages[1].message_id)
    play.wait(1_000)
    sink.ack(sink.messages[0].message_id, sink.messages[1].message_id)
    assert shown(play) == {
        "": {"sent": 9, "stored": 9},
        "s": {"stored": 9, "delivered": 9, "redelivered": 5, "acknowledged": 6, "remaining": 3},
    }


def test_packets_that_were_not_decoded_make_all_values_unknown(make_scene: Any) -> None:
    play = make_scene()
    source = play.actor()
    source.producer()
    subscribed(play)
    source.publish(0)
    play.tracker.note(Note("unread", "3 packets not decoded", 99, source="a.pcap"))
    for one in of(play):
        assert set(one.values.values()) == {None}
        assert set(one.reasons.values()) == {"packets of the capture were not decoded"}


def test_a_partly_acknowledged_batch(make_scene: Any) -> None:
    play = make_scene(acknowledgmentAtBatchIndexLevelEnabled=True)
    source, sink = play.actor(), subscribed(play, kind="Shared")
    source.producer()
    source.publish(0, batch=5)
    at = sink.messages[0].message_id
    at.ack_set.append(0b11000)
    sink.ack(at)
    assert shown(play)["s"] == {"stored": 5, "delivered": 5, "acknowledged": 3, "remaining": 2}


def test_a_resend_is_stored_twice(make_scene: Any) -> None:
    play = make_scene()
    play.fault("drop after=1 times=1 on pulsar.type == 'SEND_RECEIPT'")
    sink, source = subscribed(play), play.actor()
    source.producer()
    published = play.now
    source.publish(0)
    source.publish(1)
    source.cut(reset=True)
    play.wait(50)
    source = play.actor()
    source.producer()
    source.publish(1, publish_time=published)
    assert len(sink.messages) == 3
    assert shown(play) == {
        "": {"sent": 2, "stored": 3, "stored_twice": 1},
        "s": {"stored": 3, "delivered": 3, "remaining": 3},
    }


@pytest.mark.parametrize("late", [True, False], ids=["delivered after the resend", "delivered before the resend"])
def test_a_lost_receipt_of_a_delivered_message(make_scene: Any, late: bool) -> None:
    """The capture is taken at the client, which never received the receipt."""
    play = make_scene()
    play.fault("drop times=1 on pulsar.type == 'SEND_RECEIPT'")
    source, sink = play.actor(), play.actor()
    sink.subscribe()
    if not late:
        sink.flow(100)
    source.producer()
    published = play.now
    source.publish(0, batch=3)
    source.cut(reset=True)
    play.wait(50)
    source = play.actor()
    source.producer()
    source.publish(0, batch=3, publish_time=published)
    if late:
        sink.flow(100)
    assert len(sink.messages) == 2
    assert shown(play)[""] == {"sent": 3, "stored": 6, "stored_twice": 3}
    assert shown(play)["s"] == {"stored": 6, "delivered": 6, "remaining": 6}
    [record] = [one for group, one in play.tracker.records() if group == "producer"]
    assert (record.duplicates_delivered.count, record.duplicates_delivered.sample) == (3, "0:0 and 0:1")


def test_a_refused_message(make_scene: Any) -> None:
    play = make_scene()
    play.fault("error times=1 error=PersistenceError on pulsar.type == 'SEND'")
    source = play.actor()
    source.producer()
    source.publish(0)
    source.publish(1)
    assert shown(play) == {"": {"sent": 2, "refused": 1, "stored": 1}}


def test_deduplication(make_scene: Any) -> None:
    play = make_scene(brokerDeduplicationEnabled=True)
    source = play.actor()
    source.producer()
    source.publish(0)
    source.publish(1)
    play.wait(50)
    source.publish(1)
    assert shown(play) == {"": {"sent": 3, "deduplicated": 1, "stored": 2}}


def test_a_removed_subscription(make_scene: Any) -> None:
    play = make_scene()
    source, sink = play.actor(), subscribed(play)
    source.producer()
    for number in range(4):
        source.publish(number)
    sink.ack(sink.messages[0].message_id)
    sink(pb.CommandUnsubscribe(consumer_id=1, request_id=7))
    source.publish(4)
    assert shown(play)["s"] == {"stored": 4, "delivered": 4, "acknowledged": 1, "removed": 3}


def test_messages_of_a_non_persistent_topic_are_dropped(make_scene: Any) -> None:
    play = make_scene()
    source, sink = play.actor(), play.actor()
    sink.subscribe(MEMORY)
    sink.flow(2)
    source.producer(MEMORY)
    for number in range(5):
        source.publish(number)
    assert shown(play)["s"] == {"stored": 5, "delivered": 2, "dropped": 3}


def cleared(make_scene: Any) -> tuple[Any, Any, Any]:
    """A subscription whose backlog of 4 batches is cleared while its consumer has no permits."""
    play = make_scene()
    source, sink = play.actor(), play.actor()
    sink.subscribe()
    sink.flow(1)
    source.producer()
    for number in range(5):
        source.publish(2 * number, batch=2)
    play.broker.topics[TOPIC].subscriptions["s"].skip_all()
    sink.flow(100)
    return play, source, sink


def test_messages_that_an_administrator_may_have_cleared(make_scene: Any) -> None:
    """No frame shows it: a consumer with permits receives nothing."""
    play, _, sink = cleared(make_scene)
    play.wait(5_000)
    [_, balance] = of(play)
    assert len(sink.messages) == 1
    assert (balance.values["delivered"], balance.values["remaining"], balance.values["unknown"]) == (2, None, 8)
    assert "cleared" in balance.reasons["remaining"]


def test_messages_that_were_passed_over(make_scene: Any) -> None:
    """A later message shows that the earlier messages were skipped."""
    play, source, sink = cleared(make_scene)
    source.publish(20)
    assert len(sink.messages) == 2
    assert shown(play)["s"] == {"stored": 11, "delivered": 3, "skipped": 8, "remaining": 3}
    [record] = [one for group, one in play.tracker.records() if group == "subscription"]
    assert (record.passed_over.count, record.passed_over.sample) == (8, "0:1")


@pytest.mark.parametrize("commit", [True, False])
def test_transactions(producing: Any, commit: bool) -> None:
    producing.opens()
    body = pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Exclusive)
    body.consumer_id = body.request_id = 5
    producing.client(body)
    producing.broker(pb.CommandSuccess(request_id=5))
    producing.sends(0, txn=(0, 7), messages=3)
    producing.receipt(0)
    tracker = producing.tracker.subscriptions
    assert topic_counts(tracker).available == 0
    action = pb.COMMIT if commit else pb.ABORT
    end = pb.CommandEndTxn(request_id=9, txnid_most_bits=0, txnid_least_bits=7, txn_action=action)
    producing.client(end)
    producing.broker(pb.CommandEndTxnResponse(request_id=9, txnid_most_bits=0, txnid_least_bits=7))
    [topic, _] = balances(tracker, producing.conversation.now)
    assert (topic.values["stored"], topic.values["aborted"]) == (3, 0 if commit else 3)
    assert topic_counts(tracker).available == (3 if commit else 0)


def topic_counts(tracker: Any) -> Any:
    return tracker.lifecycles.topics[TOPIC].record.messages


def received(truth: Any) -> dict[tuple[str, str], Counter[str]]:
    """Return the messages that the applications received by topic and subscription, with their number of deliveries."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for event in truth["events"]:
        if event["type"] == "received" and event.get("subscription") and event.get("message_id"):
            found[event["topic"], event["subscription"]][event["message_id"]] += 1
    return found


def test_every_balance_adds_up(corpus: Any) -> None:
    known = unknown = 0
    for name in names(corpus):
        truth = corpus.truth(name)
        at = int(truth["capture"]["stats_at"] * 1e9)
        tracker, _ = tracked(corpus, name, at)
        for one in balances(tracker.subscriptions, at):
            values, place = one.values, f"{name} {one.topic} {one.subscription}"
            if None in values.values():
                assert one.reasons, place
                unknown += 1
                continue
            known += 1
            numbers = {word: value for word, value in values.items() if value is not None}
            assert min(numbers.values()) >= 0, place
            if not one.subscription:
                assert numbers["unknown"] == UNANSWERED.get(name, 0), place
                continue
            assert numbers["skipped"] == numbers["unknown"] == 0, place
            assert numbers["stored"] == sum(
                numbers[word] for word in ("acknowledged", "dropped", "removed", "remaining")
            ), place
    assert known >= 200
    assert unknown <= 30


def test_balances_equal_the_statistics_of_the_broker(corpus: Any) -> None:
    equal = 0
    for name in names(corpus):
        truth = corpus.truth(name)
        at = int(truth["capture"]["stats_at"] * 1e9)
        tracker, _ = tracked(corpus, name, at)
        found = {(one.topic, one.subscription): one.values for one in balances(tracker.subscriptions, at)}
        for topic, true in of_the_broker(truth["stats"]) if name not in SHORT else ():
            state = tracker.subscriptions.lifecycles.topics.get(topic)
            if state is None or state.base or None in found[topic, ""].values():
                continue
            values = found[topic, ""]
            if any(one.sent_entries > one.sent for one in state.record.producers.values()):
                continue  # the broker counts resends and chunks
            assert true["msgInCounter"] == sum(values[word] for word in ("stored", "refused", "deduplicated")), name
            for subscription, other in true["subscriptions"].items():
                mine = found[topic, subscription]
                if None in (mine["remaining"], mine["acknowledged"]) or state.subscriptions[subscription].base:
                    continue
                equal += 1
                assert mine["delivered"] + mine["redelivered"] <= other["msgOutCounter"], (name, subscription)
                assert mine["remaining"] >= other["unackedMessages"], (name, subscription)
                assert (mine["remaining"] > 0) >= (other["unackedMessages"] > 0), (name, subscription)
    assert equal >= 100


def test_balances_equal_the_logs_of_the_applications(corpus: Any) -> None:
    for name in sorted(set(names(corpus)).difference(SHORT)):
        truth = corpus.truth(name)
        tracker, _ = tracked(corpus, name, 1 << 62)
        found = {(one.topic, one.subscription): one.values for one in balances(tracker.subscriptions, 1 << 62)}
        for place, messages in received(truth).items():
            values = found.get(place)
            if values is not None and values["delivered"] is not None:
                assert values["delivered"] >= len(messages), (name, place)
