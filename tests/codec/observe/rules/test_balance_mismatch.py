"""Rule balance-mismatch: stored messages that a subscription never receives."""

import pytest


def test_messages_that_were_passed_over(evaluate, subscription, counted):
    work = subscription()
    work.passed_over = counted(8, 20, 31, sample="7:1")
    [found] = evaluate("balance-mismatch", work)
    assert (found.severity, found.culprit, found.certainty) == ("warning", "broker", "likely")
    assert found.what.startswith("8 messages were stored while subscription work on orders existed")
    assert "later messages were, first 7:1 (frames 20, 31)." in found.what
    assert "skipped, cleared or expired" in found.cause.alternatives[0]
    work.doubts.add("gap")
    assert evaluate("balance-mismatch", work) == []


@pytest.mark.parametrize("skipped", [True, False])
def test_a_backlog_that_is_cleared(make_scene, diagnose, skipped):
    """The near miss: the same messages are delivered after the consumer has sent permits."""
    play = make_scene()
    source, sink = play.actor(), play.actor()
    sink.subscribe()
    sink.flow(1)
    source.producer()
    for number in range(5):
        source.publish(number)
    if skipped:
        play.broker.topics["persistent://public/default/t"].subscriptions["s"].skip_all()
    sink.flow(100)
    source.publish(5)
    findings = diagnose(play, ("balance-mismatch",)).findings()
    assert [one.what[:10] for one in findings] == (["4 messages"] if skipped else [])
