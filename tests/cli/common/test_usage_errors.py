"""Messages about wrong arguments."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dissect", "-c", "abc"], "Invalid value for '-c' / '--count': 'abc' is not a whole number."),
        (["stats", "io", "-I", "x"], "Invalid value for '-I' / '--interval': 'x' is not a number."),
        (["produce", "t", "--size", "0"], "0 is out of range: it must be at least 1 and at most 1073741824."),
        (["broker", "--port", "-1"], "-1 is out of range"),
        (["dissect", "-T", "xml"], "'xml' is not one of 'text', 'tree'"),
        (["decode", "a", "b", "c"], "Unexpected arguments: b c"),
    ],
)
def test_a_usage_error_has_no_wording_of_libraries(pcli, arguments, message):
    result = pcli(*arguments)
    assert result.code == 2
    assert message in result.err
    assert "valid int" not in result.err
    assert "x<=" not in result.err
