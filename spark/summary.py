"""What came of an analysis, for who asked for it: read back from the tables that it left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.observe.rules.finding import SEVERITIES
from pcli.spark.tables.manifest import Manifest
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import Store

__all__ = ["Summary", "TableSummary", "summary_of", "troubles_of"]

_TROUBLES: Final = ("unreadable", "partly")
"""What keeps a file from being read to its end."""


@dataclass(frozen=True, slots=True)
class TableSummary:
    """What was written of a table."""

    name: str
    rows: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of an analysis."""

    where: str
    """The folder of the tables."""
    generation: int
    changed: bool
    """Whether this run made it."""
    tables: list[TableSummary] = field(default_factory=list)
    captures: dict[str, int] = field(default_factory=dict)
    """Files by their status."""
    packets: int = 0
    frames: int = 0
    findings: dict[str, int] | None = None
    """By severity; None: nobody looked for any."""
    troubles: list[tuple[str, str, str]] = field(default_factory=list)
    """Files that were not read to their ends: path, status, reason."""


def troubles_of(captures: pa.Table) -> list[tuple[str, str, str]]:
    """Files that were not read to their ends, of the table `captures`: path, status, reason."""
    rows = captures.select(["path", "status", "error"]).to_pylist()
    return [(row["path"], row["status"], row["error"]) for row in rows if row["status"] in _TROUBLES]


def summary_of(store: Store, manifest: Manifest, base: Manifest) -> Summary:
    """What stands after a run that began with ``base``."""
    stored = StoredTables(store)
    tables = [
        TableSummary(name, sum(file.rows for file in files), sum(file.bytes for file in files), len(files))
        for name in manifest.tables
        for files in (manifest.of(name),)
    ]
    captures = stored.read("captures")
    counts = Counter(captures["status"].to_pylist())
    return Summary(
        store.root,
        manifest.generation,
        manifest.generation != base.generation,
        tables,
        dict(sorted(counts.items())),
        pc.sum(captures["packets"]).as_py() or 0,
        pc.sum(captures["frames"]).as_py() or 0,
        _findings(stored) if "findings" in manifest.tables else None,
        troubles_of(captures),
    )


def _findings(stored: Any) -> dict[str, int]:
    counts = Counter(stored.read("findings", ["severity"])["severity"].to_pylist())
    return {word: counts[word] for word in SEVERITIES if counts[word]}
