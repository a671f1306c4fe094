"""The analysis for programs that have a Spark session. Its functions take and return DataFrames.

Rules of this file
1. A DataFrame of captures has a column ``path``; other columns are ignored. The list of files can therefore come from
   Spark's own reader, a table, or Python, and the functions fit `DataFrame.transform`.
2. Tables are files: they are written to a folder that the caller specifies, and read from there. Evaluating a DataFrame
   twice does not compute the tables twice.
3. The session belongs to the caller and is neither changed nor stopped. pcli is sent to workers that lack it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pcli.spark.analysis import analyze as run_analysis
from pcli.spark.jobs.code_distribution import is_connect, ship_once
from pcli.spark.jobs.connect_engine import ConnectEngine
from pcli.spark.jobs.paths import plain_path, spark_path
from pcli.spark.jobs.schemas import ddl_of
from pcli.spark.jobs.spark_engine import SparkEngine
from pcli.spark.request import Request
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.stored_tables import StoredTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def analyze(captures: DataFrame, out: str, **options: Any) -> DataFrame:
    """Write the tables of these captures to the folder ``out``; return a DataFrame with table, rows, bytes and files.

    ``options`` are the fields of `pcli.spark.request.Request`: ``only=("messages",)`` (or one name as text),
    ``frames=True``, ``cluster="captures/{cluster}/*"``, ``incremental=True``, ``strict=True``, … Raise PcliError for
    any problem.

    >>> captures = spark.read.format("binaryFile").load("captures/").select("path")
    >>> analyze(captures, "out/", only=("messages", "findings")).show()
    """
    session = captures.sparkSession
    if isinstance(options.get("only"), str):
        options["only"] = (options["only"],)
    paths = sorted(plain_path(row["path"]) for row in captures.select("path").distinct().collect())
    ship_once(session)
    engine_of = ConnectEngine if is_connect(session) else SparkEngine
    with closing(engine_of(session)) as engine:
        summary = run_analysis(Request(tuple(paths), out, **options), engine)
    rows = [(one.name, one.rows, one.bytes, one.files) for one in summary.tables]
    columns = [pa.array(column) for column in zip(*rows)]
    return session.createDataFrame(pa.table(columns, names=["table", "rows", "bytes", "files"]))


def read_messages(captures: DataFrame, out: str, **options: Any) -> DataFrame:
    """Return the lifecycle of every message in these captures: the table `messages`, written to the folder ``out``.

    >>> spark.createDataFrame([("captures/",)], "path string").transform(read_messages, "out/").show()
    """
    analyze(captures, out, **{"only": ("messages",), **options})
    return read_table(captures.sparkSession, out, "messages")


def read_table(session: SparkSession, out: str, name: str) -> DataFrame:
    """Return a table that `analyze`, `pcli analyze` or `pcli spark-analyze` wrote, as of the last run.

    The session needs no Delta connector.

    Raise LocalError if ``out`` contains no tables or lacks this table.
    """
    files = StoredTables(out).files(name)
    schema = ddl_of(TABLES[name].schema)
    if not files:
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(*map(spark_path, files))
