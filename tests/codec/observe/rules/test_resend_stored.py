"""Rule resend-stored: messages that are, or may be, stored twice."""

import pytest


@pytest.mark.parametrize(("end", "culprit"), [("broker", "broker"),
    ("fin_broker", "broker"), ("reset_client", "network"), ("keep_alive", "network"), ("fin_client", "network"),
])  # fmt: skip
def test_twice(evaluate, producer, counted, end, culprit):
    one = producer(duplicates_stored=counted(1, 8, 20, 21, sample="7:0 and 7:9"), ends={end: counted(1, 9)})
    [found] = evaluate("resend-stored", one)
    assert (found.variant, found.severity, found.culprit, found.certainty) == ("twice", "error", culprit, "certain")
    assert "7:0 and 7:9" in found.what


def test_blind(evaluate, producer, counted):
    one = producer(resent_blind=counted(2, 8, 20))
    [found] = evaluate("resend-stored", one)
    assert (found.variant, found.severity, found.certainty) == ("blind", "note", "possible")
    one.topic_record.deduplicates = True
    assert evaluate("resend-stored", one) == []


def test_the_first_copy_was_delivered_without_a_receipt(evaluate, producer, counted):
    one = producer(resent_blind=counted(5, 8, 20), duplicates_delivered=counted(2, 30, 31, sample="7:4 and 9:0"))
    delivered, blind = evaluate("resend-stored", one)
    assert (delivered.variant, delivered.severity, delivered.certainty, delivered.count) == (
        "delivered",
        "error",
        "certain",
        2,
    )
    assert "received no receipt and resent them, first 7:4 and 9:0 (frames 30, 31)" in delivered.what
    assert (blind.variant, blind.count) == ("blind", 3)
    one.resent_blind = counted(2, 8, 20)
    assert [found.variant for found in evaluate("resend-stored", one)] == ["delivered"]


def test_the_brokers_direction_is_not_in_the_capture(evaluate, producer, counted):
    assert evaluate("resend-stored", producer(resent_blind=counted(2, 8), heard_ns=-1)) == []


def play(make_scene, fault):
    """A client whose connection breaks before it has read the second receipt, or that receives an error."""
    scene = make_scene()
    scene.fault(fault)
    client = scene.actor()
    client.producer()
    published = scene.now
    client.publish(0)
    client.publish(1)
    client.cut(reset=True)
    scene.wait(50)
    client = scene.actor()
    client.producer()
    client.publish(1, publish_time=published)
    return scene


def test_a_receipt_that_never_reached_the_client(make_scene, diagnose):
    scene = play(make_scene, "drop after=1 times=1 on pulsar.type == 'SEND_RECEIPT'")
    [found] = diagnose(scene, ("resend-stored",)).findings()
    assert (found.variant, found.culprit) == ("blind", "network")


def test_an_error_shows_that_it_was_not_stored(make_scene, diagnose):
    scene = play(make_scene, "error after=1 times=1 error=PersistenceError on pulsar.type == 'SEND'")
    assert diagnose(scene, ("resend-stored",)).findings() == []


def test_a_broker_that_was_restarted(diagnosed):
    assert diagnosed("python/26a-broker-restart", "resend-stored") == []
