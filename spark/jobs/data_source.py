"""Frames of captures as a data source of Spark: ``spark.read.format("pulsar_capture").load("captures/")``.

    from pcli.spark.jobs.data_source import PulsarCapture

    spark.dataSource.register(PulsarCapture)
    frames = spark.read.format("pulsar_capture").load("captures/")
    frames.groupBy("type").count().show()

Rules of this file
1. A row is a frame, with the columns of the table `frames` (docs/tables.md).
2. A partition is a recording: all captures of a cluster in order (option ``cluster``, see --cluster). One task reads a
   recording, because frames span files. To read large recordings in parallel, write the table instead: ``pcli
   spark-analyze --only frames``.
3. By default, a file that cannot be read to its end is an error, just as in Spark's own sources. If the option
   ``ignoreCorruptFiles`` is set, only the rows of the file are missing. A file that is not a capture is no error if
   other files are captures.
4. The option ``keylog`` names a file with TLS secrets on the driver; see --keylog.
5. Spark requires batches with exactly the declared schema, and does not prune columns for a source in Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pcli.codec.errors import LocalError
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.frame_table import FRAMES, frame_rows
from pcli.spark.columnar.frame_columns import Places
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.input.capture_files import reason_of
from pcli.spark.input.read_plan import Recording, plan
from pcli.spark.input.splits import Split, SplitReader
from pcli.spark.jobs.paths import plain_path
from pcli.spark.jobs.schemas import ddl_of
from pcli.spark.request import Request

_BARE = pa.schema([pa.field(field.name, field.type) for field in FRAMES])

_ROWS = 8192
"""Number of rows in a batch."""


class PulsarCapture(DataSource):
    """Captures of Pulsar traffic.

    Options: ``path`` (a file, folder, pattern or URI; ``load`` also accepts a list), ``cluster`` (like --cluster),
    ``ignoreCorruptFiles`` (false).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "pulsar_capture"

    def schema(self) -> str:
        """Return the schema of the table `frames`."""
        return ddl_of(FRAMES)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader; ``schema`` must be the schema that `schema` returns."""
        return _Frames(self.options)


@dataclass
class _Part(InputPartition):
    """A recording."""

    recording: Recording

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording.cluster)
        self.recording = recording


class _Frames(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        paths = options.get("paths", "")  # contains the list that was passed to load()
        self._paths = json.loads(paths) if paths else [one for one in (options.get("path", ""),) if one]
        self._cluster = options.get("cluster", "")
        key_log = options.get("keylog", "")
        try:
            self._key_log = Path(key_log).read_bytes() if key_log else b""
        except OSError as error:
            raise LocalError(f"keylog {key_log}: {reason_of(error)}") from None
        self._lenient = options.get("ignoreCorruptFiles", "false").strip().lower() == "true"

    def partitions(self) -> list[InputPartition]:
        """Return one partition per recording; raise LocalError if there is no recording or a file cannot be read."""
        if not self._paths:
            raise LocalError("pulsar_capture requires a path: .load('captures/')")
        found = plan([plain_path(path) for path in self._paths], cluster=self._cluster, split=None)
        bad = [entry for entry in found.entries if entry.head.status == "unreadable"]
        if bad and not self._lenient:
            raise _refused(bad[0].found.path, bad[0].head.error)
        return [_Part(recording) for recording in found.recordings]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the frames of a recording, in order."""
        assert isinstance(partition, _Part)
        return _frames(partition.recording, self._key_log, lenient=self._lenient)


def _refused(path: str, reason: str) -> LocalError:
    return LocalError(f"{path}: {reason} (with the option ignoreCorruptFiles the readable part is returned)")


def _frames(recording: Recording, key_log: bytes, *, lenient: bool) -> Iterator[pa.RecordBatch]:
    request = Request((), "", key_log=key_log)
    reader, number = WindowReader(request.reading), 1
    for entry in recording.parts:
        reader.begin_file()
        whole = Split(entry.cluster, entry.found.path, entry.found.where, entry.part, entry.part, 0, -1)
        windows = SplitReader(whole)
        for records in windows:
            reader.add_secrets(windows.secrets)
            batch = _rows(reader.take(records), number, entry.cluster)
            number += batch.num_rows
            yield from _cut(batch)
        if windows.notes and not lenient:
            raise _refused(entry.found.path, windows.notes[0].text)
    yield from _cut(_rows(reader.end(), number, recording.cluster))


def _rows(places: Places, number: int, cluster: str) -> pa.RecordBatch:
    numbers = np.arange(number, number + len(places), dtype=np.int64)
    rows = frame_rows(read_fields(places), numbers, cluster=cluster)
    return pa.RecordBatch.from_arrays(rows.columns, schema=_BARE)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _ROWS):
        yield batch.slice(start, _ROWS)
