"""Groups of rows, compared with the object path over the whole recording."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from pcli.codec.observe.tracking.statistics.permit_statistics import permit_figures
from pcli.spark.columnar.observation.observation_schemas import TABLES

FIGURES = {
    "availablePermits": "available_permits",
    "unackedMessages": "unacked_messages",
    "msgOutCounter": "msg_out_counter",
    "bytesOutCounter": "bytes_out_counter",
    "blockedConsumerOnUnackedMsgs": "blocked_consumer_on_unacked_msgs",
}


def whole(tables):
    """Return each table's rows over all groups in a comparable order."""
    names = [name for name in TABLES if name != "findings"]
    return {name: sorted(str(row) for batch in tables[name] for row in batch.to_pylist()) for name in names}


def test_every_capture_gives_the_same_findings(recordings, rows_of_items, objects_of, findings_in):
    several = findings = 0
    for name, items in recordings():
        rows = rows_of_items(items)
        groups = rows.groups()
        found = findings_in(rows.observed(groups)[1])
        assert found == objects_of(items).findings, name
        several += len(set(groups.values())) > 1
        findings += len(found)
    assert several > 100
    assert findings > 300


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_captures_in_one_recording(recordings, rows_of_items, objects_of, findings_in, join, apart):
    everything = list(recordings())
    rng = random.Random(7)
    for seed in range(4):
        names, chosen = zip(*rng.sample(everything, 12))
        items = join(chosen, seed, apart=apart)
        rows = rows_of_items(items)
        groups = rows.groups()
        assert len(set(groups.values())) > 4
        tables, findings = rows.observed(groups)
        assert findings_in(findings) == objects_of(items).findings, names
        # Groups may be combined more than necessary; the results are the same.
        more, same = rows.observed(rows.groups(packed=True))
        assert whole(tables) == whole(more), names
        assert findings_in(findings) == findings_in(same), names


def test_figures_are_those_of_the_statistics(recordings, rows_of_items, objects_of):
    compared = 0
    for name, items in recordings():
        rows, wanted = rows_of_items(items), objects_of(items).figures
        assert {row["topic"]: row["msg_in_counter"] for row in rows.rows("topics")} == {
            topic: stats["msgInCounter"] for topic, stats in wanted.items()
        }, name
        backlogs = {(row["topic"], row["subscription"]): row["msg_backlog"] for row in rows.rows("subscriptions")}
        attached = {(topic, one): [] for topic, stats in wanted.items() for one in stats["subscriptions"]}
        for row in rows.rows("consumers"):
            if row["attached"] and row["subscription"]:
                said = [row["consumer"] or "", *(row[column] for column in FIGURES.values())]
                attached[row["topic"], row["subscription"]].append(said)
        for (topic, subscription), found in attached.items():
            stats = wanted[topic]["subscriptions"][subscription]
            assert backlogs[topic, subscription] == stats["msgBacklog"], name
            said = [[one["consumerName"], *(one[figure] for figure in FIGURES)] for one in stats["consumers"]]
            assert sorted(map(str, found)) == sorted(map(str, said)), name
            compared += len(found)
    assert compared > 100


def test_balances_are_those_of_the_statistics(recordings, rows_of_items, objects_of):
    compared = 0
    for name, items in recordings():
        rows = {(row["topic"], row["subscription"] or ""): row for row in rows_of_items(items).rows("balances")}
        wanted = objects_of(items).balances
        assert rows.keys() == {(one.topic, one.subscription) for one in wanted}, name
        for one in wanted:
            row = rows[one.topic, one.subscription]
            assert {word: row["unaccounted" if word == "unknown" else word] for word in one.values} == one.values, name
            assert len(row["unknown"]) == len(one.reasons), name
            compared += 1
    assert compared > 100


def test_consumers_have_the_ledgers_of_the_tracker(recordings, rows_of_items, objects_of):
    compared = 0
    for name, items in recordings():
        objects, rows = objects_of(items), rows_of_items(items)
        mine = {(row["connection"], row["consumer_id"], row["session"]): row for row in rows.rows("consumers")}
        assert len(mine) == len(objects.consumers), name
        for record in objects.consumers:
            row = mine[record.session.stream, record.session.id, record.session.number]
            wanted = permit_figures(record, objects.diagnosis.capture.last_ns)
            same = ("sessions", "flows", "flowed", "delivered", "balance", "lowest", "exhausted", "parked", "doubled")
            assert [row[key] for key in same] == [wanted[key] for key in same], name
            assert (row["acked"], row["never_acked"]) == (record.acked, record.never_acked.count), name
            why = {one["figure"]: one["reason"] for one in row["unknown"]}
            assert why.get("balance") == wanted.get("unknown", {}).get("balance"), name
            compared += 1
    assert compared > 300


def test_bytes_of_connections(recordings, rows_of_items, objects_of):
    keys = ("client_frames", "broker_frames", "client_bytes", "broker_bytes")
    compared = 0
    for name, items in recordings():
        found = {row["connection"]: row for row in rows_of_items(items).rows("connections")}
        for one in objects_of(items).connections:
            assert [found[one["stream"]][key] for key in keys] == [one[key] for key in keys], name
            compared += 1
    assert compared > 300


def test_every_column_has_a_description():
    for name, schema in TABLES.items():
        assert schema.names[0] == "cluster"
        assert not schema.field(0).nullable
        for field in schema:
            assert field.metadata[b"what"], (name, field.name)
            assert not pa.types.is_timestamp(field.type)
