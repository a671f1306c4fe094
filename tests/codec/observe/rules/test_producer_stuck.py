"""Rule producer-stuck: SENDs or a PRODUCER without responses."""

import pytest


def test_no_receipt_although_the_broker_sends_frames(evaluate, producer, ongoing, ns):
    one = producer(no_receipt=ongoing(2, 20), open_sends=7, oldest_open_frame=20, heard_ns=ns(12), heard_frame=80)
    [found] = evaluate("producer-stuck", one, now=14)
    assert (found.variant, found.severity, found.culprit, found.certainty) == (
        "no-receipt",
        "error",
        "broker",
        "certain",
    )
    assert found.frames == [20, 80]
    assert "7 SENDs" in found.what


def test_no_frames_at_all(evaluate, producer, ongoing):
    [found] = evaluate(
        "producer-stuck", producer(no_receipt=ongoing(2, 20), open_sends=1, oldest_open_frame=20), now=14
    )
    assert (found.culprit, found.cause_certainty) == ("broker", "likely")


def test_found_while_it_lasts(evaluate, producer, ongoing):
    one = producer(no_receipt=ongoing(2, 20), open_sends=1)
    assert evaluate("producer-stuck", one, now=11, over=False) == []
    assert len(evaluate("producer-stuck", one, now=13, over=False)) == 1


def test_receipts_may_be_in_a_gap(evaluate, producer, ongoing):
    [found] = evaluate("producer-stuck", producer(no_receipt=ongoing(2, 20), doubts={"gap"}), now=14)
    assert (found.culprit, found.cause_certainty) == ("capture", "possible")
    assert "missing from the capture" in found.opposite


def test_the_brokers_direction_is_not_in_the_capture(evaluate, producer, ongoing, counted):
    one = producer(no_receipt=ongoing(2, 20), lost=counted(3, 20), heard_ns=-1)
    assert evaluate("producer-stuck", one, now=60) == []


def test_receipts_arrive_in_the_end(evaluate, producer, finished):
    [found] = evaluate("producer-stuck", producer(no_receipt=finished(2, 15, 20, 90)), now=30)
    assert (found.variant, found.severity, found.frames) == ("slow", "warning", [20, 90])
    assert evaluate("producer-stuck", producer(no_receipt=finished(2, 11, 20, 90)), now=30) == []
    assert evaluate("producer-stuck", producer(no_receipt=finished(2, 15, 20, 90), doubts={"gap"}), now=30) == []


def test_a_wait_that_ended_with_the_session_had_no_response(evaluate, producer, finished):
    one = producer(no_receipt=finished(2, 15, 20, 91))
    one.session.end, one.session.ended_frame, one.session.ended_ns = "closed", 90, 15
    assert evaluate("producer-stuck", one, now=30) == []


def test_no_response_to_producer(evaluate, producer, finished):
    one = producer()
    one.session.ready_ns = -1
    [found] = evaluate("producer-stuck", one, now=12)
    assert (found.variant, found.culprit, found.frames) == ("not-opened", "broker", [5, 6])
    assert evaluate("producer-stuck", one, now=5) == []
    one.waiting = finished(1, 3, 6, 9)
    assert evaluate("producer-stuck", one, now=12) == []


@pytest.mark.parametrize(("now", "sure"), [(8, "possible"), (30, "likely")])
def test_the_connection_ended_before_the_receipts(evaluate, producer, counted, now, sure):
    one = producer(ended=5, lost=counted(2, 20, 21))
    [found] = evaluate("producer-stuck", one, now=now)
    assert (found.variant, found.cause_certainty, found.frames) == ("unanswered", sure, [20, 21, 99])
    one.doubts = {"cut"}
    assert evaluate("producer-stuck", one, now=now) == []


# -- conversations


@pytest.mark.parametrize(("fault", "expected"), [
    ("drop on pulsar.type == 'SEND_RECEIPT'", {"no-receipt"}),
    ("drop times=3 on pulsar.type == 'SEND_RECEIPT'", {"no-receipt"}),  # these receipts never arrive
    ("delay ms=2000 on pulsar.type == 'SEND_RECEIPT'", set()),
    ("drop on pulsar.type == 'PRODUCER_SUCCESS'", {"not-opened"}),
])  # fmt: skip
def test_a_broker_that_does_not_respond(make_scene, diagnose, fault, expected):
    scene = make_scene(keepAliveIntervalSeconds=5)
    scene.fault(fault)
    client = scene.actor()
    client.producer()
    for number in range(5):
        client.publish(number)
        scene.wait(1_000)
    scene.wait(15_000)
    found = diagnose(scene, ("producer-stuck",)).findings()
    assert {one.variant for one in found} == expected
    # The keep-alive shows that the broker is alive.
    assert all(one.culprit == "broker" for one in found)


@pytest.mark.parametrize(
    "name", ["python/23b-access-modes", "python/27-rate-limited", "java/limits", "python/37-packets-lost"]
)
def test_late_receipts_and_lost_ones(diagnosed, name):
    assert diagnosed(name, "producer-stuck") == []
