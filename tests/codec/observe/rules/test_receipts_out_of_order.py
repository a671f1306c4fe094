"""Rule receipts-out-of-order: SEND 7, SEND 8, receipt 8, receipt 7."""

import pytest


@pytest.mark.parametrize(("doubts", "resent", "sure"), [
    (set(), 0, "certain"), ({"gap"}, 0, "certain"), (set(), 2, "likely"), ({"weak_sync"}, 0, "possible"),
])  # fmt: skip
def test_receipts_in_another_order(evaluate, producer, counted, doubts, resent, sure):
    one = producer(out_of_order=counted(1, 3, 9, 8, sample="7"), resent=counted(resent), doubts=doubts)
    [found] = evaluate("receipts-out-of-order", one)
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("error", "broker", sure, [3, 9, 8])
    assert found.opposite


def test_a_missing_receipt(evaluate, producer, counted):
    one = producer(skipped=counted(1, 3, 8, sample="7"))
    [found] = evaluate("receipts-out-of-order", one)
    assert (found.variant, found.cause_certainty, found.frames) == ("missing", "likely", [3, 8])
    assert "sequence id 7 (frame 3)" in found.what
    one.doubts = {"gap"}
    assert evaluate("receipts-out-of-order", one) == []


def test_no_finding(evaluate, producer):
    assert evaluate("receipts-out-of-order", producer()) == []


@pytest.fixture
def talked(conversation, evaluate):
    """Pass frames (type, sequence id, …) to a tracker, and return the findings of the rule."""
    from pcli.codec.observe.tracking.tracker import Tracker
    from pcli.codec.proto import pb
    from pcli.codec.wire.hot import push_send, push_send_receipt

    def of(*said, rule="receipts-out-of-order"):
        tracker = Tracker()
        tracker.see(conversation.client(pb.CommandProducer(topic="t", producer_id=1, request_id=1, producer_name="p")))
        tracker.see(conversation.broker(pb.CommandProducerSuccess(request_id=1, producer_name="p")))
        for entry, (kind, number) in enumerate(said):
            if kind == ">>":
                tracker.see(conversation.client(push_send(1, number, 1, 0, b"\x0a\x01p\x10\x00\x18\x01", b"x")))
            else:
                tracker.see(conversation.broker(push_send_receipt(1, number, 7, entry, 0)))
        [record] = [one for group, one in tracker.records() if group == "producer"]
        return evaluate(rule, record)

    return of


def test_on_the_wire(talked):
    [found] = talked((">>", 7), (">>", 8), (">>", 9), ("<<", 8), ("<<", 7), ("<<", 9))
    assert found.frames == [3, 7, 6]


def test_near_misses(talked):
    assert talked((">>", 7), (">>", 8), ("<<", 7), ("<<", 8)) == []
    assert talked((">>", 7), (">>", 8), ("<<", 8)) == []  # the other receipt never arrives: producer-stuck
