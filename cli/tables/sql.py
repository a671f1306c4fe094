"""`pcli sql`: runs an SQL query over the tables of an analysis, with DuckDB."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pcli.cli.common.options import argument, option
from pcli.cli.common.output import complete_file, fail, json_text, print_json_lines, write_bytes, write_line
from pcli.cli.common.text_tables import print_rows
from pcli.cli.tables.table_options import AsOf, RunNumber

if TYPE_CHECKING:
    import pyarrow as pa

RowFormat = Literal["text", "json", "ndjson", "csv", "parquet"]
"""Values of ``-T``."""


def sql(
    tables: Annotated[str, argument("OUT", "Folder or URI of the tables.")] = "",
    statement: Annotated[str, argument("SQL", "The query, in the SQL of DuckDB.")] = "",
    output: Annotated[RowFormat, option("-T --format", "Output format: text, json, ndjson, csv or parquet.")] = "text",
    file: Annotated[str, option("-o --output FILE", "Write csv or parquet to this file, not to stdout.")] = "",
    examples: Annotated[bool, option("--examples", "Print examples and the views, then exit.")] = False,
    run: RunNumber = None,
    as_of: AsOf = "",
) -> None:
    """Run an SQL query over the tables of `analyze`, `spark-analyze` or `spark-stream`.

    The tables are those of docs/tables.md; --examples lists views for common questions.

    pcli sql out/ "SELECT * FROM slowest_messages LIMIT 10"

    pcli sql out/ "SELECT topic, count(*) FROM messages GROUP BY topic" -T csv -o topics.csv
    """
    if missing := [name for name in ("duckdb", "deltalake", "pyarrow") if find_spec(name) is None]:
        fail(f"sql needs {' and '.join(missing)}: pip install 'pulsar-pcli[tables]'")
    if examples:
        _print_examples()
        return
    if not tables or not statement:
        fail("specify the folder of the tables and a query; --examples prints some")
    if file and output not in ("csv", "parquet"):
        fail(f"-o {file}: only -T csv and -T parquet write to a file")
    from pcli.cli.tables.report import chosen_tables
    from pcli.spark.tables.queries import query

    with query(chosen_tables(tables, run, as_of), statement) as rows:
        if file:
            with complete_file(file) as part:
                _write(rows, output, str(part))
        else:
            _write(rows, output, "")


def _print_examples() -> None:
    from pcli.spark.tables.queries import EXAMPLES, VIEWS

    for question, statement in EXAMPLES:
        write_line(f"-- {question}\npcli sql OUT {_quoted(statement)}\n")
    for view in VIEWS:
        name = f"{view.name}({view.parameters})" if view.parameters else view.name
        write_line(f"{name}: each row is {view.what}")


def _quoted(statement: str) -> str:
    import shlex

    return f'"{statement}"' if '"' not in statement and "$" not in statement else shlex.quote(statement)


def _write(rows: pa.RecordBatchReader, output: RowFormat, file: str) -> None:
    import csv

    if output == "parquet":
        _write_parquet(rows, file)
    elif output == "csv":
        with open(file, "w", newline="", encoding="utf-8") if file else nullcontext(sys.stdout) as target:  # noqa: PTH123
            writer = csv.writer(target, lineterminator="\n")
            writer.writerow(rows.schema.names)
            writer.writerows(map(_csv_cell, row.values()) for row in _dicts(rows))
    elif output == "text":
        print_rows(list(_dicts(rows)), "text", {name: name for name in rows.schema.names})
    else:
        print_json_lines(map(json_text, _dicts(rows)), output)


def _dicts(rows: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """Yield rows as plain JSON values: times, dates, and numbers that are not finite are text."""
    for batch in rows:
        yield from map(_plain, batch.to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _csv_cell(value: Any) -> Any:
    """Return a value for a cell. Structs and lists are JSON."""
    return json_text(value) if isinstance(value, dict | list) else value


def _write_parquet(rows: pa.RecordBatchReader, file: str) -> None:
    from pyarrow import parquet as pq

    data = BytesIO()  # a result for stdout is complete before it is written
    with pq.ParquetWriter(file or data, rows.schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch)
    if not file:
        write_bytes(data.getvalue())
