"""Rule permits-leaked: used permits that the client does not return."""


def test_a_wrong_checksum_cost_a_batch(evaluate, consumer, counted):
    permits = {"corrupt": counted(8, 31), "corrupt_returned": 1, "delivered": 8, "flowed": 11, "flows": 2}
    [found] = evaluate("permits-leaked", consumer(permits=permits))
    assert (found.severity, found.culprit, found.certainty, found.variant) == (
        "warning",
        "client",
        "likely",
        "checksum",
    )
    assert found.frames == [31]
    assert "7 of its queue of 10 are lost" in found.what


def test_a_wrong_checksum_with_returned_permits(evaluate, consumer, counted):
    assert evaluate("permits-leaked", consumer(permits={"corrupt": counted(8, 31), "corrupt_returned": 8})) == []


def test_a_flow_with_too_few_permits(evaluate, consumer, counted):
    [found] = evaluate("permits-leaked", consumer(permits={"short": counted(3, 50, 60, 70, sample="7 of 10")}))
    assert (found.severity, found.culprit, found.certainty, found.variant) == ("warning", "client", "likely", "short")
    assert (
        "the permits for more than half of the queue had still not been returned, first 7 of 10 in frame 50"
        in found.what
    )
    assert found.frames == [50, 60, 70]


def test_a_flow_may_be_in_a_gap(evaluate, consumer, counted):
    [found] = evaluate("permits-leaked", consumer(permits={"short": counted(3, 50)}, doubts={"gap"}))
    assert found.certainty == "possible"


def test_a_client_that_counts_batches_as_one_is_not_reported(evaluate, consumer, counted):
    permits = {"delivered": 60, "flowed": 16, "flows": 6, "short": counted(3, 50)}
    assert evaluate("permits-leaked", consumer(permits=permits, received=60, received_entries=6, acked=60)) == []
