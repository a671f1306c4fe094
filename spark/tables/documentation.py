"""docs/tables.md: every table and column, from the schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from pcli.codec.observe.tracking.records.connection_records import ENDS
from pcli.codec.observe.tracking.records.lifecycle import STATES
from pcli.codec.observe.tracking.records.missing_evidence import DOUBTS
from pcli.codec.observe.tracking.records.topic_records import AGAIN
from pcli.spark.columnar.lifecycles import EVIDENCE
from pcli.spark.columnar.table_schema import what_of
from pcli.spark.tables.catalog import ON_REQUEST, TABLES, Table

__all__ = ["tables_page"]

_HEAD: Final = """# Tables

What `pcli analyze` and `pcli spark-analyze` write to `OUT/<table>/` as Parquet. Made from the code by `make docs`.

- Times are nanoseconds since 1970, in columns that end in `_ns`: `to_timestamp(sent_ns / 1e9)`. What is not known is
  null.
- A connection is tcp.stream, a frame pulsar.number, a packet frame.number, as `pcli dissect` and tshark count them over
  all captures of the cluster in order.
- A large table is partitioned, into `cluster=…/hour=2026-11-21-14/` (UTC); its `cluster` is then in the path, where
  readers of Parquet find it, with a column `hour` beside it. Spark makes numbers of labels that look like some, unless
  `spark.sql.sources.partitionColumnTypeInference.enabled` is false.
- `OUT/_manifest.json` lists the files of the tables. A run replaces it at its end and then removes the old files. A
  plain read of a folder during that moment may return old and new rows. A read by the manifest (`pcli report`,
  `pcli.spark.tables.stored_tables`) never does.
- The same run again changes nothing. Names that begin with `_` are not for readers.

```sql
-- the slowest topics, with DuckDB
SELECT topic, count(*), quantile_cont((producer.receipt_ns - producer.sent_ns) / 1e6, 0.99) AS p99_ms
FROM 'out/messages/*.parquet' WHERE evidence = 'complete' GROUP BY topic ORDER BY p99_ms DESC LIMIT 10;
```
"""


_WORDS: Final[dict[str, dict[str, str]]] = {
    "`state` of messages": STATES,
    "`evidence` of messages; of several the first in this order, `complete` when none is true": EVIDENCE,
    "`again` of a delivery, `redelivered` of subscriptions (which follows the whole consumer: what it calls "
    "`ack_timeout` or `reopened` may be `nack` or `left` there)": AGAIN,
    "`end` and `ends` of connections, consumers and producers": ENDS,
    "`doubts`": DOUBTS,
}
"""Columns whose values are words, and what each says."""


def tables_page() -> str:
    """The page, as Markdown."""
    lines = [line for table in TABLES.values() for line in _section(table)]
    return "\n".join([_HEAD, *lines, "## Words\n", *(line for one in _WORDS.items() for line in _words(*one))])


def _words(columns: str, words: dict[str, str]) -> Iterator[str]:
    yield f"Of {columns}:\n\n| word | |\n|---|---|"
    yield from (f"| `{word}` | {text} |" for word, text in words.items())
    yield ""


def _section(table: Table) -> Iterator[str]:
    yield f"## {table.name}\n"
    yield f"A row: {table.row}.{' Only with `--frames`.' if table.name in ON_REQUEST else ''}\n"
    if table.hour:
        yield f"When it is partitioned: by the hour of `{table.hour}`.\n"
    yield "| column | type | |\n|---|---|---|"
    for field in table.schema:
        yield from _rows(field, "")
    yield ""


def _rows(field: pa.Field, before: str) -> Iterator[str]:
    name = f"{before}{field.name}"
    said = what_of(field).replace("|", "\\|")
    yield f"| `{name}` | {_kind(field.type)} | {said} |"
    inner, mark = field.type, "."
    if pa.types.is_list(inner):
        inner, mark = inner.value_type, "[]."
    if pa.types.is_struct(inner):
        for one in inner:
            yield from _rows(one, f"{name}{mark}")


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return "struct" if pa.types.is_struct(kind) else {"double": "double", "bool": "boolean"}.get(str(kind), str(kind))
