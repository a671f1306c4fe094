"""The analysis' four words (`pcli.spark.engine`) said to Spark.

Rules of this file
1. Items go out as one broadcast, and task n takes item n of it: a DataFrame of numbers with a partition each. So no
   data of ours is in a plan, and a task done again gets what it got before.
2. Pieces cross the JVM as rows of bytes, a few large ones a task and bucket: a JVM that only moves bytes costs a third
   of one that has the rows, and Spark's sort and spill hold whatever the memory doesn't.
3. What pcli itself says of bad input is a result, not a failure of the task: Spark would try it three times more.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from pcli.codec.errors import PcliError
from pcli.spark.engine import OnProgress, Piece, Progress, Shared, packed, unpacked
from pcli.spark.jobs.arrow import map_in_arrow
from pcli.spark.jobs.faults import plain_errors
from pcli.spark.jobs.watching import Watch, watched

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkEngine"]

_T = TypeVar("_T")
_R = TypeVar("_R")
_V = TypeVar("_V")

_PIECE: Final = 4 << 20
"""Bytes of rows in a piece, before packing: what is larger is cut."""

_BATCH: Final = 8 << 20
"""Bytes of packed pieces that go to the JVM at a time."""

_PARTITIONS: Final = 200
"""Partitions of an exchange at least, if there are as many buckets: more buckets than that share them."""

_RESULTS: Final = pa.schema([("place", pa.int64()), ("fine", pa.bool_()), ("data", pa.binary())])
_PIECES: Final = pa.schema(
    [
        ("bucket", pa.int32()),
        ("rank", pa.int64()),
        ("item", pa.int64()),
        ("place", pa.int64()),
        ("kind", pa.string()),
        ("data", pa.binary()),
    ]
)
_RESULTS_DDL: Final = "place long, fine boolean, data binary"
_PIECES_DDL: Final = "bucket int, rank long, item long, place long, kind string, data binary"


class SparkEngine:
    """Tasks on Spark."""

    apart: Final = True

    def __init__(self, session: SparkSession, on_progress: OnProgress | None = None) -> None:
        """``on_progress`` is told from another thread, a few times a second."""
        self._session = session
        self._told = on_progress

    @property
    def parallel(self) -> int:
        """Cores that Spark has for tasks, as far as it knows by now."""
        return int(self._session.sparkContext.defaultParallelism)

    def share(self, value: _V) -> Shared[_V]:
        """The value as a broadcast: each worker process reads it once."""
        shared: Shared[_V] = self._session.sparkContext.broadcast(value)
        return shared

    def tell(self, progress: Progress) -> None:
        """As `Engine.tell`."""
        if self._told is not None:
            self._told(progress)

    def map(
        self, what: str, function: Callable[[_T], _R], items: Sequence[_T], *, sizes: Sequence[int] | None = None
    ) -> list[_R]:
        """As `Engine.map`."""
        if not items:
            return []
        with self._watch(what, len(items), sizes) as watch:
            task = _Map(self._sent(items), function, watch.count if sizes else None, tuple(sizes or ()))
            return self._collected(map_in_arrow(self._numbers(len(items)), task, _RESULTS_DDL))

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
        if not items:
            return []
        partitions = min(buckets, max(_PARTITIONS, 4 * self.parallel))
        with self._watch(what, len(items) + partitions, sizes) as watch:
            task = _Cut(self._sent(items), cut, watch.count if sizes else None, tuple(sizes or ()))
            pieces = map_in_arrow(self._numbers(len(items)), task, _PIECES_DDL)
            own = pieces.selectExpr("*", f"bucket % {partitions} AS part").repartitionById(partitions, "part")
            ordered = own.drop("part").sortWithinPartitions("bucket", "rank", "item", "place")
            return self._collected(map_in_arrow(ordered, _Join(join), _RESULTS_DDL))

    def _watch(self, what: str, tasks: int, sizes: Sequence[int] | None) -> AbstractContextManager[Watch]:
        return watched(self._session, what, tasks, sum(sizes or ()), self._told)

    def _sent(self, items: Sequence[Any]) -> Broadcast[list[bytes]]:
        return self._session.sparkContext.broadcast([pickle.dumps(item) for item in items])

    def _numbers(self, count: int) -> DataFrame:
        return self._session.range(0, count, 1, count)

    def _collected(self, results: DataFrame) -> list[Any]:
        with plain_errors():
            rows = results.collect()
        for row in rows:
            if not row["fine"]:
                raise pickle.loads(row["data"])  # noqa: S301  (our own tasks wrote it)
        return [pickle.loads(row["data"]) for row in sorted(rows, key=lambda row: int(row["place"]))]  # noqa: S301


def _result(place: int, function: Callable[..., Any], *given: Any) -> pa.RecordBatch:
    """A row of _RESULTS: what the function gives, or the PcliError that it raises."""
    try:
        fine, value = True, function(*given)
    except PcliError as error:
        fine, value = False, error
    return pa.RecordBatch.from_arrays([[place], [fine], [pickle.dumps(value)]], schema=_RESULTS)


@dataclass(slots=True)
class _Task:
    """What a task needs: its items are those whose numbers it is given."""

    items: Broadcast[list[bytes]]
    function: Callable[[Any], Any]
    count: Callable[[int], None] | None
    sizes: tuple[int, ...]

    __name__ = "pcli"

    def given(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
        """Numbers and items."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield number, pickle.loads(self.items.value[number])  # noqa: S301  (our own driver wrote it)
                if self.count is not None:
                    self.count(self.sizes[number])


class _Map(_Task):
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, item in self.given(batches):
            yield _result(number, self.function, item)


class _Cut(_Task):
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, item in self.given(batches):
            yield from _batches(number, self.function(item))


def _batches(number: int, pieces: Iterator[Piece]) -> Iterator[pa.RecordBatch]:
    """Rows of _PIECES, a few megabytes at a time; of a PcliError one row more, without a bucket of its own."""
    rows: list[tuple[Any, ...]] = []
    held = 0
    places = itertools.count()
    try:
        for piece in pieces:
            for rows_of in _sliced(piece.rows):
                rows.append((piece.bucket, piece.rank, number, next(places), piece.kind, packed(rows_of)))
                held += len(rows[-1][-1])
                if held > _BATCH:
                    yield _piece_rows(rows)
                    rows, held = [], 0
    except PcliError as error:
        rows.append((0, -1, number, next(places), _ERROR, pickle.dumps(error)))
    if rows:
        yield _piece_rows(rows)


_ERROR: Final = "\0error"
"""Kind of the row that says what went wrong in `cut`."""


def _piece_rows(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows), _PIECES)]
    return pa.RecordBatch.from_arrays(columns, schema=_PIECES)


def _sliced(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    parts = max(1, -(-rows.nbytes // _PIECE))
    step = max(1, -(-rows.num_rows // parts))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


@dataclass(slots=True)
class _Join:
    function: Callable[[int, Iterator[tuple[str, pa.RecordBatch]]], Any]

    __name__ = "pcli"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for bucket, pieces in itertools.groupby(_rows(batches), key=itemgetter(0)):
            yield _result(bucket, self.function, bucket, _opened(pieces))


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str, pa.Buffer]]:
    for batch in batches:
        for bucket, kind, data in zip(batch.column("bucket"), batch.column("kind"), batch.column("data")):
            yield bucket.as_py(), kind.as_py(), data.as_buffer()


def _opened(pieces: Iterator[tuple[int, str, pa.Buffer]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for _, kind, data in pieces:
        if kind == _ERROR:
            raise pickle.loads(data.to_pybytes())  # noqa: S301  (our own task wrote it)
        yield kind, unpacked(data)
