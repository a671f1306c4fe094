"""Rotating captures as they are finished: Spark says which files are new, and each batch is an incremental run.

Rules of this file
1. Spark's file source lists the folder and writes down in its checkpoint which files are in which batch, before the
   batch is worked on. Only paths come from it: the content is read where all captures are read (so a file may be
   larger than the 2 GB of a value).
2. A batch is one run over the tables, and takes hold as one. Killed before that, Spark gives the same batch again;
   killed between that and Spark's own note that it is done, it gives the batch again too, and the run finds its files
   known and changes nothing. So every file counts once.
3. A checkpoint that has taken files whose tables are gone would leave them out for ever: that is an error.
4. A file that comes late is read together with those behind it, if they are still there: so a run is told of all files
   that were taken so far, not of the new ones alone.
5. The files of a batch are those that were finished when it was planned. A file that is seen while it is being written
   is never looked at again: move files in (docs/spark.md).
6. Spark gives a batch again and again until it is done. So what comes is no reason to give it up: a batch without any
   capture is told in the table `captures`, and the next one has its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError, PcliError
from pcli.spark.analysis import analyze
from pcli.spark.input.capture_files import place_of
from pcli.spark.jobs.job_cancellation import stop_apart
from pcli.spark.jobs.paths import plain_path, spark_path
from pcli.spark.jobs.spark_engine import SparkEngine
from pcli.spark.jobs.spark_errors import plain_errors
from pcli.spark.request import Request
from pcli.spark.summary import Summary
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_commit import read_manifest
from pcli.spark.tables.table_store import open_store
from pcli.spark.tables.uri_redaction import hidden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OnBatch", "Stream"]

OnBatch = Callable[[int, int, Summary], None]
"""Told after a batch: its number, how many files it had, what the tables are now."""

_SCHEMA: Final = "path string, modificationTime timestamp, length long, content binary"
"""Of Spark's binaryFile; a stream can't find it out for itself."""


class Stream:
    """A folder that is being watched."""

    def __init__(
        self,
        session: SparkSession,
        request: Request,
        checkpoint: str,
        *,
        most: int = 1000,
        on_batch: OnBatch | None = None,
    ) -> None:
        """``request.paths`` is the one folder; ``most`` files are taken at a time, the oldest first.

        Raises LocalError when the folder is not there, or the checkpoint is not that of these tables.
        """
        self._session = session
        self._request = request
        self._checkpoint = spark_path(checkpoint)
        self._most = most
        self._told = on_batch
        self._error: PcliError | None = None
        self._query: Any = None
        _check(request, self._checkpoint)

    def run(self, *, every_s: float = 10, once: bool = False) -> None:
        """Take files as they come, with so many seconds between two looks; ``once``: those that are there.

        Raises the PcliError that ended it.
        """
        reader = self._session.readStream.format("binaryFile").schema(_SCHEMA)
        files = reader.option("maxFilesPerTrigger", self._most).load(spark_path(self._request.paths[0]))
        writer = files.select("path", "length").writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", self._checkpoint)
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")
        with self._own_error(), plain_errors():
            self._query = writer.start()
            self._query.awaitTermination()

    def stop(self) -> None:
        """End it. What the batch at hand has not brought to its end is done again next time."""
        if self._query is not None:
            stop_apart(self._query.stop)

    def _batch(self, files: DataFrame, number: int) -> None:
        """What Spark calls for each batch, in a thread of its own."""
        new = {plain_path(row["path"]) for row in files.collect()}
        if not new:
            return
        try:
            paths = sorted(new | set(_still_there(self._request.out)))
            with closing(SparkEngine(self._session)) as engine:
                summary = analyze(replace(self._request, paths=tuple(paths)), engine, may_be_none=True)
        except PcliError as error:
            self._error = error
            raise
        if self._told is not None:
            self._told(number, len(new), summary)

    @contextmanager
    def _own_error(self) -> Iterator[None]:
        """What a batch said of ours instead of what Spark made of it."""
        try:
            yield
        except LocalError:
            if self._error is not None:
                raise self._error from None
            raise


def _still_there(out: str) -> Iterator[str]:
    """The files that the tables are of, but for those that are gone."""
    store = open_store(out)
    if read_manifest(store) is not None:
        for path in StoredTables(store).read("captures", ["path"])["path"].to_pylist():
            files, inner = place_of(path)
            if files.get_file_info(inner).is_file:
                yield path


def _check(request: Request, checkpoint: str) -> None:
    folder = request.paths[0]
    if "://" not in folder and not Path(folder).is_dir():
        raise LocalError(f"{hidden(folder)}: {'this is no folder' if Path(folder).exists() else 'no such folder'}")
    taken = open_store(plain_path(checkpoint)).list("commits")
    if taken and read_manifest(open_store(request.out)) is None:
        text = f"{plain_path(checkpoint)}: its files were taken into tables that are not in {request.out}: "
        raise LocalError(hidden(text) + "name these tables, or a new checkpoint")
