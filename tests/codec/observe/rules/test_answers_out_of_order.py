"""An answer that came before the one that opens."""


def test_closed_before_it_was_open(look, connection, tallied):
    [found] = look("answers-out-of-order", connection(out_of_order=tallied(1, 3, 4, 5)))
    assert (found.severity, found.culprit, found.sure, found.frames) == ("warning", "broker", "likely", [3, 4, 5])


def test_with_holes(look, connection, tallied):
    assert look("answers-out-of-order", connection(out_of_order=tallied(1, 3), doubts={"gap"})) == []


def test_in_order(look, connection):
    assert look("answers-out-of-order", connection()) == []
