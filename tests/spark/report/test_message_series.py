"""Series and percentiles of SQL, compared with a loop over the rows of the tables."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.report.message_series import (
    CONSUMER,
    SUBSCRIPTION,
    TOPIC,
    backlogs,
    held,
    latency_rows,
    permits,
    rates,
    requests,
)
from pcli.spark.report.overview_sections import consumer_key
from pcli.spark.report.report_data import INTERVALS, Key, ReportData, open_report_data
from pcli.spark.report.selection import Selection
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables


def messages(data: ReportData) -> list[dict[str, Any]]:
    return [row for row in data.tables.read("messages").to_pylist() if not row["marker"]]


def keys(data: ReportData, names: str, source: str) -> list[Key]:
    return [tuple(row) for row in data.rows(f"SELECT DISTINCT {names} FROM {source}")]


def deliveries(data: ReportData) -> list[tuple[dict[str, Any], dict[str, Any], Key]]:
    return [
        (row, one, (row["cluster"], row["topic"] or "", one["subscription"] or ""))
        for row in messages(data)
        for one in row["deliveries"]
    ]


def test_rates_count_all_messages(data: ReportData) -> None:
    published: Counter[Key] = Counter()
    for row in messages(data):
        published[row["cluster"], row["topic"] or ""] += row["producer"]["messages"]
    delivered: Counter[Key] = Counter()
    acked: Counter[Key] = Counter()
    for _, one, key in deliveries(data):
        delivered[key] += max(1, one["messages"])
        acked[key] += max(1, one["messages"]) if one["acked_ns"] is not None else 0
    for kind, names, source, expected in (
        ("published", TOPIC, "entries", published),
        ("delivered", SUBSCRIPTION, "deliveries", delivered),
        ("acknowledged", SUBSCRIPTION, "deliveries", acked),
    ):
        found = rates(data, kind, names, keys(data, names, source))
        counts = {key: round(sum(value or 0 for value in curve) * data.clock.step) for key, curve in found.items()}
        assert counts == {key: expected[key] for key in counts}
        assert sum(counts.values()) > 10


def test_dispatch_is_timed_to_the_first_delivery_of_a_subscription(data: ReportData) -> None:
    first: dict[Key, list[int]] = defaultdict(list)
    for row in messages(data):
        came: dict[str | None, list[int]] = defaultdict(list)
        for one in row["deliveries"]:
            came[one["subscription"]].append(one["delivered_ns"] - row["producer"]["sent_ns"])
        for name, times in came.items():
            first[row["cluster"], row["topic"] or "", name or ""].append(min(times))
    found = latency_rows(data, "dispatch", SUBSCRIPTION, 100)
    assert {key: count for key, count, _ in found} == {key: len(times) for key, times in first.items()}
    for key, _, (median, _, _, longest) in found:
        times = sorted(first[key])
        assert longest == max(times) / 1e6
        assert median == pytest.approx(times[len(times) // 2] / 1e6, rel=0.2)


def test_ack_latencies_belong_to_one_subscription(data: ReportData) -> None:
    took: dict[Key, list[int]] = defaultdict(list)
    for _, one, key in deliveries(data):
        if one["acked_ns"] is not None:
            took[key].append(one["acked_ns"] - one["delivered_ns"])
    assert took
    found = {key: (count, values[-1]) for key, count, values in latency_rows(data, "ack", SUBSCRIPTION, 100)}
    assert found == {key: (len(times), max(times) / 1e6) for key, times in took.items()}


def test_held_messages_at_the_end_are_those_without_an_ack_and_a_later_consumer(data: ReportData) -> None:
    left: Counter[Key] = Counter()
    for row in messages(data):
        for place, one in enumerate(row["deliveries"]):
            later = {other["subscription"] for other in row["deliveries"][place + 1 :]}
            if one["acked_ns"] is None and one["subscription"] not in later:
                key = (row["cluster"], row["topic"] or "", one["subscription"] or "", one["consumer"] or "")
                left[*key, one["connection"], one["consumer_id"]] += max(1, one["messages"])
    found = held(data, CONSUMER, keys(data, CONSUMER, "deliveries"))
    assert {key: curve[-1] for key, curve in found.items()} == {key: left[key] for key in found}
    assert max(value or 0 for curve in found.values() for value in curve) > 0


def test_a_backlog_ends_with_the_figure_of_the_subscription_and_is_never_negative(data: ReportData) -> None:
    rows = [row for row in data.objects("subscriptions") if row["msg_backlog"] is not None]
    ends = {(row["cluster"], row["topic"], row["subscription"]): row["msg_backlog"] for row in rows}
    assert ends
    for key, curve in backlogs(data, ends).items():
        assert curve[-1] == ends[key]
        assert all(value is not None and value >= 0 for value in curve)
        assert max(value or 0 for value in curve) > 0


@pytest.mark.parametrize("part", [4, 7, 37, 119])
def test_series_of_a_range_have_the_values_of_the_whole_recording(
    data: ReportData, stored: StoredTables, part: int
) -> None:
    """Entries that are stored and acknowledged after the range, and deliveries before it, count."""
    rows = [row for row in data.objects("subscriptions") if row["msg_backlog"] is not None]
    ends = {(row["cluster"], row["topic"], row["subscription"]): row["msg_backlog"] for row in rows}
    [key, *_] = ends
    span = round(data.clock.seconds * 1e9)
    border = data.clock.first_ns - (-part * span // INTERVALS)  # the first nanosecond of an interval
    with open_report_data(stored, Selection(until_ns=border)) as before:
        assert backlogs(before, ends)[key][-1] == backlogs(data, ends)[key][part - 1]
        assert held(before, SUBSCRIPTION, [key])[key][-1] == held(data, SUBSCRIPTION, [key])[key][part - 1]
    with open_report_data(stored, Selection(since_ns=border)) as after:
        assert backlogs(after, ends)[key][-1] == ends[key]
        assert held(after, SUBSCRIPTION, [key])[key][-1] == held(data, SUBSCRIPTION, [key])[key][-1]


def test_permits_end_with_the_balance_of_the_last_second(data: ReportData) -> None:
    [*consumers] = filter(lambda row: row["flows"], data.objects("consumers"))
    rows = sorted(data.tables.read("permits").to_pylist(), key=lambda row: row["last_frame"])
    last = {(row["cluster"], row["connection"], row["consumer_id"]): row["balance"] for row in rows}
    found = permits(data, [consumer_key(row) for row in consumers])
    assert found
    for key, (balance, lowest) in found.items():
        assert balance[-1] == last[key[0], key[4], key[5]]
        assert all(one is None or other is None or other <= one for one, other in zip(balance, lowest))


def test_requests_of_a_connection(data: ReportData) -> None:
    asked = Counter(
        (row["cluster"], row["connection"]) for row in data.tables.read("exchanges").to_pylist() if not row["system"]
    )
    found = requests(data, list(asked))
    counts = {key: round(sum(one or 0 for one in curve["requests"]) * data.clock.step) for key, curve in found.items()}
    assert counts == dict(asked)


def test_messages_of_unknown_topics_have_no_percentiles(stored: StoredTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topics may be different ones."""
    table = stored.read("messages")
    table = table.set_column(table.schema.get_field_index("topic"), "topic", pa.nulls(len(table), pa.string()))
    original = StoredTables.dataset
    monkeypatch.setattr(
        StoredTables, "dataset", lambda self, name: ds.dataset(table) if name == "messages" else original(self, name)
    )
    with open_report_data(stored) as unnamed:
        assert unnamed.rows("SELECT count(*) FROM entries WHERE topic = ''") == [(len(messages(unnamed)),)]
        assert latency_rows(unnamed, "publish", TOPIC, 10) == latency_rows(unnamed, "ack", SUBSCRIPTION, 10) == []


def test_a_percentile_belongs_to_one_cluster(captures: Path, tmp_path: Path) -> None:
    """The same topic exists in two clusters."""
    for name in ("east", "west"):
        (tmp_path / name).mkdir()
        shutil.copy(captures / "python" / "10-shared-redelivery.pcap", tmp_path / name)
    out = str(tmp_path / "out")
    paths = (f"{tmp_path}/east", f"{tmp_path}/west")
    analyze(Request(paths, out, cluster=f"{tmp_path}/{{cluster}}/*"), InProcess())
    with open_report_data(StoredTables(out)) as both:
        rows = latency_rows(both, "publish", TOPIC, 10)
        assert [key[0] for key, _, _ in rows] == ["east", "west"]
        assert rows[0][1:] == rows[1][1:]
        assert sum(count for _, count, _ in rows) == len(messages(both))
