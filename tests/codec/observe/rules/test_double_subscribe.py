"""Rule double-subscribe: SUBSCRIBE, SUCCESS, SUBSCRIBE with the same id."""


def test_two_subscribes(evaluate, consumer, counted):
    [found] = evaluate("double-subscribe", consumer(double_subscribe=counted(1, 9)))
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("warning", "client", "certain", [9])


def test_the_close_may_be_in_a_gap(evaluate, consumer, counted):
    [found] = evaluate("double-subscribe", consumer(double_subscribe=counted(1, 9), doubts={"gap"}))
    assert found.certainty == "possible"


def test_one_subscribe(evaluate, consumer):
    assert evaluate("double-subscribe", consumer()) == []
