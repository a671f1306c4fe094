"""Values of --from."""

from __future__ import annotations

import time

import pytest

from pcli.cli.client.starting_position import starting_position
from pcli.codec.errors import LocalError
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId


def test_earliest_latest_and_ids() -> None:
    assert starting_position("earliest") is EARLIEST
    assert starting_position("Latest") is LATEST
    assert starting_position("5:3") == ClientMessageId(5, 3)
    assert starting_position("5:3:2:7") == ClientMessageId(5, 3, 2, 7)


def test_times() -> None:
    assert starting_position("1700000000123") == 1700000000123
    assert starting_position("2023-11-14T22:13:20Z") == 1700000000000
    assert starting_position("2023-11-14T23:13:20+01:00") == 1700000000000
    before = time.time() * 1000
    for text, seconds in (("-90s", 90), ("-10m", 600), ("-2h", 7200), ("-1d", 86400)):
        assert before - seconds * 1000 - 1 <= starting_position(text) <= time.time() * 1000 - seconds * 1000


@pytest.mark.parametrize("text", ["", "5:", "5:3:2:7:1", "yesterday", "-5", "2023-13-01", "10:00:00Z"])
def test_an_invalid_position_is_refused(text: str) -> None:
    with pytest.raises(LocalError, match="write earliest, latest, an id such as 5:0"):
        starting_position(text)
