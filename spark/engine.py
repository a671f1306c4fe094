"""What an analysis asks of whoever runs it: this process (`InProcess`), or Spark (`pcli.spark.jobs.spark_engine`).

Rules of this file
1. An analysis is written once, over these four words; so both ways give the same tables. What runs in a task is a
   function that can be imported, or a `functools.partial` of one, and what it is given and gives can be pickled.
2. Traffic never goes through here as results: a task writes its files itself and gives back their names. What one task
   says for another in bulk goes as rows through `exchange`, and as few large pieces of them.
3. Order is certain: results stand in the order of items, pieces in that of ranks, items and yielding. Nothing depends
   on which task was done first, or how often.
4. No more is held at a time than one task needs; here pieces beyond `_HELD` lie in a temporary file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

__all__ = ["Engine", "InProcess", "OnProgress", "Piece", "Progress", "Shared", "packed", "unpacked"]

_T = TypeVar("_T")
_R = TypeVar("_R")
_V = TypeVar("_V")
_V_co = TypeVar("_V_co", covariant=True)

_HELD: Final = 256 << 20
"""Bytes of pieces that are kept in memory."""

_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows for one bucket of an exchange."""

    bucket: int
    """From 0."""
    rank: int
    """Pieces of a bucket come in the order of their ranks; of one rank in that of items, then as yielded."""
    kind: str
    """What the rows are; `exchange` hands it on."""
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the work is."""

    what: str
    """The stage, in a word or two."""
    done: int
    """Tasks."""
    active: int
    total: int
    bytes_done: int
    """Of the sizes that were given with the items; 0: none were."""
    bytes_total: int


OnProgress = Callable[[Progress], None]


class Shared(Protocol[_V_co]):
    """A value that all tasks may have; itself small, to be given to tasks."""

    @property
    def value(self) -> _V_co:
        """The value; never to be changed."""
        ...


class Engine(Protocol):
    """Who runs tasks."""

    @property
    def parallel(self) -> int:
        """Tasks at a time."""
        ...

    @property
    def apart(self) -> bool:
        """Whether tasks know nothing of each other: then splits of one recording are read apart, and stitched."""
        ...

    def map(
        self, what: str, function: Callable[[_T], _R], items: Sequence[_T], *, sizes: Sequence[int] | None = None
    ) -> list[_R]:
        """What the function gives for each item: a task an item, results in the order of items.

        ``sizes``: bytes of work behind each item, for the progress alone. PcliError of a task is raised here.
        """
        ...

    def exchange(
        self,
        what: str,
        cut: Callable[[_T], Iterator[Piece]],
        items: Sequence[_T],
        buckets: int,
        join: Callable[[int, Iterator[tuple[str, pa.RecordBatch]]], _R],
        *,
        sizes: Sequence[int] | None = None,
    ) -> list[_R]:
        """Bring together what belongs together: ``cut`` yields an item's pieces, ``join`` takes those of a bucket.

        ``join`` is called with the number of a bucket that has pieces and with their kinds and rows, and reads them as
        far as it wants. Results in the order of buckets; buckets without pieces give none.
        """
        ...

    def share(self, value: _V) -> Shared[_V]:
        """A value for all tasks."""
        ...

    def tell(self, progress: Progress) -> None:
        """Pass on the progress of work that is done outside of tasks."""
        ...


def packed(rows: pa.RecordBatch) -> bytes:
    """Rows as bytes, an Arrow stream; words on columns are left out."""
    bare = pa.schema([pa.field(field.name, field.type) for field in rows.schema])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, bare, options=_LZ4) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(rows.columns, schema=bare))
    return bytes(sink.getvalue())


def unpacked(data: Any) -> pa.RecordBatch:
    """The rows of `packed`; ``data`` is bytes or an Arrow buffer."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


@dataclass(frozen=True, slots=True)
class _Here(Generic[_V]):
    value: _V


class InProcess:
    """One task after the other, here."""

    parallel: Final = 1
    apart: Final = False

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        """``on_progress`` is told when a task is done."""
        self._told = on_progress

    def share(self, value: _V) -> Shared[_V]:
        """The value as it is."""
        return _Here(value)

    def map(
        self, what: str, function: Callable[[_T], _R], items: Sequence[_T], *, sizes: Sequence[int] | None = None
    ) -> list[_R]:
        """As `Engine.map`."""
        return [function(item) for item in self._watched(what, items, sizes)]

    def exchange(
        self,
        what: str,
        cut: Callable[[_T], Iterator[Piece]],
        items: Sequence[_T],
        buckets: int,
        join: Callable[[int, Iterator[tuple[str, pa.RecordBatch]]], _R],
        *,
        sizes: Sequence[int] | None = None,
    ) -> list[_R]:
        """As `Engine.exchange`."""
        with tempfile.TemporaryFile(prefix="pcli-") as file:
            heap = _Heap(file)
            for item in self._watched(what, items, sizes):
                for piece in cut(item):
                    heap.add(piece)
            return [join(bucket, heap.taken(bucket)) for bucket in self._watched(what, heap.buckets(), None)]

    def _watched(self, what: str, items: Sequence[_T], sizes: Sequence[int] | None) -> Iterator[_T]:
        total, so_far = sum(sizes or ()), 0
        for index, item in enumerate(items):
            self.tell(Progress(what, index, 1, len(items), so_far, total))
            yield item
            so_far += sizes[index] if sizes else 0
        self.tell(Progress(what, len(items), 0, len(items), so_far, total))

    def tell(self, progress: Progress) -> None:
        """As `Engine.tell`."""
        if self._told is not None:
            self._told(progress)


class _Heap:
    """Pieces by their bucket, in memory or in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._held = 0
        self._places: dict[int, list[tuple[int, str, pa.RecordBatch | tuple[int, int]]]] = {}

    def add(self, piece: Piece) -> None:
        """Keep a piece."""
        place: pa.RecordBatch | tuple[int, int] = piece.rows
        if self._held > _HELD:
            data = packed(piece.rows)
            place = (self._file.seek(0, 2), len(data))
            self._file.write(data)
        else:
            self._held += piece.rows.nbytes
        self._places.setdefault(piece.bucket, []).append((piece.rank, piece.kind, place))

    def buckets(self) -> list[int]:
        """The buckets that have pieces."""
        return sorted(self._places)

    def taken(self, bucket: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The pieces of a bucket in order; they are let go of as they are given."""
        for _, kind, place in sorted(self._places.pop(bucket), key=lambda piece: piece[0]):
            if isinstance(place, tuple):
                self._file.seek(place[0])
                yield kind, unpacked(self._file.read(place[1]))
            else:
                yield kind, place
