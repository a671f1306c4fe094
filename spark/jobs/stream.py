"""Analysis of rotated captures when they are finished. Spark detects new files, and each batch is an incremental run.

Rules of this file
1. Before a batch is processed, Spark's file source lists the folder and records the files of the batch in its
   checkpoint. Only paths come from Spark. The capture readers read the content, so a file may be larger than 2 GB, the
   limit of a value in Spark.
2. A batch is one run on the tables and is atomic. If the run is killed before its commit, Spark repeats the batch. If
   the run is killed after its commit but before Spark records the batch as completed, Spark also repeats the batch; the
   tables then already contain all files of the batch, and nothing changes. Every file is therefore processed exactly
   once.
3. The checkpoint contains the id of its tables (stream_record.py). If these tables are missing, or if there are other
   tables in their place, an error is raised, because the files of the checkpoint would never be read again.
4. A late file is read together with the files that follow it, if these still exist. A run therefore receives all files
   read so far, not only the new files.
5. The files of a batch must be finished when the batch is planned. A file that is listed while it is being written is
   not read again: move finished files into the folder (docs/spark.md).
6. Spark repeats a failed batch until it succeeds, so bad files must not cause a failure: a batch without any capture is
   reported in the table `captures`, and the next batch follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError, PcliError
from pcli.spark.analysis import analyze
from pcli.spark.input.capture_files import place_of
from pcli.spark.jobs.job_cancellation import stop_in_thread
from pcli.spark.jobs.paths import plain_path, spark_path
from pcli.spark.jobs.spark_engine import SparkEngine
from pcli.spark.jobs.spark_errors import plain_errors
from pcli.spark.jobs.stream_record import OnFinding, StreamRecord
from pcli.spark.request import Request
from pcli.spark.summary import Summary
from pcli.spark.tables.run_commit import STATE
from pcli.spark.tables.runs import read_runs, tables_id
from pcli.spark.tables.stored_tables import StoredTables
from pcli.spark.tables.table_store import open_store
from pcli.spark.tables.uri_redaction import hidden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True, slots=True)
class Batch:
    """A completed batch."""

    number: int
    files: int
    summary: Summary
    """The summary of the tables."""
    lag_s: float
    """Seconds between the last change of the newest file in the batch and the end of the batch."""
    state_bytes: int
    """Size of the state for the next batch."""
    new_findings: int | None
    """Number of findings that were not in the tables before, or that could not be reported; None if there is no table
    of findings."""


OnBatch = Callable[[Batch], None]
"""A function that is called after a batch."""

OnUnreported = Callable[[str], None]
"""A function that is called with the reason why findings could not be reported."""

_SCHEMA: Final = "path string, modificationTime timestamp, length long, content binary"
"""The schema of Spark's binaryFile source. A stream does not infer it."""


class Stream:
    """A folder whose new files are read in batches."""

    def __init__(
        self,
        session: SparkSession,
        request: Request,
        checkpoint: str,
        *,
        most: int = 1000,
        key_log: str = "",
        on_batch: OnBatch | None = None,
        on_finding: OnFinding | None = None,
        on_unreported: OnUnreported | None = None,
    ) -> None:
        """``request.paths`` contains one folder; a batch contains up to ``most`` files, the oldest first.

        ``key_log`` is the path of a key log, which is read again for each batch because clients append to it.

        Raise LocalError if the folder does not exist, or if the checkpoint does not belong to these tables.
        """
        self._session = session
        self._request = request
        self._checkpoint = spark_path(checkpoint)
        self._most = most
        self._key_log = key_log
        self._on_batch, self._on_finding, self._on_unreported = on_batch, on_finding, on_unreported
        self.unreported = ""
        """The reason why findings of the last batch could not be reported; empty if all were reported."""
        self._error: PcliError | None = None
        self._query: Any = None
        self._record = StreamRecord.read(open_store(checkpoint))
        _check(request, self._record)

    def run(self, *, every_s: float = 10, once: bool = False) -> None:
        """Read new files every ``every_s`` seconds until the stream stops.

        If ``once`` is set, read only the existing files. The findings that an earlier stream with this checkpoint could
        not report are reported first.

        Raise the PcliError that stopped the stream.
        """
        if self._on_finding is not None and self._record.tables:
            self._report()
        reader = self._session.readStream.format("binaryFile").schema(_SCHEMA)
        files = reader.option("maxFilesPerTrigger", self._most).load(spark_path(self._request.paths[0]))
        columns = ("path", "cast(modificationTime as double) changed_s")
        writer = files.selectExpr(*columns).writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", self._checkpoint)
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")
        with self._own_error(), plain_errors():
            self._query = writer.start()
            self._query.awaitTermination()

    def stop(self) -> None:
        """Stop the stream. The next stream repeats an unfinished batch."""
        if self._query is not None:
            stop_in_thread(self._query.stop)

    def _batch(self, files: DataFrame, number: int) -> None:
        """Process a batch. Spark calls this method in a separate thread."""
        listed = files.collect()
        if not listed:
            return
        try:
            self._process(listed, number)
        except PcliError as error:
            self._error = error
            raise

    def _process(self, listed: Sequence[Row], number: int) -> None:
        """Process the files of a batch: their paths, and the times of their last changes."""
        new = {plain_path(row["path"]) for row in listed}
        if self._key_log:
            with suppress(OSError):  # the secrets of the last batch remain
                self._request = replace(self._request, key_log=Path(self._key_log).read_bytes())
        paths = sorted(new | set(_existing_files(self._request.out)))
        with closing(SparkEngine(self._session)) as engine:
            summary = analyze(replace(self._request, paths=tuple(paths)), engine, may_be_none=True)
        count = self._report()
        if self._on_batch is not None:
            lag_s = max(0, time.time() - max(row["changed_s"] for row in listed))
            state_bytes = open_store(self._request.out).size(STATE)
            self._on_batch(Batch(number, len(new), summary, lag_s, state_bytes, count))

    def _report(self) -> int | None:
        """Report the findings in the tables that were not reported yet; return their number."""
        count, self.unreported = self._record.report(open_store(self._request.out), self._on_finding)
        if self.unreported and self._on_unreported is not None:
            self._on_unreported(self.unreported)
        return count

    @contextmanager
    def _own_error(self) -> Iterator[None]:
        """Raise the PcliError of a batch instead of the error into which Spark converts it."""
        try:
            yield
        except LocalError:
            if self._error is not None:
                raise self._error from None
            raise


def _existing_files(out: str) -> Iterator[str]:
    """Yield the files whose rows are in the tables and that still exist."""
    store = open_store(out)
    if read_runs(store):
        for path in StoredTables(store).read("captures", ["path"])["path"].to_pylist():
            files, inner = place_of(path)
            if files.get_file_info(inner).is_file:
                yield path


def _check(request: Request, record: StreamRecord) -> None:
    folder = request.paths[0]
    if "://" not in folder and not Path(folder).is_dir():
        raise LocalError(f"{hidden(folder)}: {'not a folder' if Path(folder).exists() else 'no such folder'}")
    checkpoint, found = record.checkpoint, tables_id(open_store(request.out))
    if (record.tables and record.tables != found) or (checkpoint.list("commits") and not found):
        text = f"{checkpoint.place or checkpoint.root}: it belongs to tables that are not in {request.out}: "
        raise LocalError(hidden(text) + "specify the folder of these tables, or a new checkpoint")
