"""Reading of the new files of a recording, from the reader's state after the earlier files.

The new files are read in splits if they are larger than a split, and otherwise by one task, because each stage of the
reading in splits has a fixed cost. Decrypted TLS is read by one task, as in `read_recording`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pcli.spark.engine import Engine
from pcli.spark.input.read_plan import Recording, splits_of
from pcli.spark.request import Request, RequiredData
from pcli.spark.stages.kept_values import dump, load_kept
from pcli.spark.stages.read_in_parallel import read_in_parallel
from pcli.spark.stages.read_recording import progress_reporter
from pcli.spark.stages.read_sequentially import Checkpoint, Keeps, ReadSplits, read_in_order
from pcli.spark.stages.split_tables import PartStorage
from pcli.spark.tables.data_files import Staging, write_bytes
from pcli.spark.tables.table_store import Store

__all__ = ["Read", "Start", "read_from"]


@dataclass(frozen=True, slots=True)
class Start:
    """The position from which a recording is read further."""

    parts: int
    """Number of captures before the position."""
    checkpoint: str
    """Name of the file with the reader's state; empty at the beginning."""
    splits: int
    """Number of splits of these captures."""
    kept: int
    """Number of the last captures after which the reader's state is kept."""

    def carried(self, store: Store) -> Checkpoint | None:
        """Return the state, or None at the beginning."""
        carried: Checkpoint | None = load_kept(store, self.checkpoint) if self.checkpoint else None
        return carried


Read = tuple[ReadSplits, dict[int, str]]
"""A result, and the new files with the reader's state, by the number of captures read before the state was kept."""


def read_from(
    start: Start, recording: Recording, request: Request, required: RequiredData, engine: Engine, staging: Staging
) -> Read:
    """Read the captures after a position, in splits if they are larger than a split and an engine can read splits."""
    new = recording.parts[start.parts :]
    if not engine.apart or not new:
        on_bytes = progress_reporter(engine, new, start.parts)
        return _read_in_order(request, required, staging, start, recording, on_bytes)
    size = sum(entry.found.size for entry in new)
    read = None
    if size > request.split_bytes and not request.key_log:
        read = _read_in_parallel(recording, request, required, engine, staging, start)
    if read is None:
        task = partial(_read_in_order, request, required, staging, start)
        [read] = engine.map("read", task, [recording], sizes=[size])
    return read


def _read_in_order(
    request: Request,
    required: RequiredData,
    staging: Staging,
    start: Start,
    recording: Recording,
    on_bytes: Callable[[int, int], None] | None = None,
) -> Read:
    """Read captures by one reader. ``on_bytes`` is that of `read_in_order`."""
    keeps, checkpoints = _keeps(recording, staging, start)
    read = read_in_order(
        recording,
        request,
        required,
        PartStorage(staging),
        on_bytes=on_bytes or (lambda _part, _done: None),
        keeps=keeps,
        carried=start.carried(staging.store),
        before=start.splits,
    )
    return read, checkpoints


def _read_in_parallel(
    recording: Recording, request: Request, required: RequiredData, engine: Engine, staging: Staging, start: Start
) -> Read | None:
    """Read captures in splits. Return None if there is only one split, or if TLS is decrypted."""
    splits = splits_of(
        recording.parts[start.parts :], split=request.split_bytes, since_ns=request.since_ns, until_ns=request.until_ns
    )
    carried = start.carried(staging.store) if len(splits) > 1 else None
    if len(splits) < 2 or (carried is not None and carried.decrypts()):
        return None
    keeps, checkpoints = _keeps(recording, staging, start)
    read = read_in_parallel(
        replace(recording, splits=splits),
        request,
        required,
        engine,
        staging,
        keeps=keeps,
        carried=carried,
        before=start.splits,
    )
    return None if read is None else (read, checkpoints)


def _keeps(recording: Recording, staging: Staging, start: Start) -> tuple[Keeps, dict[int, str]]:
    """Return the states to keep, and the files with these states, which are added later."""
    last = len(recording.parts)
    checkpoints: dict[int, str] = {}

    def keep(checkpoint: Checkpoint) -> None:
        name = write_bytes(staging, f"checkpoint-{uuid.uuid4().hex}", dump(checkpoint))
        checkpoints[checkpoint.counters.parts] = name

    return Keeps(range(max(start.parts, last - start.kept) + 1, last + 1), keep), checkpoints
