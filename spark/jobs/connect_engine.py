"""`pcli.spark.engine.Engine` on Spark Connect, with DataFrames of bytes.

Rules of this file
1. A row is an item: its number and its pickle. ``repartitionById`` gives each item its own task, and each bucket of an
   exchange its partition.
2. Spark Connect has no broadcasts. A shared value is a part of the function, which Spark sends once per stage to each
   executor. The server limits a message to 128 MB (spark.connect.grpc.maxInboundMessageSize).
3. A PcliError about bad input is a result, as in `pcli.spark.jobs.spark_engine`.
4. Spark Connect reports the progress of tasks, but no accumulators: the number of bytes is unknown.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from pcli.codec.errors import PcliError
from pcli.spark.engine import Block, Cut, Engine, Join, OnProgress, Progress, Sizes, partitions_of
from pcli.spark.jobs.shuffle import Result, joined, result_of, sent, values_of
from pcli.spark.jobs.spark_errors import plain_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

_T = TypeVar("_T")
_R = TypeVar("_R")

_Batches = Iterator[pa.RecordBatch]

_PIECES: Final = "partition int, data binary"
_RESULTS: Final = "place int, fine boolean, data binary"
_ROWS: Final = 1 << 16
"""Number of rows of the range whose partitions are counted: more than a cluster has cores."""


class ConnectEngine(Engine):
    """An engine that runs tasks on a Spark Connect server."""

    def __init__(self, spark: ConnectSession | SparkSession, on_progress: OnProgress | None = None) -> None:
        """``spark`` is a session of Spark Connect. ``on_progress`` is called while a stage runs."""
        super().__init__(on_progress)
        self._spark: Any = spark
        self._parallel = 0

    @property
    def parallel(self) -> int:
        """The default parallelism of the server: the number of partitions of a range. The first call runs a job."""
        if not self._parallel:
            from pyspark.sql.connect.functions import spark_partition_id

            with plain_errors():
                self._parallel = self._spark.range(_ROWS).select(spark_partition_id()).distinct().count()
        return self._parallel

    def map(self, what: str, function: Callable[[_T], _R], items: Sequence[_T], *, sizes: Sizes = None) -> list[_R]:
        """See `Engine.map`."""
        if not items:
            return []
        with self._stage(what, len(items)):
            return _collected(self._rows(items).mapInArrow(_Map(function), _RESULTS))

    def exchange(
        self, what: str, cut: Cut[_T], items: Sequence[_T], buckets: int, join: Join[_R], *, sizes: Sizes = None
    ) -> list[_R]:
        """See `Engine.exchange`."""
        if not items:
            return []
        partitions = partitions_of(buckets, self.parallel, sizes)
        with self._stage(what, len(items) + partitions):
            pieces = self._rows(items).mapInArrow(_Cut(cut, partitions), _PIECES)
            return _collected(pieces.repartitionById(partitions, "partition").mapInArrow(_Join(join), _RESULTS))

    def _rows(self, items: Sequence[Any]) -> DataFrame:
        numbers = pa.array(range(len(items)), pa.int32())
        table = pa.table({"number": numbers, "data": pa.array(map(pickle.dumps, items), pa.binary())})
        rows: DataFrame = self._spark.createDataFrame(table)
        return rows.repartitionById(len(items), "number")

    @contextmanager
    def _stage(self, what: str, tasks: int) -> Iterator[None]:
        """Report the progress of a stage. If it is interrupted, interrupt its jobs."""
        tag = f"pcli-{uuid.uuid4().hex}"
        self._spark.addTag(tag)
        try:
            with plain_errors(), self._watched(what, tasks):
                yield
        except PcliError:
            raise
        except BaseException:
            with suppress(Exception):  # the server may have ended
                self._spark.interruptTag(tag)
            raise
        finally:
            self._spark.removeTag(tag)

    @contextmanager
    def _watched(self, what: str, tasks: int) -> Iterator[None]:
        report = self._on_progress
        if report is None:
            yield
            return

        def on_stages(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
            completed = sum(stage.num_completed_tasks for stage in stages or ())
            report(Progress(what, min(completed, tasks), inflight_tasks, tasks, 0, 0))

        report(Progress(what, 0, 0, tasks, 0, 0))
        self._spark.registerProgressHandler(on_stages)
        try:
            yield
        finally:
            self._spark.removeProgressHandler(on_stages)
        report(Progress(what, tasks, 0, tasks, 0, 0))


def _collected(results: DataFrame) -> list[Any]:
    columns = results.toArrow().to_pydict()
    return values_of(zip(columns["place"], columns["fine"], columns["data"]))


# -- in tasks ----------------------------------------------------------------------------------------------------------


def _items(batches: _Batches) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for number, data in zip(batch["number"].to_pylist(), batch["data"]):
            yield number, pickle.loads(data.as_buffer())  # noqa: S301  (our own driver wrote it)


def _results(results: Iterable[Result]) -> _Batches:
    for place, fine, data in results:
        arrays = [pa.array([place], pa.int32()), pa.array([fine]), pa.array([data], pa.binary())]
        yield pa.record_batch(arrays, names=["place", "fine", "data"])


@dataclass(frozen=True, slots=True)
class _Map:
    function: Callable[[Any], Any]

    def __call__(self, batches: _Batches) -> _Batches:
        return _results(result_of(number, self.function, item) for number, item in _items(batches))


@dataclass(frozen=True, slots=True)
class _Cut:
    function: Callable[[Any], Iterator[Block]]
    partitions: int

    def __call__(self, batches: _Batches) -> _Batches:
        for number, item in _items(batches):
            for partition, load in sent(number, self.function(item), self.partitions):
                arrays = [pa.array([partition], pa.int32()), pa.array([load], pa.binary())]
                yield pa.record_batch(arrays, names=["partition", "data"])


@dataclass(frozen=True, slots=True)
class _Join:
    function: Join[Any]

    def __call__(self, batches: _Batches) -> _Batches:
        return _results(joined(self.function, (data.as_buffer() for batch in batches for data in batch["data"])))
