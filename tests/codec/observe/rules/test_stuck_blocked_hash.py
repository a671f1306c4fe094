"""Entries of a key that wait for the consumer that holds earlier ones."""


def test_they_wait_still(look, subscription, still):
    waits = subscription(hash_waits=still(4, 70), hash_holder="clerk-0 holds eu")
    [found] = look("stuck-blocked-hash", waits)
    assert (found.severity, found.culprit, found.sure) == ("warning", "application", "likely")
    assert found.frames == [70]
    assert "clerk-0 holds eu, unacknowledged" in found.what


def test_they_waited(look, subscription, past):
    [found] = look("stuck-blocked-hash", subscription(hash_waits=past(4, 6, 70, 90)))
    assert found.severity == "note"
    assert found.frames == [70, 90]
    assert "for 2.0 s" in found.what


def test_a_key_that_moves_waits_a_moment(look, subscription, past):
    assert look("stuck-blocked-hash", subscription(hash_waits=past(4, 4.5, 70, 90))) == []
    assert look("stuck-blocked-hash", subscription()) == []
