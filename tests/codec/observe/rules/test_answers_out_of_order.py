"""Rule answers-out-of-order: a response before the response to the opening request."""


def test_the_close_is_answered_before_the_open(evaluate, connection, counted):
    [found] = evaluate("answers-out-of-order", connection(out_of_order=counted(1, 3, 4, 5)))
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("warning", "broker", "likely", [3, 4, 5])


def test_no_finding_with_gaps(evaluate, connection, counted):
    assert evaluate("answers-out-of-order", connection(out_of_order=counted(1, 3), doubts={"gap"})) == []


def test_in_order(evaluate, connection):
    assert evaluate("answers-out-of-order", connection()) == []
