"""Rule never-acked: MESSAGE without an ACK until the end."""

import pytest


@pytest.fixture
def keeps(consumer, counted, ns):
    def make(**fields):
        kept = {"never_acked": counted(3, 20, 21, 25, sample="7:3"), "never_acked_oldest_ns": ns(4)}
        return consumer(**{**kept, "ack_ages": counted(5), "ack_age_max_ns": ns(0.2), **fields})

    return make


def test_a_consumer_holds_three_messages(evaluate, keeps):
    [found] = evaluate("never-acked", keeps())
    assert (found.severity, found.culprit, found.certainty) == ("warning", "application", "likely")
    assert found.frames == [20, 21, 25]
    assert "holds 3 unacknowledged messages; the oldest (7:3) was delivered 6.0 s before the end" in found.what


def test_not_certain_while_the_consumer_is_attached(evaluate, keeps):
    assert evaluate("never-acked", keeps())[0].certainty == "likely"
    assert evaluate("never-acked", keeps(doubts={"end", "gap"}))[0].certainty == "possible"
    assert evaluate("never-acked", keeps(ended=9))[0].certainty == "certain"


def test_a_slow_consumer(evaluate, keeps, ns):
    [found] = evaluate("never-acked", keeps(ack_age_max_ns=ns(5.5)))
    assert found.severity == "note"


def test_recently_delivered_messages(evaluate, keeps, ns):
    assert evaluate("never-acked", keeps(never_acked_oldest_ns=ns(9.5))) == []


def test_the_subscription_was_removed(evaluate, keeps, subscription):
    [found] = evaluate("never-acked", keeps(of=subscription(backlog=3, gone=True), ended=9))
    assert (found.severity, found.certainty, found.variant) == ("note", "certain", "unsubscribed")
    assert found.frames == [99, 20, 21, 25]


def test_others_acknowledged_them_after_it_left(evaluate, keeps, subscription):
    assert evaluate("never-acked", keeps(of=subscription(backlog=0), ended=9)) == []


def test_others_hold_them_after_it_left(evaluate, keeps, consumer, subscription):
    of = subscription(backlog=3)
    left = keeps(of=of, ended=9)
    assert evaluate("never-acked", left) != []
    consumer("other", of, unacked=3)
    assert evaluate("never-acked", left) == []


def test_a_non_persistent_topic_needs_no_acks(evaluate, keeps, subscription):
    assert evaluate("never-acked", keeps(of=subscription(persistent=False))) == []


def test_a_reader_needs_no_acks(evaluate, keeps):
    assert evaluate("never-acked", keeps(durable=False)) == []


def test_one_without_subscribe_may_be_a_reader(evaluate, keeps, counted):
    assert evaluate("never-acked", keeps(topic="", ack_ages=counted(0))) == []
    assert evaluate("never-acked", keeps(topic="", doubts={"start"})) != []


def test_others_received_them_since(evaluate, keeps, consumer, ns):
    left = keeps(ended=9)
    consumer("other", left.subscription, last_message_ns=ns(9.5))
    assert evaluate("never-acked", left) == []
