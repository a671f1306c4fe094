"""Times as text, compared with a real broker."""

from __future__ import annotations

import pytest

from pcli.minibroker.timestamps import date_text, instant_text


@pytest.mark.parametrize(
    ("ms", "instant", "date"),
    [
        (1_795_273_317_358, "2026-11-21T15:01:57.358Z", "2026-11-21T15:01:57.358Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z", "2023-11-14T22:13:20.007Z"),
        (1_700_000_000_000, "2023-11-14T22:13:20Z", "2023-11-14T22:13:20.000Z"),
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_the_two_formats_of_a_time(ms, instant, date):
    assert (instant_text(ms), date_text(ms)) == (instant, date)
