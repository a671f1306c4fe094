"""Rule receipts-unexpected: receipts without a pending SEND."""

import pytest


def test_a_receipt_without_a_send(evaluate, producer, counted):
    [found] = evaluate("receipts-unexpected", producer(unexpected=counted(2, 8, 9, sample="4")))
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("warning", "broker", "certain", [8, 9])


@pytest.mark.parametrize("doubt", ["start", "gap", "cut", "weak_sync"])
def test_sends_may_not_be_captured(evaluate, producer, counted, doubt):
    assert evaluate("receipts-unexpected", producer(unexpected=counted(2, 8, 9), doubts={doubt})) == []


@pytest.mark.parametrize(("fault", "count"), [
    ("duplicate after=3 times=1 on pulsar.type == 'SEND_RECEIPT'", 1),
    ("duplicate times=1 on pulsar.type == 'PRODUCER_SUCCESS'", 0),
])  # fmt: skip
def test_a_duplicated_receipt(make_scene, diagnose, fault, count):
    scene = make_scene()
    scene.fault(fault)
    client = scene.actor()
    client.producer()
    for number in range(6):
        client.publish(number)
        scene.wait(100)
    assert len(diagnose(scene, ("receipts-unexpected",)).findings()) == count


def test_reordered_packets(diagnosed):
    assert diagnosed("python/38-repeated-reordered", "receipts-unexpected") == []
