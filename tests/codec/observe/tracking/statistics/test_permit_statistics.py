"""The permit ledger of a consumer as plain values, compared with the broker's permits."""

from __future__ import annotations

import io
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, Note, read_capture
from pcli.codec.observe import Observer
from pcli.codec.observe.tracking.statistics.permit_statistics import permit_figures
from pcli.codec.observe.tracking.tracker import Tracker

Row = dict[str, Any]


def ledgers(corpus: Any, name: str, until_ns: int) -> dict[str, Row]:
    """Return the broker's permits of attached consumers."""
    observer, tracker = Observer(), Tracker()
    for item in read_capture([(name, io.BytesIO(corpus.data(name)))]):
        if isinstance(item, CapturedFrame):
            if item.time_ns > until_ns:
                break
            tracker.see(observer.see(item))
        elif isinstance(item, Note):
            tracker.note(item)
    records = tracker.records(until_ns)
    consumers = [record for group, record in records if group == "consumer" and not record.system]
    rows = {one.name: permit_figures(one, until_ns) for one in consumers}
    return {name: row for name, row in rows.items() if row["attached"]}


@pytest.mark.parametrize(
    "name",
    ["java/permits", "java/batch-index-ack", "java/unacked-limit", "python/24-stuck-unacked", "python/24b-stuck-alone"],
)
def test_the_brokers_permits_equal_balance_minus_parked(corpus: Any, name: str) -> None:
    truth = corpus.truth(name)
    mine = ledgers(corpus, name, int(truth["capture"]["stats_at"] * 1e9))
    checked = 0
    for stats in truth["stats"].values():
        for subscription in stats["subscriptions"].values():
            for consumer in subscription["consumers"]:
                row = mine[consumer["consumerName"]]
                assert row["balance"] - row["parked"] == consumer["availablePermits"]
                assert row["balance"] == row["flowed"] - row["delivered"] == row["points"][-1]["balance"]
                checked += 1
    assert checked


def test_a_batch_makes_the_balance_negative(corpus: Any) -> None:
    truth = corpus.truth("java/permits")
    at = int(truth["capture"]["stats_at"] * 1e9)
    (row,) = ledgers(corpus, "java/permits", at).values()
    assert row["lowest"] == min(point["balance"] for point in row["points"]) < 0
    assert row["lowest_frame"] in {point["frame"] for point in row["points"]}
    assert row["overshoot"] > len(row["overshoot_frames"]) > 0
    (later,) = ledgers(corpus, "java/permits", at + 1).values()
    assert later["exhausted_seconds"] == pytest.approx(row["exhausted_seconds"] + 1e-9, abs=1e-10)


def test_without_subscribe_only_counts_are_known(corpus: Any) -> None:
    truth = corpus.truth("java/late-capture")
    rows = ledgers(corpus, "java/late-capture", int(truth["capture"]["stats_at"] * 1e9))
    (late,) = [row for row in rows.values() if "unknown" in row]
    assert late["delivered"] > 0
    assert late["balance"] is late["queue"] is late["exhausted_seconds"] is None
    assert late["unknown"]["balance"].startswith("events before the capture")
