"""Rule whole-batches-again: a partly processed batch is redelivered as a whole."""


def test_a_batch_redelivered_in_full(evaluate, consumer, counted):
    [found] = evaluate("whole-batches-again", consumer(whole_batches_again=counted(2, 40, 20, sample="7:3")))
    assert (found.severity, found.culprit, found.cause_certainty, found.frames) == (
        "note",
        "application",
        "likely",
        [40, 20],
    )
    assert "2 deliveries" in found.what


def test_no_finding(evaluate, consumer):
    assert evaluate("whole-batches-again", consumer()) == []
