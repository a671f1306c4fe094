"""Schemas of tables: readable by every Parquet reader, and documented."""

import re

import pyarrow as pa
import pytest

from pcli.codec.errors import LocalError
from pcli.codec.observe.tracking.records.connection_records import ENDS
from pcli.codec.observe.tracking.records.lifecycle import STATES
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS
from pcli.codec.observe.tracking.records.topic_records import AGAIN
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EVIDENCE
from pcli.spark.columnar.table_schema import description_of
from pcli.spark.request import Request, RequiredData
from pcli.spark.tables.catalog import ON_REQUEST, TABLES, chosen_tables
from pcli.spark.tables.documentation import tables_page

ISSUE = {
    "messages", "exchanges", "connections", "consumers", "producers", "permits", "keys", "findings", "gaps", "captures",
    "frames",
}  # fmt: skip


def fields(schema, before=""):
    """Return all fields, including those in lists and structs."""
    for field in schema:
        yield f"{before}{field.name}", field
        inner = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(inner):
            yield from fields(inner, f"{before}{field.name}.")


def test_all_tables_of_the_issue_are_there():
    assert TABLES.keys() >= ISSUE


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_column_has_a_description_and_a_type_of_spark(table):
    plain = {"string", "int8", "int16", "int32", "int64", "bool", "double", "binary", "date32[day]"}
    for name, field in fields(table.schema):
        assert description_of(field), name
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        assert pa.types.is_struct(kind) or str(kind) in plain, (name, field.type)
        if name.endswith("_ns"):
            assert field.type == pa.int64(), name


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_cluster_is_the_first_column_and_the_order_consists_of_columns(table):
    assert table.schema.names[0] == "cluster"
    assert table.order[0] == "cluster"
    assert set(table.order) <= set(table.schema.names)
    assert table.time in ("", *(name for name in table.schema.names if name.endswith("_ns")))
    assert set(table.partition) <= set(table.schema.names)


def test_large_tables_are_partitioned_by_cluster_and_day():
    assert {name for name, table in TABLES.items() if table.partition == ("cluster", "day")} == {
        "messages",
        "exchanges",
        "permits",
        "frames",
    }


def test_without_a_choice_all_tables_but_the_large_one():
    assert {table.name for table in chosen_tables([])} == TABLES.keys() - ON_REQUEST
    assert {table.name for table in chosen_tables([], frames=True)} == set(TABLES)


def test_chosen_tables_include_captures_and_gaps():
    assert [table.name for table in chosen_tables(["messages,exchanges", " keys "])] == [
        "captures", "gaps", "messages", "exchanges", "keys",
    ]  # fmt: skip


def test_a_name_that_is_no_table_is_an_error_with_the_nearest():
    with pytest.raises(LocalError, match=r"--only message: unknown table.*messages"):
        chosen_tables(["message"])


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        ("messages", RequiredData(lifecycles=True, observing=False, permits=False, frames=False)),
        ("findings", RequiredData(lifecycles=False, observing=True, permits=False, frames=False)),
        ("permits", RequiredData(lifecycles=True, observing=False, permits=True, frames=False)),
        ("frames", RequiredData(lifecycles=False, observing=False, permits=False, frames=True)),
        ("captures", RequiredData(lifecycles=False, observing=False, permits=False, frames=False)),
    ],
)
def test_only_the_required_data_is_computed(only, wanted):
    assert Request(("x",), "out", only=(only,)).required == wanted


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_descriptions_of_columns_do_not_refer_to_the_code(table):
    for name, field in fields(table.schema):
        assert not re.search(r"\b(?:pcli|tracking)\.|\bkey of [A-Z]", description_of(field)), (
            name,
            description_of(field),
        )


@pytest.mark.parametrize("words", [STATES, EVIDENCE, AGAIN, ENDS, DOUBTS])
def test_the_page_describes_the_values_of_columns(words):
    rows = tables_page().splitlines()
    assert [word for word, text in words.items() if f"| `{word}` | {text} |" not in rows] == []
