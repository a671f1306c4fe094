"""Programs that know Delta Lake read the tables without pcli."""

import duckdb
import pandas
import polars
import pytest
from deltalake import DeltaTable

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

COLUMNS = ["topic", "ledger", "entry", "first_ns", "state", "day", "cluster"]


@pytest.fixture(scope="module")
def out(tmp_path_factory, small_captures):
    folder = tmp_path_factory.mktemp("readers") / "out"
    paths = (str(small_captures / "java/schemas.pcap"), str(small_captures / "go/nack.pcap"))
    analyze(Request(paths, str(folder)), InProcess())
    analyze(Request(paths[:1], str(folder)), InProcess())
    return folder


@pytest.fixture(scope="module")
def wanted(out):
    """The rows of the table `messages`, sorted."""
    return rows(StoredTables(str(out)).read("messages", COLUMNS).to_pylist())


def rows(found):
    return sorted(tuple(str(row[name]) for name in COLUMNS) for row in found)


def with_deltalake(folder):
    return DeltaTable(folder).to_pyarrow_table(columns=COLUMNS).to_pylist()


def with_duckdb(folder):
    messages = DeltaTable(folder).to_pyarrow_dataset()  # noqa: F841  DuckDB finds the variable by its name
    found = duckdb.sql(f"select {', '.join(COLUMNS)} from messages")
    return [dict(zip(COLUMNS, row)) for row in found.fetchall()]


def with_polars(folder):
    return polars.scan_delta(folder).select(COLUMNS).collect().to_dicts()


def with_pandas(folder):
    found = DeltaTable(folder).to_pandas(columns=COLUMNS)
    assert isinstance(found, pandas.DataFrame)
    return found.to_dict("records")


@pytest.mark.parametrize("read", [with_deltalake, with_duckdb, with_polars, with_pandas])
def test_the_rows_of_the_last_run(out, wanted, read):
    assert rows(read(str(out / "messages"))) == wanted
    assert len(wanted) > 10


def test_an_earlier_version(out):
    first = StoredTables(str(out), run=1)
    assert DeltaTable(str(out / "messages"), version=0).to_pyarrow_table().num_rows == first.read("messages").num_rows
    assert first.read("messages").num_rows > StoredTables(str(out)).read("messages").num_rows


def test_the_table_runs_links_the_versions(out):
    found = polars.read_delta(str(out / "runs")).sort("run")["tables"].to_list()
    versions = [{table["name"]: table["version"] for table in tables}["messages"] for tables in found]
    assert versions == [0, 1]


def test_files_are_skipped_by_their_statistics(out):
    table = DeltaTable(str(out / "messages"))
    [first] = table.to_pyarrow_dataset().to_table(columns=["first_ns"])["first_ns"].to_pylist()[:1]
    assert table.file_uris(file_pruning_predicate="first_ns < 0") == []
    assert len(table.file_uris(file_pruning_predicate=f"first_ns >= {first}")) == 1
    assert table.file_uris(file_pruning_predicate="cluster = 'another'") == []
