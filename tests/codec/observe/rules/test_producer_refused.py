"""Rule producer-refused: PRODUCER and ERROR, SEND and SEND_ERROR."""

import pytest


@pytest.mark.parametrize(("error", "culprit"), [("ProducerBusy", "application"), ("ServiceNotReady", "broker")])
def test_a_producer(evaluate, producer, counted, error, culprit):
    [found] = evaluate("producer-refused", producer(refused={error: counted(2, 20, 21, sample="taken")}))
    assert (found.severity, found.culprit, found.certainty, found.variant) == ("error", culprit, "certain", error)
    assert found.frames == [20, 21]


def test_it_succeeded_later(evaluate, producer, counted):
    [found] = evaluate("producer-refused", producer(refused={"ServiceNotReady": counted(1, 2, first=0.5)}))
    assert (found.severity, "frame 6" in found.opposite) == ("note", True)


def test_a_segment_was_split(evaluate, producer, counted):
    one = producer(refused={"TopicTerminatedError": counted(1, 20, 21)})
    [terminated] = evaluate("producer-refused", one)
    one.topic = "segment://public/default/orders/0000-5554-0"
    [split] = evaluate("producer-refused", one)
    assert (terminated.severity, terminated.culprit) == ("error", "application")
    assert (split.severity, split.culprit) == ("note", "broker")


def test_messages(evaluate, producer, counted):
    one = producer(send_errors={"PersistenceError": counted(2, 20, 21)})
    [found] = evaluate("producer-refused", one)
    assert (found.severity, found.culprit, found.variant) == ("error", "broker", "send-PersistenceError")
    one.resent = counted(2, 20, 30)
    [found] = evaluate("producer-refused", one)
    assert found.severity == "note"
    one.lost = counted(1, 20)
    [found] = evaluate("producer-refused", one)
    assert found.severity == "error"


def test_schema_errors_have_a_separate_rule(evaluate, producer, counted):
    assert evaluate("producer-refused", producer(refused={"IncompatibleSchema": counted(1, 2)})) == []


@pytest.mark.parametrize(("name", "causes"), [
    ("java/access-modes", {"ProducerFenced", "ProducerBusy"}),
    ("java/limits", {"ProducerBusy"}),
    ("java/size-limits", {"send-NotAllowedError"}),
    ("java/terminate", {"TopicTerminatedError"}),
    ("flex/04-reconnect", {"send-PersistenceError"}),
    ("python/26b-terminate-unload-quota", {"TopicTerminatedError", "ProducerBlockedQuotaExceededException"}),
    ("python/26a-broker-restart", set()),  # all messages were resent
    ("java/unload", set()),
])  # fmt: skip
def test_captures(diagnosed, name, causes):
    assert {one.variant for one in diagnosed(name, "producer-refused") if one.severity != "note"} == causes
