"""Rule duplicated-by-restart: a killed producer starts again and sends stored messages again."""

import pytest


@pytest.mark.parametrize(
    ("end", "culprit"), [("fin_client", "application"), ("silence", "application"), ("reset_broker", "broker")]
)
def test_twice(evaluate, producer, counted, end, culprit):
    one = producer(restart_duplicates=counted(10, 8, 20, 21, sample="7:0 and 7:9"), restart_of="web")
    one.restart_end = (end, 44)
    [found] = evaluate("duplicated-by-restart", one)
    assert (found.variant, found.severity, found.culprit, found.certainty) == ("twice", "error", culprit, "likely")
    assert found.what.startswith("The broker stored 10 messages of producer web on orders twice")
    assert "after the earlier producer had ended without CLOSE_PRODUCER (frame 44), first 7:0 and 7:9" in found.what


def test_blind(evaluate, producer, counted):
    one = producer(restart_duplicates_blind=counted(2, 8, 20), restart_of="old")
    [found] = evaluate("duplicated-by-restart", one)
    assert (found.variant, found.severity, found.certainty) == ("blind", "note", "possible")
    assert "the earlier producer old had ended" in found.what


def test_a_gap_reduces_the_certainty(evaluate, producer, counted):
    [found] = evaluate("duplicated-by-restart", producer(restart_duplicates=counted(2, 8), doubts={"gap"}))
    assert found.certainty == "possible"


def sends(scene, payloads):
    """Start a producer that sends these payloads, and kill it."""
    client = scene.actor()
    client.producer()
    for number, payload in enumerate(payloads):
        client.publish(number, payload=payload)
    client.cut(reset=True)


@pytest.mark.parametrize(
    ("payloads", "found"),
    [([b"%d EUR" % number for number in range(9)], ["twice"]), ([b"alive"] * 9, [])],
    ids=["orders", "heartbeats"],
)
def test_content_that_repeats_on_purpose_is_not_reported(make_scene, diagnose, payloads, found):
    scene = make_scene()
    sends(scene, payloads)
    scene.wait(1_000)
    sends(scene, payloads[3:])
    findings = diagnose(scene, ("duplicated-by-restart",)).findings()
    assert [one.variant for one in findings] == found
