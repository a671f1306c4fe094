"""The generator of docs/tables.md, which describes every table and column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from pcli.codec.observe.tracking.records.connection_records import ENDS
from pcli.codec.observe.tracking.records.lifecycle import STATES
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS
from pcli.codec.observe.tracking.records.topic_records import AGAIN
from pcli.spark.columnar.lifecycles.lifecycle_schemas import EVIDENCE
from pcli.spark.columnar.table_schema import description_of
from pcli.spark.tables.catalog import ON_REQUEST, TABLES, Table
from pcli.spark.tables.runs import RUNS

_HEAD: Final = """# Tables

`pcli analyze` and `pcli spark-analyze` write these tables to `OUT/<table>/` as Delta Lake tables. This page is
generated from the code by `make docs`. [delta-tables.md](delta-tables.md) describes how to read and maintain them.

- Times are nanoseconds since 1970, in columns whose names end in `_ns`. An expression such as
  `to_timestamp(sent_ns / 1e9)` converts them. Unknown values are null.
- Connections are identified by tcp.stream, frames by pulsar.number and packets by frame.number. These are the numbers
  that `pcli dissect` and tshark assign if they read all captures of the cluster in order.
- The tables `messages`, `exchanges`, `permits` and `frames` are partitioned by `cluster` and `day` (UTC).
- `scalable_topic` and `segment` are in the tables of topics and of their objects, and in `segments`, `layouts` and
  `assignments`. A topic that is no segment has null in both; `segments.topic` names also the classic topics that became
  segments in a migration.
- Each run replaces the rows of all tables. The table `runs` lists the version of each table that a run has written,
  so that a reader can combine tables of the same run. Earlier runs remain readable.
- A repeated run writes the same rows. Files and folders whose names begin with `_` are internal.

```sql
-- the slowest topics, with DuckDB
SELECT topic, count(*), quantile_cont((producer.receipt_ns - producer.sent_ns) / 1e6, 0.99) AS p99_ms
FROM delta_scan('out/messages') WHERE evidence = 'complete' GROUP BY topic ORDER BY p99_ms DESC LIMIT 10;
```
"""


_WORDS: Final[dict[str, dict[str, str]]] = {
    "`state` of messages": STATES,
    "`evidence` of messages (`complete`, or the first of the other values that applies)": EVIDENCE,
    "`again` of a delivery and `redelivered` of subscriptions (`redelivered` is computed from the state of the whole "
    "consumer, so one redelivery can be `requested`, `ack_timeout` or `reopened` there and `nack` or `left` in "
    "`again`)": AGAIN,
    "`end` and `ends` of connections, consumers and producers": ENDS,
    "`doubts`": DOUBTS,
}
"""Columns with a fixed set of values, and the meaning of each value."""


_KINDS: Final = {"bool": "boolean", "date32[day]": "date"}
"""Types that have a different name in Arrow."""


def tables_page() -> str:
    """Return the page as Markdown."""
    lines = [line for table in (*TABLES.values(), RUNS) for line in _section(table)]
    return "\n".join([_HEAD, *lines, "## Values\n", *(line for one in _WORDS.items() for line in _words(*one))])


def _words(columns: str, words: dict[str, str]) -> Iterator[str]:
    yield f"Values of {columns}:\n\n| value | meaning |\n|---|---|"
    yield from (f"| `{word}` | {text} |" for word, text in words.items())
    yield ""


def _section(table: Table) -> Iterator[str]:
    yield f"## {table.name}\n"
    on_request = " This table is written only with `--frames` or `--only frames`." if table.name in ON_REQUEST else ""
    yield f"Each row is {table.row}.{on_request}\n"
    yield "| column | type | description |\n|---|---|---|"
    for field in table.schema:
        yield from _rows(field, "")
    yield ""


def _rows(field: pa.Field, before: str) -> Iterator[str]:
    name = f"{before}{field.name}"
    text = description_of(field).replace("|", "\\|")
    yield f"| `{name}` | {_kind(field.type)} | {text} |"
    inner, mark = field.type, "."
    if pa.types.is_list(inner):
        inner, mark = inner.value_type, "[]."
    if pa.types.is_struct(inner):
        for one in inner:
            yield from _rows(one, f"{name}{mark}")


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return "struct" if pa.types.is_struct(kind) else _KINDS.get(str(kind), str(kind))
