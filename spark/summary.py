"""The result of an analysis, read from the tables that it wrote."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.observe.rules.finding import SEVERITIES
from pcli.spark.tables.runs import Run, TableVersion
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import Store
from pcli.spark.tables.uri_redaction import hidden

_TROUBLES: Final = ("unreadable", "partly")
"""Statuses of files that were not read to their ends."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of an analysis."""

    where: str
    """The folder of the tables, or its URI without secrets."""
    run: int
    """Number of the run that wrote the tables."""
    changed: bool
    """Whether the run has just written the tables; False if an incremental run found nothing new."""
    tables: tuple[TableVersion, ...] = ()
    captures: dict[str, int] = field(default_factory=dict)
    """Number of files by status."""
    packets: int = 0
    frames: int = 0
    findings: dict[str, int] | None = None
    """Number of findings by severity, or None if the table was not requested."""
    late: int = 0
    """Number of messages that were older than the horizon and have frames in the new files."""
    troubles: list[tuple[str, str, str]] = field(default_factory=list)
    """Path, status and reason of files that were not read to their ends."""


def troubles_of(captures: pa.Table) -> list[tuple[str, str, str]]:
    """Return the path, status and reason of each file in the table `captures` that was not read to its end."""
    rows = captures.select(["path", "status", "error"]).to_pylist()
    return [(row["path"], row["status"], row["error"]) for row in rows if row["status"] in _TROUBLES]


def summary_of(store: Store, run: Run, *, changed: bool = True, late: int = 0) -> Summary:
    """Summarize the tables of a run. ``changed`` is whether the run has just written them.

    ``late`` is the number of messages that have frames after the horizon.
    """
    stored = StoredTables(store, run=run.run)
    captures = stored.read("captures")
    counts = Counter(captures["status"].to_pylist())
    return Summary(
        hidden(stored.root),
        run.run,
        changed,
        run.tables,
        dict(sorted(counts.items())),
        pc.sum(captures["packets"]).as_py() or 0,
        pc.sum(captures["frames"]).as_py() or 0,
        _findings(stored) if "findings" in run.names else None,
        late,
        troubles_of(captures),
    )


def _findings(stored: Any) -> dict[str, int]:
    counts = Counter(stored.read("findings", ["severity"])["severity"].to_pylist())
    return {word: counts[word] for word in SEVERITIES if counts[word]}
