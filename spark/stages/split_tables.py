"""What one split gives to the stages behind the parsing: tables by name, in memory or in files, and what is small.

Rules of this file
1. A task that runs elsewhere writes its tables, and gives their names. In one process they stay in memory as long as
   they are few, and go to files beyond that.
2. Files are Arrow's, packed by lz4: written and read in a tenth of the time that Parquet takes.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Note, StreamEnd
from pcli.spark.columnar.lifecycles.partial_renumbering import Renumbering
from pcli.spark.tables.staging import Staging
from pcli.spark.tables.table_store import refused

__all__ = ["MEMORY", "Counted", "Keeper", "Part", "SplitParts", "Told", "as_batch", "load", "size_of"]

MEMORY: Final = 256 << 20
"""Bytes of tables that one process keeps in memory; the others lie in files of the run."""

_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Part:
    """A table: itself, or the file that it is in."""

    rows: int
    bytes: int
    """In memory."""
    table: pa.Table | None = None
    path: str = ""
    """In the store; empty: it is in memory."""
    shift: Renumbering | None = None
    """How its rows become the recording's; None: they are."""


@dataclass(frozen=True, slots=True)
class Told:
    """A note or an end, and where it stood."""

    after: int
    """Number of the last frame before it; 0: none."""
    last_ns: int
    """When that was captured; 0: there is none."""
    packet_ns: int | None
    """When the packet was captured that told it; None: there is none."""
    item: Note | StreamEnd


@dataclass(slots=True)
class Counted:
    """What was read of one file, or of a split of it."""

    packets: int = 0
    frames: int = 0
    read_bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    links: set[int] = field(default_factory=set)

    def add(self, other: Counted) -> None:
        """Another piece of the same file."""
        self.packets += other.packets
        self.frames += other.frames
        self.read_bytes += other.read_bytes
        self.first_ns = _of(min, self.first_ns, other.first_ns)
        self.last_ns = _of(max, self.last_ns, other.last_ns)
        self.links |= other.links


@dataclass(slots=True)
class SplitParts:
    """All that one split gives."""

    split: int
    """Its place in the recording, from 0."""
    part: int
    """The file it is of, as its place in the recording."""
    tables: dict[str, list[Part]] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    counted: Counted = field(default_factory=Counted)
    frames: Counter[int] = field(default_factory=Counter)
    """Frames by connection, where observing is wanted."""


class Keeper:
    """Puts tables where they can be found again."""

    def __init__(self, staging: Staging, memory: int = 0) -> None:
        """``memory``: bytes of tables that are not written to files."""
        self._staging = staging
        self._left = memory

    def keep(self, name: str, tables: Iterable[pa.Table]) -> list[Part]:
        """The parts of these tables; those without rows are left out."""
        return [self._part(name, table) for table in tables if table.num_rows]

    def _part(self, name: str, table: pa.Table) -> Part:
        size = int(table.nbytes)
        if size <= self._left:
            self._left -= size
            return Part(table.num_rows, size, table)
        path = f"{self._staging.folder}/parts/{name}-{uuid.uuid4().hex}.arrow"
        with (
            refused(self._staging.store.path(path)),
            self._staging.store.create(path) as stream,
            pa.ipc.new_file(stream, table.schema, options=_LZ4) as writer,
        ):
            writer.write_table(table)
        return Part(table.num_rows, size, None, path)


def load(staging: Staging, part: Part) -> pa.Table:
    """The table of a part."""
    if part.table is not None:
        return part.table
    with (
        refused(staging.store.path(part.path)),
        staging.store.files.open_input_file(staging.store.path(part.path)) as file,
    ):
        return pa.ipc.open_file(file).read_all()


def as_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(
        [one.chunk(0) if isinstance(one, pa.ChunkedArray) else one for one in columns], schema=table.schema
    )


def size_of(splits: Iterable[SplitParts], *names: str) -> int:
    """Bytes of these tables of all splits."""
    return sum(part.bytes for split in splits for name in names for part in split.tables.get(name, ()))


def _of(choose: Any, one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return choose(known) if known else None
