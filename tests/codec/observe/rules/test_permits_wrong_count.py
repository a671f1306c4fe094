"""Rule permits-wrong-count: permits counted per batch."""


def test_a_batch_counts_as_one(evaluate, consumer):
    permits = {"delivered": 60, "flowed": 16, "flows": 6}
    [found] = evaluate("permits-wrong-count", consumer(permits=permits, received=60, received_entries=6, acked=60))
    assert (found.severity, found.culprit, found.variant) == ("error", "client", "batch-as-one")
    assert "60 messages in 6 entries" in found.what
    assert "6 permits" in found.what


def test_the_application_still_holds_messages(evaluate, consumer):
    permits = {"delivered": 60, "flowed": 16, "flows": 6}
    assert evaluate("permits-wrong-count", consumer(permits=permits, received=60, received_entries=6, acked=6)) == []


def test_single_messages(evaluate, consumer):
    permits = {"delivered": 60, "flowed": 65, "flows": 6}
    assert evaluate("permits-wrong-count", consumer(permits=permits, received=60, received_entries=60, acked=60)) == []


def test_more_permits_returned_than_used(evaluate, consumer, counted):
    permits = {"doubled": counted(1, 44), "surplus": 4, "delivered": 13, "flowed": 27, "flows": 3}
    [found] = evaluate("permits-wrong-count", consumer(permits=permits, received=20, received_entries=2))
    assert (found.severity, found.variant, found.frames) == ("warning", "too-many", [44])
    assert "4 messages more" in found.what


def test_more_messages_than_requested(evaluate, consumer):
    permits = {"lowest": -3, "lowest_frame": 40, "last_flow_frame": 30}
    [found] = evaluate("permits-wrong-count", consumer(permits=permits, received=13, received_entries=13))
    assert (found.severity, found.culprit, found.certainty, found.variant) == ("warning", "broker", "likely", "unasked")
    assert found.frames == [40, 30]
    assert "3 messages" in found.what


def test_a_batch_may_exceed_the_permits(evaluate, consumer):
    assert evaluate("permits-wrong-count", consumer(permits={"lowest": -3}, received=13, received_entries=4)) == []
