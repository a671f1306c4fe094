"""Rule sequence-gap: skipped sequence ids, and ids that go back."""

import pytest


@pytest.mark.parametrize(("entries", "sure"), [(50, "likely"), (12, "possible")])
def test_skipped_ids(evaluate, producer, counted, entries, sure):
    [found] = evaluate("sequence-gap", producer(gaps=counted(1, 20, sample="7 to 8"), sent_entries=entries))
    assert (found.variant, found.culprit, found.cause_certainty, found.frames) == ("missing", "client", sure, [20])
    assert "application" in found.opposite


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"gaps": (9, "7 to 8")}, id="many: the application counts"),
        pytest.param({"gaps": (1, "110 to 4999999999")}, id="a step that no queue has"),
        pytest.param({"gaps": (1, "7 to 8"), "doubts": {"gap"}}, id="a hole in the capture"),
        pytest.param({"gaps": (1, "7 to 8"), "doubts": {"start"}, "ids_vague": True}, id="a batcher seen midway"),
    ],
)
def test_no_finding(evaluate, producer, counted, fields):
    count, sample = fields["gaps"]
    assert evaluate("sequence-gap", producer(**fields | {"gaps": counted(count, 20, sample=sample)})) == []


def test_ids_that_go_back(evaluate, producer, counted):
    one = producer(backwards=counted(3, 20, sample="1 after 7"))
    [found] = evaluate("sequence-gap", one)
    assert (found.variant, found.severity, found.cause_certainty) == ("backwards", "note", "possible")
    one.topic_record.deduplicates = True  # resend-refused then reports their fate
    assert evaluate("sequence-gap", one) == []


def test_a_client_that_starts_again(diagnosed):
    [found] = diagnosed("flex/04-reconnect", "sequence-gap")
    assert (found.variant, found.frames[0]) == ("backwards", 98)


def play(make_scene, diagnose, ids):
    scene = make_scene()
    client = scene.actor()
    client.producer()
    for number in ids:
        client.publish(number)
        scene.wait(10)
    client(*[])
    return diagnose(scene, ("sequence-gap",)).findings()


def test_a_message_that_was_numbered_and_not_sent(make_scene, diagnose):
    [found] = play(make_scene, diagnose, [*range(30), *range(33, 60)])
    assert (found.variant, found.cause_certainty) == ("missing", "likely")
    assert "30 to 32" in found.what


def test_an_application_with_offsets(make_scene, diagnose):
    assert play(make_scene, diagnose, range(1_000, 40_000, 1_300)) == []


@pytest.mark.parametrize("name", ["go/key-based-batcher", "java/key-shared-auto-split", "java/message-shapes"])
def test_key_based_batches_and_application_ids(diagnosed, name):
    assert diagnosed(name, "sequence-gap") == []
