"""The engine that runs an analysis's tasks: in this process (`InProcess`), in several (`processes`), or on Spark.

Rules of this file
1. An analysis uses only the methods of `Engine`, so all engines write the same tables. A task is a function that can
   be imported, or a `functools.partial` of such a function; its arguments and results can be pickled.
2. Traffic is never returned as a result: a task writes its files itself and returns their names. Bulk data for other
   tasks passes through `exchange` as rows, in a few large pieces.
3. The order is deterministic. Results are in the order of the items. Pieces are ordered by rank, then by item, then by
   the order in which they were yielded. Nothing depends on which task finished first, or on how often a task ran.
4. Memory holds only what one task needs; `InProcess` stores pieces beyond `_HELD` in a temporary file.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

_T = TypeVar("_T")
_R = TypeVar("_R")
_V = TypeVar("_V")
_V_co = TypeVar("_V_co", covariant=True)

_HELD: Final = 256 << 20
"""Bytes of pieces that are kept in memory."""

_PARTITION: Final = 32 << 20
"""Bytes of items for each partition of an exchange. A task usually needs less memory than this size."""

_UNKNOWN: Final = 200
"""Number of partitions of an exchange if the sizes are unknown."""

_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Block:
    """Rows for one bucket of an exchange."""

    bucket: int
    """Number of the bucket, from 0."""
    rank: int
    """Pieces of a bucket are sorted by rank. Pieces with the same rank are in the order of their items, then in the
    order in which they were yielded."""
    kind: str
    """The kind of rows; `exchange` passes it to ``join``."""
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a stage."""

    what: str
    """The name of the stage, one or two words."""
    done: int
    """Number of completed tasks."""
    active: int
    total: int
    bytes_done: int
    """Sum of the sizes of completed items; 0 if no sizes are known."""
    bytes_total: int
    rows_done: int = 0
    """Number of processed rows, if the stage counts rows."""
    rows_total: int = 0


OnProgress = Callable[[Progress], None]


class Shared(Protocol[_V_co]):
    """A handle to a value that is shared with all tasks. The handle is small and is passed to tasks."""

    @property
    def value(self) -> _V_co:
        """The shared value. It must not be modified."""
        ...


@dataclass(frozen=True, slots=True)
class _Value(Generic[_V]):
    value: _V


Cut = Callable[[_T], Iterator[Block]]
"""A function that yields the pieces of an item."""
Join = Callable[[int, Iterator[tuple[str, pa.RecordBatch]]], _R]
"""A function of a bucket's number and an iterator over the kinds and rows of its pieces, which it need not exhaust."""
Sizes = Sequence[int] | None
"""The bytes of work for each item, used only for progress."""


class Engine(ABC):
    """A runner of tasks."""

    apart: bool = True
    """Whether tasks are independent. If they are, the splits of a recording are read in parallel and merged."""

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        """``on_progress`` is called before the first task and after each task, or a few times a second."""
        self._on_progress = on_progress

    @property
    @abstractmethod
    def parallel(self) -> int:
        """Number of simultaneous tasks."""

    @abstractmethod
    def map(self, what: str, function: Callable[[_T], _R], items: Sequence[_T], *, sizes: Sizes = None) -> list[_R]:
        """Apply the function to each item, in one task per item; return the results in the order of the items.

        A PcliError in a task is raised by this method.
        """

    @abstractmethod
    def exchange(
        self, what: str, cut: Cut[_T], items: Sequence[_T], buckets: int, join: Join[_R], *, sizes: Sizes = None
    ) -> list[_R]:
        """Group rows by bucket: ``cut`` yields the pieces of an item, and ``join`` processes the pieces of a bucket.

        ``join`` is called for each bucket that has pieces. Results are in the order of the buckets; empty buckets have
        no result.
        """

    def suited(self, size: int) -> Engine:
        """Return the engine for captures with this number of bytes. By default it is this engine."""
        return self

    def share(self, value: _V) -> Shared[_V]:
        """Make a value available to all tasks. By default it is a part of the functions that use it."""
        return _Value(value)

    def report_progress(self, progress: Progress) -> None:
        """Report the progress of work that is done outside of tasks."""
        if self._on_progress is not None:
            self._on_progress(progress)

    def close(self) -> None:
        """Release shared values that are no longer used. By default there are none."""
        return


def partitions_of(buckets: int, parallel: int, sizes: Sizes) -> int:
    """Return the number of partitions of an exchange on Spark, at most one for each bucket."""
    return min(buckets, max(4 * parallel, sum(sizes) // _PARTITION if sizes else _UNKNOWN))


def packed(rows: pa.RecordBatch) -> bytes:
    """Encode rows as an Arrow stream without the column descriptions."""
    bare = pa.schema([pa.field(field.name, field.type) for field in rows.schema])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, bare, options=_LZ4) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(rows.columns, schema=bare))
    return bytes(sink.getvalue())


def unpacked(data: Any) -> pa.RecordBatch:
    """Decode the rows of `packed`; ``data`` is bytes or an Arrow buffer."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


class InProcess(Engine):
    """An engine that runs tasks one after another in this process."""

    parallel: Final = 1
    apart = False

    def map(self, what: str, function: Callable[[_T], _R], items: Sequence[_T], *, sizes: Sizes = None) -> list[_R]:
        """See `Engine.map`."""
        return [function(item) for item in self._watched(what, items, sizes)]

    def exchange(
        self, what: str, cut: Cut[_T], items: Sequence[_T], buckets: int, join: Join[_R], *, sizes: Sizes = None
    ) -> list[_R]:
        """See `Engine.exchange`."""
        with tempfile.TemporaryFile(prefix="pcli-") as file:
            heap = _BucketStore(file)
            for item in self._watched(what, items, sizes):
                for block in cut(item):
                    heap.add(block)
            numbers = heap.buckets()
            rows = _RowCount(heap.rows)

            def taken(index: int) -> Iterator[tuple[str, pa.RecordBatch]]:
                for kind, batch in heap.taken(numbers[index]):
                    yield kind, batch
                    rows.done += batch.num_rows
                    self.report_progress(Progress(what, index, 1, len(numbers), 0, 0, rows.done, rows.total))

            return [join(bucket, taken(index)) for index, bucket in enumerate(numbers)]

    def _watched(self, what: str, items: Sequence[_T], sizes: Sizes) -> Iterator[_T]:
        total, so_far = sum(sizes or ()), 0
        for index, item in enumerate(items):
            self.report_progress(Progress(what, index, 1, len(items), so_far, total))
            yield item
            so_far += sizes[index] if sizes else 0
        self.report_progress(Progress(what, len(items), 0, len(items), so_far, total))


@dataclass(slots=True)
class _RowCount:
    total: int
    done: int = 0


class _BucketStore:
    """Storage of pieces by bucket, in memory or in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._held = 0
        self.rows = 0
        """Number of rows of all pieces."""
        self._places: dict[int, list[tuple[int, str, pa.RecordBatch | tuple[int, int]]]] = {}

    def add(self, block: Block) -> None:
        """Store a piece."""
        self.rows += block.rows.num_rows
        place: pa.RecordBatch | tuple[int, int] = block.rows
        if self._held > _HELD:
            data = packed(block.rows)
            place = (self._file.seek(0, 2), len(data))
            self._file.write(data)
        else:
            self._held += block.rows.nbytes
        self._places.setdefault(block.bucket, []).append((block.rank, block.kind, place))

    def buckets(self) -> list[int]:
        """Return the buckets that have pieces."""
        return sorted(self._places)

    def taken(self, bucket: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the pieces of a bucket in order, and remove the bucket."""
        for _, kind, place in sorted(self._places.pop(bucket), key=lambda block: block[0]):
            if isinstance(place, tuple):
                self._file.seek(place[0])
                yield kind, unpacked(self._file.read(place[1]))
            else:
                yield kind, place
