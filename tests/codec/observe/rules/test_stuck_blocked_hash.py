"""Rule stuck-blocked-hash: entries of a key wait for the consumer that holds earlier ones."""


def test_a_current_wait(evaluate, subscription, ongoing):
    waits = subscription(hash_waits=ongoing(4, 70), hash_holder="clerk-0 holds eu")
    [found] = evaluate("stuck-blocked-hash", waits)
    assert (found.severity, found.culprit, found.certainty) == ("error", "application", "likely")
    assert found.frames == [70]
    assert "clerk-0 holds eu without acknowledging the messages" in found.what


def test_a_past_wait(evaluate, subscription, finished):
    [found] = evaluate("stuck-blocked-hash", subscription(hash_waits=finished(4, 6, 70, 90)))
    assert found.severity == "note"
    assert found.frames == [70, 90]
    assert "for 2.0 s" in found.what


def test_a_short_wait_is_not_reported(evaluate, subscription, finished):
    assert evaluate("stuck-blocked-hash", subscription(hash_waits=finished(4, 4.5, 70, 90))) == []
    assert evaluate("stuck-blocked-hash", subscription()) == []
