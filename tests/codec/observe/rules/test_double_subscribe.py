"""Rule double-subscribe: SUBSCRIBE, SUCCESS, SUBSCRIBE with the same id."""


def test_twice(evaluate, consumer, tallied):
    [found] = evaluate("double-subscribe", consumer(double_subscribe=tallied(1, 9)))
    assert (found.severity, found.culprit, found.sure, found.frames) == ("warning", "client", "certain", [9])


def test_the_close_may_be_in_a_hole(evaluate, consumer, tallied):
    [found] = evaluate("double-subscribe", consumer(double_subscribe=tallied(1, 9), doubts={"gap"}))
    assert found.sure == "possible"


def test_once(evaluate, consumer):
    assert evaluate("double-subscribe", consumer()) == []
