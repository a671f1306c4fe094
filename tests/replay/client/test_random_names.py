"""Random names."""

from pcli.replay.client.random_names import alphanumeric, hexadecimal


def test_all_characters_occur():
    assert alphanumeric(lambda: 0.0) == "aaaaa"
    assert alphanumeric(lambda: 0.9999) == "99999"
    assert hexadecimal(lambda: 0.9999) == "ffffffffff"
