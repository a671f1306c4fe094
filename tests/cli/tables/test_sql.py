"""`pcli sql`: queries over the tables, with views for common questions."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.queries import EXAMPLES, VIEWS
from pcli.spark.tables.stored_tables import StoredTables
from tests.cli.tables.test_analyze import one_line


@pytest.fixture(scope="module")
def out(tmp_path_factory, small_captures):
    folder = tmp_path_factory.mktemp("sql") / "out"
    captures = tuple(str(small_captures / name) for name in ("go/nack.pcap", "java/key-shared-sticky.pcap"))
    analyze(Request(captures, str(folder)), InProcess())
    return folder


def asked(pcli, out, statement):
    ran = pcli("sql", out, statement, "-T", "json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_a_query_over_a_table(pcli, out):
    [row] = asked(pcli, out, "SELECT count(*) AS n, min(day) AS day FROM messages")
    assert row == {"n": StoredTables(str(out)).read("messages").num_rows, "day": "2026-11-20"}


@pytest.mark.parametrize("statement", [statement for _, statement in EXAMPLES])
def test_the_examples_run(pcli, out, statement):
    ran = pcli("sql", out, statement)
    assert (ran.code, ran.err) == (0, "")


def test_every_view_is_in_an_example():
    text = " ".join(statement for _, statement in EXAMPLES)
    assert [view.name for view in VIEWS if view.name not in text] == []


def test_the_views_of_scalable_topics_agree_with_the_statistics(pcli, captures_5, tmp_path):
    capture = captures_5 / "consumers-join-leave-crash.pcap"
    assert pcli("analyze", capture, "-o", tmp_path / "out").code == 0
    [topic] = json.loads(pcli("stats", "segments", "-r", capture, "-T", "json").out)
    rates = {row["segment"]: row for row in asked(pcli, tmp_path / "out", "SELECT * FROM segment_rates")}
    assert rates.keys() == {one["segment"] for one in topic["segments"]}
    for one in topic["segments"]:
        row = rates[one["segment"]]
        assert (row["messages_in"], row["state"], row["parents"]) == (
            one["messages_in"], one["state"], one["parents"]
        )  # fmt: skip
        # The statistics end at the last frame, and the view ends at the last packet.
        assert row["rate_in"] == pytest.approx(one["rate_in"], rel=0.01)
    moves = asked(pcli, tmp_path / "out", "SELECT * FROM hand_overs")
    assert [row["hand_over_ms"] for row in moves] == sorted(
        (pytest.approx((one["ready"] - one["at"]) * 1e3, abs=2e-3) for one in topic["hand_overs"]),
        key=lambda one: -one.expected,
    )


def test_the_views_agree_with_the_rows(pcli, out):
    messages = StoredTables(str(out)).read("messages").to_pylist()
    deliveries = [(row, delivery) for row in messages for delivery in row["deliveries"]]
    again = [delivery for _, delivery in deliveries if delivery["again"]]
    assert sum(row["entries"] for row in asked(pcli, out, "SELECT * FROM redeliveries_by_cause")) == len(again) == 3
    held = [delivery for _, delivery in deliveries if delivery["unacked"] and delivery["acked_ns"] is None]
    assert sum(row["entries"] for row in asked(pcli, out, "SELECT * FROM unacked_by_consumer")) == len(held) > 0
    slowest = asked(pcli, out, "SELECT * FROM slowest_messages LIMIT 1")[0]
    waits = [delivery["acked_ns"] - row["producer"]["sent_ns"] for row, delivery in deliveries if delivery["acked_ns"]]
    assert slowest["ack_ms"] == pytest.approx(max(waits) / 1e6, abs=1e-3)
    last = asked(pcli, out, "SELECT * FROM permits_at((SELECT max(last_ns) FROM permits))")
    balances = {}
    for row in sorted(StoredTables(str(out)).read("permits").to_pylist(), key=lambda row: row["last_frame"]):
        balances[row["connection"], row["consumer_id"]] = row["balance"]
    assert {(row["connection"], row["consumer_id"]): row["permits"] for row in last} == balances


def test_csv_and_parquet(pcli, out, tmp_path):
    statement = "SELECT topic, ledger, producer, deliveries FROM messages ORDER BY ledger, entry LIMIT 2"
    first, *_ = csv.DictReader(io.StringIO(pcli("sql", out, statement, "-T", "csv").out))
    assert json.loads(first["producer"])["sequence_id"] == 0
    assert pcli("sql", out, statement, "-T", "parquet", "-o", tmp_path / "x.parquet").code == 0
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.to_pylist() == asked(pcli, out, statement)
    assert pcli("sql", out, statement, "-T", "csv", "-o", tmp_path / "x.csv").out == ""
    assert (tmp_path / "x.csv").read_text().startswith("topic,ledger,producer,deliveries\n")


@pytest.mark.parametrize("output", ["csv", "parquet"])
def test_a_query_that_fails_in_the_middle_keeps_the_earlier_file(pcli, out, tmp_path, output):
    file = tmp_path / "rows"
    file.write_text("earlier")
    statement = "SELECT CASE WHEN n < 400000 THEN n ELSE error('row 400000') END FROM range(500000) AS rows(n)"
    assert "row 400000" in one_line(pcli("sql", out, statement, "-T", output, "-o", file))
    assert file.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [file]


def test_an_earlier_run(pcli, small_captures, tmp_path):
    for name in ("go/nack.pcap", "java/schemas.pcap"):
        pcli("analyze", small_captures / name, "-o", tmp_path / "out", "--only", "messages")
    statement = "SELECT count(DISTINCT topic) AS topics FROM messages"
    assert json.loads(pcli("sql", tmp_path / "out", statement, "--run", "1", "-T", "json").out) == [{"topics": 1}]
    [last] = json.loads(pcli("sql", tmp_path / "out", statement, "-T", "json").out)
    assert last["topics"] > 1


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELECT * FROM nope", "Table with name nope does not exist!"),
        ("SELECT nope FROM messages", 'Referenced column "nope" not found'),
        ("SELCT 1", "syntax error at or near"),
        ("DELETE FROM messages", "pcli: "),
        ("SELECT CAST(topic AS INTEGER) FROM messages", "Could not convert string"),
    ],
)
def test_an_invalid_statement_is_one_line(pcli, out, statement, reason):
    assert reason in one_line(pcli("sql", out, statement))


def test_wrong_usage_is_one_line(pcli, out, tmp_path):
    assert "--examples prints some" in one_line(pcli("sql", out))
    assert "only -T csv and -T parquet" in one_line(pcli("sql", out, "SELECT 1", "-o", tmp_path / "x"))
    assert "the folder contains no tables" in one_line(pcli("sql", tmp_path, "SELECT 1"))


def test_the_examples_are_printed(pcli):
    lines = pcli("sql", "--examples").lines
    assert 'pcli sql OUT "SELECT * FROM slowest_messages LIMIT 10"' in lines
    assert any(line.startswith("permits_at(at_ns): each row is a consumer") for line in lines)


def test_columns_with_the_same_name_are_all_printed(pcli, out):
    assert asked(pcli, out, "SELECT 1 AS a, 2 AS a") == [{"a": 1, "a_1": 2}]


def test_numbers_that_are_not_finite_and_maps_are_valid_json(pcli, out):
    [row] = asked(pcli, out, "SELECT 1/0 AS a, 'nan'::DOUBLE AS b, map{1: 2} AS c")
    assert row == {"a": "inf", "b": "nan", "c": [[1, 2]]}


def test_variables_of_the_program_are_no_tables(pcli, out):
    assert "Table with name sql does not exist" in one_line(pcli("sql", out, "SELECT * FROM sql"))
