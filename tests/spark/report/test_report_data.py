"""The range of time and the topics of a report."""

from __future__ import annotations

import pytest

from pcli.codec.errors import LocalError
from pcli.spark.report.report_data import INTERVALS, Clock, ReportData, open_report_data
from pcli.spark.report.selection import Selection
from pcli.spark.tables.stored_tables import StoredTables

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("option", "topic", "selected"),
    [
        ("orders", "persistent://public/default/orders", True),
        ("orders", "persistent://public/default/orders-partition-3", True),
        ("orders-partition-3", "persistent://public/default/orders-partition-2", False),
        ("orders", "persistent://public/default/orders-partition-", False),
        ("orders", "persistent://public/other/orders", False),
        ("public/other/orders", "persistent://public/other/orders", True),
        ("non-persistent://public/default/orders", "persistent://public/default/orders", False),
        ("orders", None, False),
    ],
)
def test_topics_are_selected_by_name(option: str, topic: str | None, selected: bool) -> None:
    assert Selection(topics=("other", option)).names_topic(topic) is selected
    assert Selection().names_topic(topic)


def test_a_range_begins_with_since_and_ends_before_until(data: ReportData, stored: StoredTables) -> None:
    first = data.clock.first_ns
    selection = Selection(first + SECOND, first + 2 * SECOND)
    with open_report_data(stored, selection) as part:
        assert (part.clock.first_ns, part.clock.last_ns) == (first + SECOND, first + 2 * SECOND - 1)
        sent = "SELECT sum(messages) FROM entries WHERE sent_ns BETWEEN ? AND ?"
        [(expected,)] = data.rows(sent, (first + SECOND, first + 2 * SECOND - 1))
        [counted] = part.curves("entries", "'all'", "sent_ns", {"sum": "sum(messages)"}, [("all",)]).values()
        assert sum(one or 0 for one in counted["sum"]) == (expected or 0)
        assert len(counted["sum"]) == INTERVALS


def test_times_have_a_date_if_the_axis_extends_over_several_days() -> None:
    first = 1_795_046_399_500_000_000  # half a second before midnight
    assert Clock(first, first + 400_000_000).text(first) == "23:59:59.500"
    assert Clock(first, first + SECOND).text(first) == "2026-11-18 23:59:59.500"


def test_a_problem_overlaps_a_range_if_it_continues_or_its_times_are_unknown() -> None:
    selection = Selection(10, 20)
    assert [selection.overlaps(*times) for times in ((5, None), (5, 10), (19, 30), (None, None))] == [True] * 4
    assert [selection.overlaps(*times) for times in ((5, 9), (20, None), (20, 30))] == [False] * 3


def test_a_range_without_packets_is_an_error(data: ReportData, stored: StoredTables) -> None:
    for selection in (Selection(since_ns=data.clock.last_ns + 1), Selection(until_ns=data.clock.first_ns)):
        with pytest.raises(LocalError, match="no packet"), open_report_data(stored, selection):
            pass


def test_a_topic_that_the_tables_lack_is_an_error(stored: StoredTables) -> None:
    with pytest.raises(LocalError, match="no topic"), open_report_data(stored, Selection(topics=("nowhere",))):
        pass
