"""The transport of an exchange's pieces between the tasks that cut and join them, and the results of tasks.

Rules of this file
1. Pairs of partition and bytes pass through the JVM, a few megabytes at a time. The JVM shuffles bytes at a third of
   the cost of rows.
2. Spark delivers the pairs in any order. The joining task sorts the pieces by bucket, rank, item, and position in the
   item.
3. Tasks hold little data. A cutting task sends pieces when they amount to some megabytes. A joining task keeps pieces
   compressed until they are read, and stores pieces beyond `_KEPT` in a temporary file in Spark's local folder.
4. A bucket belongs to one partition, ``bucket % partitions``.
5. A PcliError about bad input is the result of a task, because Spark would repeat a failed task.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count, groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import pyarrow as pa

from pcli.codec.errors import PcliError
from pcli.spark.engine import Block, packed, unpacked

_PIECE: Final = 4 << 20
"""Maximum bytes of rows in a piece, before compression: larger pieces are divided."""

_LOAD: Final = 8 << 20
"""Bytes of compressed pieces that a task collects before it sends them."""

_KEPT: Final = 96 << 20
"""Bytes of compressed pieces that a joining task keeps in memory."""

_Packed = tuple[int, int, int, int, str, bytes]
"""Bucket, rank, item, position in the item, kind, rows."""


def sent(item: int, blocks: Iterator[Block], partitions: int) -> Iterator[tuple[int, bytes]]:
    """Yield an item's pieces in loads: the number of a partition, and the pickled pieces.

    If ``blocks`` raises a PcliError, the last load contains the error.
    """
    held: dict[int, Any] = {}
    size, places = 0, count()
    try:
        for block in blocks:
            for rows in _sliced(block.rows):
                data = packed(rows)
                one = (block.bucket, block.rank, item, next(places), block.kind, data)
                held.setdefault(block.bucket % partitions, []).append(one)
                size += len(data)
                if size > _LOAD:
                    yield from _pairs(held)
                    held, size = {}, 0
    except PcliError as error:
        held = {0: (item, error)}
    yield from _pairs(held)


def _pairs(loads: dict[int, Any]) -> Iterator[tuple[int, bytes]]:
    for partition, load in loads.items():
        yield partition, pickle.dumps(load)


def _sliced(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    parts = max(1, -(-rows.nbytes // _PIECE))
    step = max(1, -(-rows.num_rows // parts))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def in_buckets(loads: Iterable[bytes | pa.Buffer]) -> Iterator[tuple[int, Iterator[tuple[str, pa.RecordBatch]]]]:
    """Yield the buckets of a partition in order, each with the kinds and rows of its sorted pieces.

    Raise the PcliError of a cutting task. If several tasks failed, raise the error of the task with the first item.
    """
    with tempfile.TemporaryFile(prefix="pcli-", dir=_scratch()) as file:
        shelf = _BlockStore(file)
        shelf.fill(loads)
        for bucket, blocks in groupby(shelf.in_order(), key=attrgetter("bucket")):
            yield bucket, map(shelf.opened, blocks)


def _scratch() -> str | None:
    """Return Spark's local folder on this machine, from the workers' environment, as pyspark/shuffle.py does."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((folder for folder in folders if folder and Path(folder).is_dir()), None)


class _StoredBlock(NamedTuple):
    """A piece in a joining task. The first four fields are the sort key. The key is unique."""

    bucket: int
    rank: int
    item: int
    place: int
    kind: str
    data: bytes
    """The compressed rows; empty if the rows are in the file."""
    start: int
    size: int


class _BlockStore:
    """Pieces in the order of arrival, in memory or in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._blocks: list[_StoredBlock] = []
        self._held = 0

    def fill(self, loads: Iterable[bytes | pa.Buffer]) -> None:
        """Store the pieces of all loads."""
        errors = []
        for load in loads:
            result: list[_Packed] | tuple[int, PcliError] = pickle.loads(load)  # noqa: S301  (our own task wrote it)
            if isinstance(result, tuple):
                errors.append(result)
            else:
                self._add(result)
        if errors:
            raise min(errors, key=itemgetter(0))[1]

    def _add(self, blocks: list[_Packed]) -> None:
        for bucket, rank, item, place, kind, data in blocks:
            kept, start = data, 0
            if self._held > _KEPT:
                start, kept = self._file.seek(0, os.SEEK_END), b""
                self._file.write(data)
            self._held += len(kept)
            self._blocks.append(_StoredBlock(bucket, rank, item, place, kind, kept, start, len(data)))

    def in_order(self) -> Iterator[_StoredBlock]:
        """Yield all pieces in order. A piece is released when the next piece is yielded."""
        self._blocks.sort(reverse=True)
        while self._blocks:
            yield self._blocks.pop()

    def opened(self, block: _StoredBlock) -> tuple[str, pa.RecordBatch]:
        """Return the kind and the rows of a piece."""
        if block.data:
            return block.kind, unpacked(block.data)
        self._file.seek(block.start)
        return block.kind, unpacked(self._file.read(block.size))


Result = tuple[int, bool, bytes]
"""The result of a task: the position of its item, whether it succeeded, and the pickled value or PcliError."""


def result_of(place: int, function: Callable[..., Any], *given: Any) -> Result:
    """Call a function in a task, and return its result."""
    try:
        fine, value = True, function(*given)
    except PcliError as error:
        fine, value = False, error
    return place, fine, pickle.dumps(value)


def joined(
    join: Callable[[int, Iterator[tuple[str, pa.RecordBatch]]], Any], loads: Iterable[bytes | pa.Buffer]
) -> Iterator[Result]:
    """Call the function ``join`` of an exchange for the buckets of a partition, and yield the results."""
    try:
        for bucket, blocks in in_buckets(loads):
            yield result_of(bucket, join, bucket, blocks)
    except PcliError as error:  # the task that cut the pieces raised it
        yield -1, False, pickle.dumps(error)


def values_of(results: Iterable[Result]) -> list[Any]:
    """Return the values of all tasks in order; raise the first PcliError among the results."""
    rows = sorted(results)
    for _, fine, data in rows:
        if not fine:
            raise pickle.loads(data)  # noqa: S301  (our own tasks wrote it)
    return [pickle.loads(data) for _, _, data in rows]  # noqa: S301
