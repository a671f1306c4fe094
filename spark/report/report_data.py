"""The rows that the report reads, in a temporary database of DuckDB.

Rules of this file
1. The table `messages` is read once, in batches. DuckDB stores the columns that the report needs in a temporary file,
   so that the memory does not depend on the number of messages.
2. `entries` has a row for each entry, `deliveries` for each delivery to a consumer. Markers are left out.
3. Durations are differences of the capture's timestamps. Publish: from SEND to SEND_RECEIPT. Dispatch: from SEND to the
   first MESSAGE of a subscription. Ack: from the first MESSAGE to a consumer to its ACK of the entry.
4. A consumer holds a message from its delivery to its ACK. If the entry is delivered to a different consumer of the
   subscription, the first consumer no longer holds it, because it disconnected or sent a negative acknowledgement.
5. A percentile belongs to one topic, subscription, producer or connection of one cluster, never to several.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.errors import LocalError
from pcli.codec.observe.fields.field_table import nearest
from pcli.codec.observe.text_format import printable, short_topic
from pcli.spark.report.number_format import moment
from pcli.spark.report.selection import EVERYTHING, Selection
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.queries import SAFE
from pcli.spark.tables.stored_tables import StoredTables

INTERVALS: Final = 120
"""Number of points of each series."""

_MEMORY: Final = "512MB"
"""Memory of DuckDB; it uses temporary files beyond."""

Key = tuple[Any, ...]
"""The names that identify an object, the cluster first."""
Curves = dict[Key, dict[str, list[float | None]]]
"""Series by object and by name, with a value for each interval."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time axis that all charts share, in intervals of equal length."""

    first_ns: int
    last_ns: int

    @property
    def seconds(self) -> float:
        """Length of the axis."""
        return max(self.last_ns - self.first_ns, 1_000_000) / 1e9

    @property
    def step(self) -> float:
        """Length of an interval in seconds."""
        return self.seconds / INTERVALS

    def place(self, time_ns: int) -> float:
        """Return a time in seconds since the start, within the axis."""
        return min(max((time_ns - self.first_ns) / 1e9, 0.0), self.seconds)

    def text(self, time_ns: int) -> str:
        """Format a time of day in UTC, with the date if the axis extends over several days."""
        text = moment(time_ns).removesuffix(" UTC")
        days = {moment(one)[:10] for one in (self.first_ns, self.last_ns)}
        return text if len(days) > 1 else text[11:]

    def interval(self, time: str) -> str:
        """Return the SQL expression for the number of the interval that contains a time in ns."""
        return f"(({time} - {self.first_ns}) * {INTERVALS} // {round(self.seconds * 1e9)})"


class ReportData:
    """The data of a report."""

    def __init__(self, tables: StoredTables, selection: Selection, database: Any) -> None:
        self.tables = tables
        self.selection = selection
        self.captures = tables.read("captures")
        self.clock = _clock(tables.root, self.captures, selection)
        self._database = database
        self._objects: dict[str, pa.Table] = {}
        self._check_topics()
        self._sources = {"exchanges", "permits"} & set(tables.names)
        for name in self._sources:
            database.register(name, tables.dataset(name))
        self.has_messages = "messages" in tables.names
        if self.has_messages:
            self._sources |= {"entries", "deliveries", "changes", "acks"}
            self._load_messages()

    @property
    def packets(self) -> int:
        """Number of packets in the captures."""
        return pc.sum(self.captures["packets"]).as_py() or 0

    def register(self, name: str, table: str) -> None:
        """Make a table of the run available to queries under a name."""
        self._database.register(name, self.tables.dataset(table))

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; ``values`` are those of its question marks. Raises LocalError if it fails."""
        found: list[tuple[Any, ...]] = self._execute(sql, values).fetchall()
        return found

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Execute a statement. Raises LocalError, for example if another program has removed a file of the tables."""
        try:
            return self._database.execute(sql, list(values))
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise LocalError(f"{self.tables.root}: {printable(' '.join(str(error).split()))[:300]}") from None

    def objects(self, name: str, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return the selected rows of a table of topics, subscriptions, …, with these columns, or with all.

        The broker's own objects are left out.
        """
        table = self._selected(name)
        found: list[dict[str, Any]] = (table.select(columns) if columns and len(table) else table).to_pylist()
        return found

    def whole_rows(self, name: str, places: Sequence[int]) -> list[dict[str, Any]]:
        """Return all columns of the rows of `objects` at these places."""
        found: list[dict[str, Any]] = self._selected(name).take(list(places)).to_pylist()
        return found

    def rows_of_topic(self, name: str, cluster: str, topic: str) -> list[dict[str, Any]]:
        """Return the rows of `objects` of a topic."""
        found: list[dict[str, Any]] = (
            self._selected(name).filter((pc.field("cluster") == cluster) & (pc.field("topic") == topic)).to_pylist()
        )
        return found

    def _selected(self, name: str) -> pa.Table:
        """Return the selected rows of a table. They are kept as columns, which are much smaller than Python objects."""
        if name not in self._objects:
            known = name in self.tables.names
            table = self.tables.read(name) if known else TABLES[name].schema.empty_table()
            mask = pa.array(self._mask(name, table), pa.bool_())
            self._objects[name] = table.filter(mask).combine_chunks()
        return self._objects[name]

    def _mask(self, name: str, table: pa.Table) -> list[bool]:
        streams = self._streams() if name == "connections" and self.selection.topics else None
        columns = ("cluster", "topic", "connection", "system", "first_ns", "last_ns")
        return [
            not row.get("system")
            and (streams is None or (row["cluster"], row["connection"]) in streams)
            and (name == "connections" or self.selection.names_topic(row["topic"]))
            and self.selection.overlaps(row.get("first_ns"), row.get("last_ns"))
            for row in table.select([one for one in columns if one in table.schema.names]).to_pylist()
        ]

    def _streams(self) -> set[Key]:
        """Return the connections of the selected topics: those of entries, deliveries, consumers and producers."""
        columns = ("cluster", "connection")
        rows = [*self.objects("consumers", columns), *self.objects("producers", columns)]
        found = {(row["cluster"], row["connection"]) for row in rows}
        if self.has_messages:
            sql = "SELECT cluster, connection FROM entries UNION SELECT cluster, connection FROM deliveries"
            found.update(self.rows(sql))
        return found

    def curves(
        self, source: str, names: str, time: str, values: dict[str, str], chosen: Sequence[Key], where: str = "true"
    ) -> Curves:
        """Return series of SQL aggregates over the intervals for the chosen objects, None where there are no rows.

        ``names`` are the columns that identify an object, ``time`` is the column of the time, ``where`` a condition.
        """
        found: Curves = {key: {name: [None] * INTERVALS for name in values} for key in chosen}
        if not chosen or not self._has(source):
            return found
        count = names.count(",") + 1
        self._choose(chosen, count)
        joined = " AND ".join(
            f"{name.strip()} IS NOT DISTINCT FROM k{index}" for index, name in enumerate(names.split(","))
        )
        sql = (
            f"SELECT {names}, {self.clock.interval(time)} AS interval, {', '.join(values.values())} "  # noqa: S608
            f"FROM {source} JOIN chosen ON {joined} WHERE {where} AND {time} BETWEEN {self.clock.first_ns} AND "
            f"{self.clock.last_ns} GROUP BY ALL"
        )
        for row in self.rows(sql):
            place = min(int(row[count]), INTERVALS - 1)
            for name, value in zip(values, row[count + 1 :]):
                found[row[:count]][name][place] = None if value is None else float(value)
        return found

    def starts(self, source: str, names: str, time: str, value: str, chosen: Sequence[Key]) -> dict[Key, float]:
        """Return an SQL aggregate over the rows before the range, for series that are running sums."""
        if not chosen or not self._has(source):
            return {}
        count = names.count(",") + 1
        rows = self.rows(
            f"SELECT {names}, {value} FROM {source} WHERE {time} < {self.clock.first_ns} GROUP BY ALL"  # noqa: S608
        )
        return {row[:count]: float(row[count] or 0) for row in rows}

    def _check_topics(self) -> None:
        """Raise LocalError for the first selected topic that the run does not contain."""
        table = next((name for name in ("topics", "messages") if name in self.tables.names), None)
        if not self.selection.topics or table is None:
            return
        names = pc.unique(self.tables.read(table, ["topic"])["topic"]).to_pylist()
        for one in self.selection.topics:
            if not any(Selection(topics=(one,)).names_topic(name) for name in names):
                text = [short_topic(name) for name in names if name]
                raise LocalError(f"{self.tables.root}: no topic {printable(one)}{nearest(one, text)}")

    def _has(self, source: str) -> bool:
        return source in self._sources

    def _choose(self, chosen: Sequence[Key], count: int) -> None:
        columns = {f"k{index}": [key[index] for key in dict.fromkeys(chosen)] for index in range(count)}
        self._database.register("chosen", pa.table(columns))

    def _load_messages(self) -> None:
        self.register("messages", "messages")
        where = "true"
        if self.selection.topics:
            topics = [one[0] for one in self.rows("SELECT DISTINCT topic FROM messages")]
            topics = [one for one in topics if self.selection.names_topic(one)]
            self._database.register("wanted", pa.table({"name": pa.array(topics, pa.string())}))
            where = "topic IN (SELECT name FROM wanted)"
        scanner = self.tables.dataset("messages").scanner(columns=list(_COLUMNS), **_SCAN)
        self._database.register("scanned", scanner.to_reader())
        self._execute(_ENTRIES.format(where=where, first=self.clock.first_ns, last=self.clock.last_ns))
        for statement in (_DELIVERIES, _CHANGES, _ACKS, "ALTER TABLE entries DROP COLUMN deliveries"):
            self._execute(statement)


@contextmanager
def open_report_data(
    tables: StoredTables, selection: Selection = EVERYTHING, *, threads: int | None = None
) -> Iterator[ReportData]:
    """Yield the data of a run. Raise LocalError if a table cannot be read.

    ``threads`` is the number of threads of DuckDB; None for one on each core.
    """
    with tempfile.TemporaryDirectory(prefix="pcli-report-") as folder:
        settings = SAFE | {"memory_limit": _MEMORY, "temp_directory": folder}
        if threads is not None:
            settings["threads"] = threads
        with duckdb.connect(str(Path(folder) / "report.duckdb"), config=settings) as database:
            yield ReportData(tables, selection, database)


def _clock(root: str, captures: pa.Table, selection: Selection) -> Clock:
    first, last = pc.min(captures["first_ns"]).as_py() or 0, pc.max(captures["last_ns"]).as_py() or 0
    begin = max(first, first if selection.since_ns is None else selection.since_ns)
    end = min(last, last if selection.until_ns is None else selection.until_ns - 1)
    if first < last and begin > end:
        raise LocalError(f"{root}: no packet is in this range; the recording is from {moment(first)} to {moment(last)}")
    first, last = begin, end
    return Clock(first, max(last, first + 1))


_COLUMNS: Final = (
    "cluster", "topic", "ledger", "entry", "first_ns", "producer", "deliveries", "marker", "state", "evidence",
)  # fmt: skip
_SCAN: Final[dict[str, int]] = {"batch_size": 16_384, "batch_readahead": 2, "fragment_readahead": 1}
"""Arrow would read 16 batches of 131,072 rows in advance, which take gigabytes."""

_ENTRIES: Final = """
CREATE TABLE entries AS
SELECT row_number() OVER () AS id, cluster, coalesce(topic, '') AS topic, ledger, entry,
       producer.connection AS connection, producer.producer_id AS producer_id,
       coalesce(producer.name, '') AS producer, producer.sent_ns AS sent_ns, producer.receipt_ns AS receipt_ns,
       greatest(producer.messages, 1) AS messages, state, evidence,
       coalesce(producer.receipt_ns, producer.sent_ns, first_ns) AS stored_ns, ledger IS NOT NULL AS stored, deliveries
FROM scanned
WHERE NOT marker AND {where} AND coalesce(first_ns, 0) <= {last} AND coalesce(greatest(
    first_ns, producer.sent_ns, producer.receipt_ns, list_max([d.delivered_ns FOR d IN deliveries]),
    list_max([d.acked_ns FOR d IN deliveries])), {last}) >= {first}
"""

_DELIVERIES: Final = """
CREATE TABLE deliveries AS
SELECT id, cluster, topic, coalesce(d.subscription, '') AS subscription, coalesce(d.consumer, '') AS consumer,
       d.connection AS connection, d.consumer_id AS consumer_id, ledger, entry, sent_ns, evidence,
       d.delivered_ns AS delivered_ns, d.acked_ns AS acked_ns, d.count AS count, greatest(d.messages, 1) AS messages,
       greatest(d.unacked, 0) AS unacked, d.again AS again,
       coalesce(d.acked_ns, lead(d.delivered_ns) OVER several) AS released_ns, row_number() OVER several AS nth,
       sum(d.count) OVER (PARTITION BY id, d.subscription) AS times
FROM (SELECT * EXCLUDE deliveries, unnest(deliveries) AS d FROM entries)
WINDOW several AS (PARTITION BY id, d.subscription ORDER BY d.delivered_ns NULLS LAST)
"""

_CHANGES: Final = """
CREATE VIEW changes AS
SELECT cluster, topic, subscription, consumer, connection, consumer_id, delivered_ns AS at_ns, messages AS change
FROM deliveries WHERE delivered_ns IS NOT NULL
UNION ALL
SELECT cluster, topic, subscription, consumer, connection, consumer_id, released_ns, -messages
FROM deliveries WHERE delivered_ns IS NOT NULL AND released_ns IS NOT NULL
"""

_ACKS: Final = """
CREATE VIEW acks AS
SELECT id, cluster, topic, subscription, min(acked_ns) AS acked_ns FROM deliveries
WHERE acked_ns IS NOT NULL GROUP BY ALL
"""
