"""`pcli.spark.engine.Engine` on Spark, with RDDs of bytes.

Rules of this file
1. Each item has its own task and is sent with the task; a large item is sent as a broadcast. A worker therefore
   receives only the items of its own tasks, and a repeated task receives the same input.
2. Spark SQL is not used, because moving bytes needs no query plans, and a JVM that does not load Spark SQL starts its
   first task in half the CPU time (docs/spark.md). A caller may pass an existing session.
3. Pieces also pass through the JVM as bytes (`pcli.spark.jobs.shuffle`): the JVM shuffles them, and tasks sort them.
4. A PcliError about bad input is a result, not a failure of the task, because Spark would repeat a failed task three
   times.
5. A broadcast is destroyed when it is no longer referenced, because it occupies memory and files of all executors.
6. If a stage is interrupted (Ctrl-C), its jobs are cancelled first, so that no task continues to write.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pcli.spark.engine import Cut, Engine, Join, OnProgress, Shared, Sizes, partitions_of
from pcli.spark.jobs.job_cancellation import cancelled_if_left
from pcli.spark.jobs.job_progress import watched
from pcli.spark.jobs.shuffle import Result, joined, result_of, sent, values_of
from pcli.spark.jobs.spark_errors import plain_errors

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext
    from pyspark.sql import SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")
_V = TypeVar("_V")

_LARGE: Final = 1 << 20
"""Minimum size in bytes of an item that is sent as a broadcast, because Spark's messages to executors must be small."""

_Row = tuple[int, int, bytes]
"""An item in the form sent to its task: number, size, pickle (empty if the item is a broadcast)."""


class SparkEngine(Engine):
    """An engine that runs tasks on Spark."""

    def __init__(self, spark: SparkContext | SparkSession, on_progress: OnProgress | None = None) -> None:
        """``on_progress`` is called in a separate thread, a few times a second."""
        super().__init__(on_progress)
        self._context: SparkContext = getattr(spark, "sparkContext", None) or spark  # type: ignore[assignment]
        self._release: deque[Broadcast[Any]] = deque()

    @property
    def parallel(self) -> int:
        """Number of cores that Spark currently has for tasks."""
        return int(self._context.defaultParallelism)

    def share(self, value: _V) -> Shared[_V]:
        """Broadcast the value; each worker process reads it once.

        The broadcast is destroyed when the handle is released.
        """
        self._sweep()
        with plain_errors():
            return _Shared(self._context.broadcast(value), self._release)

    def map(self, what: str, function: Callable[[_T], _R], items: Sequence[_T], *, sizes: Sizes = None) -> list[_R]:
        """See `Engine.map`."""
        if not items:
            return []
        with self._stage(what, items, len(items), sizes) as stage:
            return values_of(stage.rows.mapPartitions(_Map(function, stage.large, stage.count)).collect())

    def exchange(
        self, what: str, cut: Cut[_T], items: Sequence[_T], buckets: int, join: Join[_R], *, sizes: Sizes = None
    ) -> list[_R]:
        """See `Engine.exchange`."""
        if not items:
            return []
        partitions = partitions_of(buckets, self.parallel, sizes)
        with self._stage(what, items, len(items) + partitions, sizes) as stage:
            blocks = stage.rows.mapPartitions(_Cut(cut, stage.large, stage.count, partitions))
            return values_of(self._shuffled(blocks, partitions).mapPartitions(_Join(join)).collect())

    def close(self) -> None:
        """Destroy the shared values whose handles are released. Spark is not stopped."""
        self._sweep()

    @contextmanager
    def _stage(self, what: str, items: Sequence[Any], tasks: int, sizes: Sizes) -> Iterator[_Stage]:
        """Yield the input of a stage; release all of the input at the end."""
        self._sweep()
        with plain_errors():
            rows, large = self._rows(items, sizes or [0] * len(items))
        try:
            with (
                plain_errors(),
                watched(self._context, what, tasks, sum(sizes or ()), self._on_progress) as count,
                cancelled_if_left(self._context),
            ):
                yield _Stage(self._context.parallelize(rows, len(rows)), large, count if sizes else None)
        finally:
            self._release.extend(large.values())
        self._sweep()

    def _rows(self, items: Sequence[Any], sizes: Sequence[int]) -> tuple[list[_Row], dict[int, Broadcast[bytes]]]:
        rows: list[_Row] = []
        large = {}
        for number, (item, size) in enumerate(zip(items, sizes)):
            data = pickle.dumps(item)
            if len(data) > _LARGE:
                large[number], data = self._context.broadcast(data), b""
            rows.append((number, size, data))
        return rows, large

    def _shuffled(self, pairs: RDD[bytes], partitions: int) -> RDD[bytes]:
        """Move each load to its partition, like `RDD.partitionBy`, but without collecting pairs in Python first.

        `RDD.partitionBy` would hold up to a thousand pairs at a time, whatever their size.
        """
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        java: Any = self._context._jvm
        pairs._bypass_serializer = True  # type: ignore[attr-defined]
        made = java.PairwiseRDD(pairs._jrdd.rdd()).asJavaPairRDD()
        placed = made.partitionBy(java.PythonPartitioner(partitions, 0))
        return RDD(java.PythonRDD.valueOfPair(placed), self._context, NoOpSerializer())

    def _sweep(self) -> None:
        """Destroy released broadcasts. `__del__` must not do so, because it may run during a call to the JVM."""
        while self._release:
            with suppress(Exception):  # the JVM may have ended, or the file may have been removed
                self._release.popleft().destroy()


@dataclass(frozen=True, slots=True)
class _Stage:
    rows: RDD[_Row]
    large: Mapping[int, Broadcast[bytes]]
    count: Callable[[int], None] | None


class _Shared(Generic[_V]):
    """A handle that queues its broadcast for destruction when the handle is released. Tasks receive the broadcast."""

    def __init__(self, broadcast: Broadcast[_V], let_go: deque[Broadcast[Any]]) -> None:
        self._broadcast = broadcast
        self._release = let_go

    @property
    def value(self) -> _V:
        return self._broadcast.value

    def __reduce__(self) -> tuple[Callable[[Broadcast[_V]], Broadcast[_V]], tuple[Broadcast[_V]]]:
        return _itself, (self._broadcast,)

    def __del__(self) -> None:
        self._release.append(self._broadcast)


def _itself(broadcast: Broadcast[_V]) -> Broadcast[_V]:
    return broadcast


# -- in tasks ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Task:
    """The common part of the tasks of a stage."""

    function: Callable[[Any], Any]
    large: Mapping[int, Broadcast[bytes]]
    count: Callable[[int], None] | None

    def given(self, rows: Iterable[_Row]) -> Iterator[tuple[int, Any]]:
        """Yield numbers and items; count an item when it is processed."""
        for number, size, data in rows:
            yield number, pickle.loads(data or self.large[number].value)  # noqa: S301  (our own driver wrote it)
            if self.count is not None:
                self.count(size)


class _Map(_Task):
    def __call__(self, rows: Iterable[_Row]) -> Iterator[Result]:
        for number, item in self.given(rows):
            yield result_of(number, self.function, item)


@dataclass(slots=True)
class _Cut(_Task):
    parts: int

    def __call__(self, rows: Iterable[_Row]) -> Iterator[bytes]:
        for number, item in self.given(rows):
            for partition, load in sent(number, self.function(item), self.parts):
                yield partition.to_bytes(8, "big")
                yield load


@dataclass(slots=True)
class _Join:
    function: Join[Any]

    def __call__(self, loads: Iterable[bytes]) -> Iterator[Result]:
        return joined(self.function, loads)
