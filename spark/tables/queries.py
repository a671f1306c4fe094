"""SQL queries over the tables of a run, with DuckDB (`pcli sql`).

Rules of this file
1. Each table of the run is a view of the same name, at the version of the run. DuckDB passes columns and conditions to
   pyarrow, which skips files and row groups by their statistics. Nothing is downloaded: the log is read by delta-rs.
2. `VIEWS` contains views for common questions. A view whose tables the run lacks is not created.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.spark.tables.stored_tables import StoredTables


@dataclass(frozen=True, slots=True)
class View:
    """A view, or a macro that returns a table."""

    name: str
    what: str
    """The rows of the view, as a noun phrase."""
    tables: tuple[str, ...]
    """The tables that the view reads."""
    sql: str
    """The query."""
    parameters: str = ""
    """The parameters of a macro, with their defaults."""

    @property
    def definition(self) -> str:
        """The statement that creates the view."""
        if self.parameters:
            return f"CREATE MACRO {self.name}({self.parameters}) AS TABLE {self.sql}"
        return f"CREATE VIEW {self.name} AS {self.sql}"


VIEWS: Final = (
    View(
        "slowest_messages",
        "a message of an application, the slowest from SEND to acknowledgement first",
        ("messages",),
        """
        SELECT cluster, topic, ledger, entry, first_ns,
               round((producer.receipt_ns - producer.sent_ns) / 1e6, 3) AS receipt_ms,
               round((list_min([d.delivered_ns FOR d IN deliveries]) - producer.sent_ns) / 1e6, 3) AS delivery_ms,
               round((list_max([d.acked_ns FOR d IN deliveries]) - producer.sent_ns) / 1e6, 3) AS ack_ms,
               state, evidence
        FROM messages WHERE NOT marker ORDER BY ack_ms DESC NULLS LAST, delivery_ms DESC NULLS LAST
        """,
    ),
    View(
        "unacked_by_consumer",
        "a consumer with messages that were delivered to it and not acknowledged",
        ("messages",),
        """
        SELECT cluster, topic, d.subscription, d.consumer, d.connection, d.consumer_id,
               count(*) AS entries, sum(d.unacked)::BIGINT AS unacked, min(d.delivered_ns) AS oldest_ns
        FROM (SELECT cluster, topic, unnest(deliveries) AS d FROM messages WHERE NOT marker)
        WHERE d.unacked > 0 AND d.acked_ns IS NULL GROUP BY ALL ORDER BY unacked DESC
        """,
    ),
    View(
        "redeliveries_by_cause",
        "a cause of redeliveries on a subscription; the causes are those of `again` in docs/tables.md",
        ("messages",),
        """
        SELECT cluster, topic, d.subscription, d.again AS cause, count(*) AS entries,
               max(d.redelivery_count) AS highest_redelivery_count
        FROM (SELECT cluster, topic, unnest(deliveries) AS d FROM messages)
        WHERE d.again IS NOT NULL GROUP BY ALL ORDER BY entries DESC
        """,
    ),
    View(
        "latency_by_minute",
        "a topic in a minute (UTC), with percentiles of the time from SEND to receipt in milliseconds",
        ("messages",),
        """
        SELECT cluster, topic, to_timestamp((producer.sent_ns // 60000000000) * 60) AT TIME ZONE 'UTC' AS minute,
               count(*) AS messages,
               round(quantile_cont(ms, 0.5), 3) AS p50_ms, round(quantile_cont(ms, 0.99), 3) AS p99_ms,
               round(max(ms), 3) AS max_ms
        FROM (SELECT *, (producer.receipt_ns - producer.sent_ns) / 1e6 AS ms FROM messages)
        WHERE ms IS NOT NULL GROUP BY ALL ORDER BY cluster, topic, minute
        """,
    ),
    View(
        "permits_at",
        "a consumer with its permits at a time (ns since 1970)",
        ("permits",),
        """
        SELECT cluster, topic, subscription, consumer, connection, consumer_id,
               last(balance ORDER BY last_frame) AS permits
        FROM permits WHERE bucket_ns <= at_ns GROUP BY ALL ORDER BY permits
        """,
        parameters="at_ns",
    ),
    View(
        "segment_rates",
        "a segment of a scalable topic, with its messages per second from its first layout to its seal or the end",
        ("captures", "segments", "topics"),
        """
        SELECT *, round(messages_in / nullif(seconds, 0), 3) AS rate_in
        FROM (SELECT s.cluster, s.scalable_topic, s.segment, s.state, s.first_hash, s.last_hash, s.parents, s.children,
                     s.broker, coalesce(t.messages_in, 0) AS messages_in,
                     (coalesce(s.sealed_ns, c.last_ns) - s.first_ns) / 1e9 AS seconds
              FROM segments s LEFT JOIN topics t USING (cluster, topic)
                   JOIN (SELECT cluster, max(last_ns) AS last_ns FROM captures GROUP BY cluster) c USING (cluster))
        ORDER BY cluster, scalable_topic, segment
        """,
    ),
    View(
        "hand_overs",
        "a segment that the controller took from one consumer and assigned to another, the slowest first",
        ("assignments",),
        """
        SELECT cluster, scalable_topic, segment, subscription, taken_from, consumer, since_ns,
               round(hand_over_ns / 1e6, 3) AS hand_over_ms, refused, withdrawn_ns IS NOT NULL AS withdrawn
        FROM assignments WHERE taken_from IS NOT NULL ORDER BY withdrawn, hand_over_ms DESC NULLS FIRST
        """,
    ),
)
"""The views that each query can use."""

EXAMPLES: Final = (
    ("The ten slowest messages", "SELECT * FROM slowest_messages LIMIT 10"),
    ("Which consumer holds unacknowledged messages?", "SELECT * FROM unacked_by_consumer"),
    ("Why were messages redelivered?", "SELECT * FROM redeliveries_by_cause"),
    ("Latencies of each topic by minute", "SELECT * FROM latency_by_minute"),
    ("Permits at the end", "SELECT * FROM permits_at((SELECT max(last_ns) FROM permits))"),
    (
        "Findings by rule",
        "SELECT rule, severity, count(*) AS findings FROM findings GROUP BY ALL ORDER BY findings DESC",
    ),
    ("Rates of the segments of scalable topics", "SELECT * FROM segment_rates"),
    ("Hand-overs of segments, the slowest first", "SELECT * FROM hand_overs"),
    ("Requests with errors", "SELECT request, error, count(*) FROM exchanges WHERE error IS NOT NULL GROUP BY ALL"),
)
"""Questions with their queries."""


SAFE: Final[dict[str, Any]] = dict.fromkeys(
    ("autoinstall_known_extensions", "autoload_known_extensions", "python_enable_replacements"), False
)
"""Settings of DuckDB. Extensions would be downloaded, and the variables of a module are no tables."""


@contextmanager
def query(tables: StoredTables, sql: str) -> Iterator[pa.RecordBatchReader]:
    """Run one SQL query over the tables of a run, and yield its rows.

    Raise LocalError with the message of DuckDB if the statement is invalid, is not a query, or fails while its rows are
    read.
    """
    with duckdb.connect(config=SAFE) as database:
        for name in tables.names:
            database.register(name, tables.dataset(name))
        for view in VIEWS:
            if set(view.tables) <= set(tables.names):
                database.execute(view.definition)
        try:
            found = database.sql(sql)
            if found is None:
                raise LocalError("the statement is not a query: the tables can only be read")
            yield found.project("*").to_arrow_reader()  # columns with the same name get different names
        except (duckdb.Error, pa.ArrowException) as error:
            raise LocalError(_in_one_line(error, tables.names)) from None


def _in_one_line(error: Exception, names: Sequence[str]) -> str:
    """Return the message of DuckDB without the copy of the statement."""
    text = " ".join(str(error).partition("\n\nLINE")[0].split())
    return f"{text}; the tables are {', '.join(names)}" if isinstance(error, duckdb.CatalogException) else text
