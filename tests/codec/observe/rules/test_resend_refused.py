"""Rule resend-refused: receipts of -1:-1."""

import pytest


def test_resends(evaluate, producer, counted):
    one = producer(resends_refused=counted(2, 20, 21))
    [found] = evaluate("resend-refused", one)
    assert (found.variant, found.severity, found.culprit, found.certainty) == ("resend", "note", "client", "certain")


@pytest.mark.parametrize(("doubts", "sure"), [(set(), "likely"), ({"start"}, "possible")])
def test_other_messages_with_used_ids(evaluate, producer, counted, doubts, sure):
    [found] = evaluate("resend-refused", producer(reuses_refused=counted(3, 20, sample="6"), doubts=doubts))
    assert (found.variant, found.severity, found.culprit, found.certainty) == ("reused", "error", "application", sure)
    assert "3 messages" in found.what


@pytest.mark.parametrize(("name", "producers"), [
    ("python/23-dedup", {"retrier": 9}), ("java/dedup", {"dedup-false": 5, "dedup-true": 8}),
])  # fmt: skip
def test_captures(diagnosed, name, producers):
    found = diagnosed(name, "resend-refused")
    assert {one.subject["producer"]: int(one.what.split()[3]) for one in found} == producers
    assert {one.variant for one in found} == {"reused"}


@pytest.fixture
def reconnect(make_scene, diagnose):
    """A client loses a receipt with its connection and resends. Return the findings on the broker's side."""

    def play(*, deduplicate, same=True):
        scene = make_scene("broker", brokerDeduplicationEnabled=deduplicate)
        first = scene.actor()
        first.producer()
        first.publish(0)
        published = scene.now
        first.publish(1)
        first.cut(reset=True)
        scene.wait(50)
        second = scene.actor()
        second.producer()
        second.publish(1, publish_time=published if same else scene.now)
        second.publish(2)
        rules = ("resend-refused", "resend-stored")
        return {(one.rule, one.variant) for one in diagnose(scene, rules).findings()}

    return play


@pytest.mark.parametrize(("deduplicate", "same", "expected"), [
    (True, True, {("resend-refused", "resend")}),
    (True, False, {("resend-refused", "reused")}),
    (False, True, {("resend-stored", "twice")}),
    (False, False, set()),
])  # fmt: skip
def test_a_reconnect(reconnect, deduplicate, same, expected):
    assert reconnect(deduplicate=deduplicate, same=same) == expected
