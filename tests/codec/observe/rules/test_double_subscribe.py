"""SUBSCRIBE, SUCCESS, SUBSCRIBE with the same id."""


def test_twice(look, consumer, tallied):
    [found] = look("double-subscribe", consumer(double_subscribe=tallied(1, 9)))
    assert (found.severity, found.culprit, found.sure, found.frames) == ("warning", "client", "certain", [9])


def test_the_close_may_be_in_a_hole(look, consumer, tallied):
    [found] = look("double-subscribe", consumer(double_subscribe=tallied(1, 9), doubts={"gap"}))
    assert found.sure == "possible"


def test_once(look, consumer):
    assert look("double-subscribe", consumer()) == []
