"""The results of tasks on Spark. A PcliError about bad input is a result, because Spark would repeat a failed task."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from pcli.codec.errors import PcliError
from pcli.spark.jobs.shuffle import in_buckets

__all__ = ["Result", "joined", "result_of", "values_of"]

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
