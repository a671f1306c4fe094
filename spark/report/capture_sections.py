"""The sections about the captures: gaps, and the files with the extent to which each was read."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.report.number_format import name_text, number, size
from pcli.spark.report.page_elements import Cell, Section, TableText, count_cell
from pcli.spark.summary import troubles_of

MOST_GAPS: Final = 50


def gaps(table: pa.Table, captures: pa.Table) -> Section:
    """Return the section on gaps in the captures, which make findings uncertain."""
    section = Section("Gaps and certainty", "gaps")
    unread = len(troubles_of(captures))
    if unread:
        files = "1 file" if unread == 1 else f"{number(unread)} files"
        section.texts.append(f"{files} could not be read to the end: see the section Captures.")
    if not table.num_rows and not unread:
        section.texts.append(
            "The captures contain every byte of each connection, starting with the first captured packet."
        )
    if not table.num_rows:
        return section
    lost = pc.sum(table.filter(pc.equal(table["kind"], "gap"))["bytes"]).as_py() or 0
    holes = table["kind"].to_pylist().count("gap")
    reported = [f"{number(holes)} gap{'s' if holes != 1 else ''} with {size(lost)} of missing data"] if holes else []
    others = table.num_rows - holes
    reported += [f"{number(others)} other note{'s' if others != 1 else ''}"][:others]
    section.texts.append(f"{' and '.join(reported)}. Findings that a gap could explain are less certain.")
    worst = table.sort_by([("bytes", "descending")]).slice(0, MOST_GAPS).to_pylist()
    rows = [
        (
            row["kind"],
            name_text(row["capture"]),
            count_cell(row["connection"]),
            name_text(row["direction"]),
            count_cell(row["bytes"]),
            count_cell(row["packet"]),
            name_text(row["text"]),
        )
        for row in worst
    ]
    head = ("kind", "file", "connection", "sent by", "bytes", "packet", "description")
    more = f"The {MOST_GAPS} largest of {table.num_rows:,} gaps and notes." if table.num_rows > MOST_GAPS else ""
    section.tables.append(TableText("The largest gaps", head, rows, frozenset({2, 4, 5}), more))
    return section


def captures(table: pa.Table) -> Section:
    """Return the section on the files and the extent to which each was read."""
    section = Section("Captures", "captures")
    rows = [
        (
            name_text(row["path"]),
            row["status"] if not row["error"] else f"{row['status']}: {name_text(row['error'])}",
            name_text(row["cluster"]),
            Cell(size(row["file_bytes"] or 0), row["file_bytes"] or 0),
            count_cell(row["packets"]), count_cell(row["frames"]),
        )
        for row in sorted(table.to_pylist(), key=_place)
    ]  # fmt: skip
    head = ("file", "status", "cluster", "size", "packets", "frames")
    more = f"The first 200 of {len(rows):,} files." if len(rows) > 200 else ""
    section.tables.append(TableText("All files", head, rows[:200], frozenset({3, 4, 5}), more))
    return section


def _place(row: dict[str, Any]) -> tuple[bool, bool, str, int]:
    """Return the sort key of a file: files not read to their end first, files that are not captures last."""
    return (row["status"] == "not a capture", row["status"] == "read", row["cluster"], row["part"] or 0)
