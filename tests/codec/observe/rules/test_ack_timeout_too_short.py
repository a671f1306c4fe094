"""Rule ack-timeout-too-short: REDELIVER after one second, ACK after two."""

import pytest


@pytest.fixture
def hasty(consumer, subscription, counted, ns):
    def make(again="ack_timeout", **fields):
        of = subscription(type="Shared", again={again: counted(3, 40)})
        usual = {"hold_ages": [ns(1), ns(1.1), ns(1.05)], "asked_again": counted(3, 35), "ack_ages": counted(4)}
        return consumer(of=of, **{**usual, "ack_age_max_ns": ns(2), **fields})

    return make


def test_processing_exceeds_the_timeout(evaluate, hasty):
    [found] = evaluate("ack-timeout-too-short", hasty())
    assert (found.severity, found.culprit, found.certainty) == ("warning", "application", "likely")
    assert found.frames == [35, 40]
    assert "after at most 1.0 s" in found.what
    assert "up to 2.0 s" in found.what


def test_messages_without_acks(evaluate, hasty, ns):
    assert evaluate("ack-timeout-too-short", hasty(ack_age_max_ns=ns(0.3))) == []


def test_both_deliveries_are_acknowledged(evaluate, hasty, ns, counted):
    [found] = evaluate("ack-timeout-too-short", hasty(ack_age_max_ns=ns(0.3), acked_twice=counted(2, 50, 51)))
    assert found.frames == [35, 40, 50, 51]
    assert "acknowledges both deliveries of 2 redelivered entries" in found.what


def test_rejected_messages(evaluate, hasty):
    assert evaluate("ack-timeout-too-short", hasty(again="nack")) == []


@pytest.mark.parametrize(("again", "nacks", "count"), [("requested", 3, 0), ("requested", 2, 1), ("ack_timeout", 3, 1)])
def test_requests_among_rejections_are_rejections(evaluate, hasty, counted, again, nacks, count):
    """Three requests can have been sent because of a timeout."""
    consumer = hasty(again=again)
    consumer.subscription.again["nack"] = counted(nacks, 60)
    assert len(evaluate("ack-timeout-too-short", consumer)) == count
