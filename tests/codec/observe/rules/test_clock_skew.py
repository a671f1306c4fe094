"""Rule clock-skew: publish_time compared with the capture's clock, in milliseconds."""

import pytest


def test_ahead(evaluate, producer, counted):
    [found] = evaluate("clock-skew", producer(clock_skew_ms=(-90_000, -89_000, -89_500), skewed=counted(9, 20)))
    assert (found.variant, found.severity, found.culprit, found.cause_certainty) == (
        "ahead",
        "warning",
        "application",
        "likely",
    )
    assert "90.0 s ahead" in found.what


def test_behind(evaluate, producer, counted):
    [found] = evaluate("clock-skew", producer(clock_skew_ms=(15_000, 15_200, 15_000), skewed=counted(9, 20)))
    assert (found.variant, found.severity) == ("behind", "note")


@pytest.mark.parametrize(
    "skew",
    [
        pytest.param((-2, 5, 3), id="packets in another order"),
        pytest.param((0, 103_000, 16_000), id="some have waited in the client"),
        pytest.param((16_000, 103_000, 16_000), id="all have"),
    ],
)
def test_no_skew(evaluate, producer, counted, skew):
    assert evaluate("clock-skew", producer(clock_skew_ms=skew, skewed=counted(9, 20))) == []


def test_all_other_producers_differ_in_the_same_way(evaluate, producer, counted):
    one = producer(clock_skew_ms=(-5_000, -5_000, -5_000), skewed=counted(9, 20))
    other = producer("other", clock_skew_ms=(-4_900, -4_000, -4_000))
    other.session.stream = 1
    one.topic_record.producers["other"] = other
    [found] = evaluate("clock-skew", one)
    assert (found.culprit, found.cause_certainty) == ("capture", "possible")
    other.clock_skew_ms = (0, 3, 1)
    [found] = evaluate("clock-skew", one)
    assert (found.culprit, found.cause_certainty) == ("application", "likely")
    assert "0 of 1 other producers" in found.opposite


@pytest.mark.parametrize(("ahead", "causes"), [(0, set()), (3_000, {"ahead"}), (-20_000, {"behind"}), (-9_000, set())])
def test_a_client_with_a_custom_clock(make_scene, diagnose, ahead, causes):
    scene = make_scene()
    client = scene.actor()
    client.producer()
    for number in range(8):
        client.publish(number, publish_time=scene.now + ahead)
        scene.wait(130)
    assert {one.variant for one in diagnose(scene, ("clock-skew",)).findings()} == causes


@pytest.mark.parametrize("name", ["python/26a-broker-restart", "java/delayed", "java/batching"])
def test_queues_and_batches(diagnosed, name):
    assert diagnosed(name, "clock-skew") == []
