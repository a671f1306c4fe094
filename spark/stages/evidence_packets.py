"""The file and packet of the frames that findings name, from the packet numbers that each split keeps."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.observation.finding_table import FramePlace
from pcli.spark.stages.read_recording import ReadRecording, tables_of
from pcli.spark.stages.split_tables import SplitParts, size_of
from pcli.spark.tables.data_files import Staging


def places_of_evidence(
    reading: ReadRecording, findings: pa.Table, known: Mapping[int, FramePlace], *, cut: bool
) -> dict[int, FramePlace]:
    """Return the positions of the frames in the column ``frames`` of findings, by number.

    ``known`` contains the positions that are not determined again. ``cut`` is whether packets were left out, so that
    packet numbers in the files are unknown.
    """
    every: Longs = np.unique(pc.list_flatten(findings["frames"]).to_numpy(zero_copy_only=False).astype(np.int64))
    places = {number: known[number] for number in every.tolist() if number in known}
    numbers = every[~np.isin(every, list(places))] if places else every
    if not len(numbers):
        return places
    splits = list(_splits_with(reading.splits, numbers))
    sizes = [size_of([split], "packets") for split in splits]
    found = reading.engine.map("evidence", partial(_packets, reading.staging, numbers), splits, sizes=sizes)
    before, parts = packets_before(reading), reading.recording.parts
    for number, packet, time_ns in (row for rows in found for row in rows):
        part = bisect_left(before, packet, 1, len(parts)) - 1
        places[number] = FramePlace(parts[part].found.path, 0 if cut else packet - before[part], time_ns)
    return places


def _splits_with(splits: Iterable[SplitParts], numbers: Longs) -> Iterator[SplitParts]:
    """Yield the splits that contain any of these frames; the numbers are sorted."""
    before = 0
    for split in splits:
        after = before + split.counted.frames
        low, high = np.searchsorted(numbers, [before, after], side="right")
        if low < high:
            yield split
        before = after


def _packets(staging: Staging, numbers: Longs, split: SplitParts) -> list[tuple[int, int, int]]:
    """Return number, packet in the recording, and time of those frames that are in a split."""
    tables = tables_of(staging, split, "packets")
    found = (table.filter(pa.array(np.isin(table["frame"].to_numpy(), numbers))) for table in tables)
    return [row for table in found for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def packets_before(reading: ReadRecording) -> list[int]:
    """Return the number of packets in the files before each file of a recording."""
    packets: Counter[int] = Counter()
    for split in reading.splits:
        packets[split.part] += split.counted.packets
    return list(accumulate((packets[part] for part in range(len(reading.recording.parts))), initial=0))
