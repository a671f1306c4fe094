"""`pcli.spark.engine.Engine` with worker processes on this machine.

Rules of this file
1. A worker process has one connection to this process and runs one task at a time. It imports pcli itself: forking a
   process with Arrow's threads is not safe. Where possible, it is forked from a server process without other work.
2. Items are started from the largest to the smallest, so that no large item is the last. Results are in the order of
   the items. If tasks raise a PcliError, the error of the first item is raised, as in a run in one process.
3. The pieces of an exchange pass through files in a temporary folder. The connections carry only functions, items and
   results.
4. Only this process receives Ctrl-C. If a stage ends with an exception, all workers are killed before the exception
   is raised, so that none writes into a folder that is about to be removed. A worker ends when this process ends.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from pcli.codec.errors import LocalError, PcliError
from pcli.spark import worker_server
from pcli.spark.engine import Cut, Engine, InProcess, Join, OnProgress, Progress, Sizes, packed, unpacked
from pcli.spark.worker_server import ignored_interrupts, start_server

_T = TypeVar("_T")
_R = TypeVar("_R")

_ROWS, _RESULT, _ERROR = "rows", "result", "error"
"""Kinds of messages of a worker: the number of rows that it has processed, and the end of a task."""

_REMEDY: Final = "use fewer processes (-j N), or a machine with more memory"


class Processes(Engine):
    """An engine that runs tasks in worker processes. They start with the first stage."""

    def __init__(self, count: int, on_progress: OnProgress | None = None) -> None:
        """``count`` is the number of workers."""
        super().__init__(on_progress)
        self._count = count
        self._workers: list[_Worker] = []
        self._folder = ""
        self._stages = 0

    @property
    def parallel(self) -> int:
        """Number of workers."""
        return self._count

    def suited(self, size: int) -> Engine:
        """Return an engine in this process for small captures, or else this engine."""
        return InProcess(self._on_progress) if size < worker_server.SMALL_BYTES else self

    def map(self, what: str, function: Callable[[_T], _R], items: Sequence[_T], *, sizes: Sizes = None) -> list[_R]:
        """See `Engine.map`."""
        return self._run(what, partial(_map, function), items, sizes)

    def exchange(
        self, what: str, cut: Cut[_T], items: Sequence[_T], buckets: int, join: Join[_R], *, sizes: Sizes = None
    ) -> list[_R]:
        """See `Engine.exchange`."""
        with tempfile.TemporaryDirectory(prefix="exchange-", dir=self._scratch()) as folder:
            given = [(f"{folder}/{number}", item) for number, item in enumerate(items)]
            cuts: list[list[_Piece]] = self._run(what, partial(_cut, cut), given, sizes)
            found: dict[int, list[_Piece]] = {}
            for piece in sorted((piece for some in cuts for piece in some), key=attrgetter("rank")):
                found.setdefault(piece.bucket, []).append(piece)
            pieces = sorted(found.items())
            rows = [sum(piece.rows for piece in some) for _, some in pieces]
            return self._run(what, partial(_join, join), pieces, rows, rows=True)

    def close(self) -> None:
        """End all workers and remove the temporary folder."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        self._workers = []
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def _scratch(self) -> str:
        self._folder = self._folder or tempfile.mkdtemp(prefix="pcli-")
        return self._folder

    def _run(
        self, what: str, function: _Function, items: Sequence[Any], sizes: Sizes, *, rows: bool = False
    ) -> list[Any]:
        """Apply a function to each item in the workers. ``rows`` is whether the sizes are numbers of rows."""
        if not items:
            return []
        try:
            stage = _Stage(what, self._function_file(function), items, sizes or [0] * len(items), rows=rows)
            self._start(min(self._count, len(items)))
            while stage.running or stage.left:
                self._assign(stage)
                self.report_progress(stage.progress())
                if stage.running:
                    self._receive(stage)
            self.report_progress(stage.progress())
        except BaseException:
            self.close()
            raise
        if stage.errors:
            raise stage.errors[min(stage.errors)]
        return [stage.results[index] for index in range(len(items))]

    def _function_file(self, function: _Function) -> str:
        """Write a function, which may contain large shared values, to a file that each worker reads once."""
        self._stages += 1
        path = Path(self._scratch(), f"stage-{self._stages}")
        path.write_bytes(pickle.dumps(function))
        Path(self._scratch(), f"stage-{self._stages - 1}").unlink(missing_ok=True)
        return str(path)

    def _start(self, count: int) -> None:
        """Start workers until there are ``count``."""
        if len(self._workers) >= count:
            return
        context = start_server()
        while len(self._workers) < count:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, gc.get_threshold()), daemon=True)
            # The server may have to be waited for, which Ctrl-C must end. A new process must ignore Ctrl-C.
            with nullcontext() if context.get_start_method() == "forkserver" else ignored_interrupts():
                process.start()
            theirs.close()
            self._workers.append(_Worker(process, ours))

    def _assign(self, stage: _Stage) -> None:
        """Give the largest items to idle workers."""
        for worker in self._workers:
            if stage.left and worker not in stage.running:
                index = stage.left.pop(0)
                stage.running[worker] = index
                try:
                    worker.connection.send((stage.path, stage.items[index]))
                except OSError:
                    raise worker.death() from None

    def _receive(self, stage: _Stage) -> None:
        """Wait for messages of workers."""
        by_connection: dict[Any, _Worker] = {worker.connection: worker for worker in stage.running}
        for one in wait(list(by_connection)):
            worker = by_connection[one]
            try:
                kind, value = worker.connection.recv()
            except (EOFError, OSError):
                raise worker.death() from None
            if kind == _ROWS:
                stage.rows_done += value
            elif kind == _RESULT:
                stage.results[stage.running.pop(worker)] = value
            elif isinstance(value, PcliError):
                stage.fail(stage.running.pop(worker), value)
            else:
                raise value


_Function = Callable[[Any, Callable[[int], None]], Any]
"""A function of an item and of a function that reports a number of processed rows."""


class _Worker:
    """A worker process."""

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self.process = process
        self.connection = connection

    def death(self) -> LocalError:
        """Return the error that reports that the process has ended."""
        self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            return LocalError(
                f"a worker process was killed (signal {-code}), usually because memory ran out: {_REMEDY}"
            )
        return LocalError(f"a worker process ended early (exit code {code}): {_REMEDY}")


class _Stage:
    """The state of a stage."""

    def __init__(self, what: str, path: str, items: Sequence[Any], sizes: Sequence[int], *, rows: bool) -> None:
        self.path = path
        """The file with the function."""
        self.items = items
        self.left = sorted(range(len(items)), key=lambda index: -sizes[index])
        """The indices of the items that are not started, the largest first."""
        self.running: dict[_Worker, int] = {}
        self.results: dict[int, Any] = {}
        self.errors: dict[int, PcliError] = {}
        self.rows_done = 0
        self._what, self._sizes, self._rows = what, sizes, rows

    def fail(self, index: int, error: PcliError) -> None:
        """Record the error of an item. Later items are not started."""
        self.errors[index] = error
        self.left = [other for other in self.left if other < index]

    def progress(self) -> Progress:
        """Return the progress of the stage."""
        done, total = sum(self._sizes[index] for index in self.results), sum(self._sizes)
        tasks = (self._what, len(self.results), len(self.running), len(self.items))
        if self._rows:
            return Progress(*tasks, 0, 0, self.rows_done, total)
        return Progress(*tasks, done, total)


# -- in workers --------------------------------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """The place of a piece in a file."""

    bucket: int
    rank: int
    kind: str
    rows: int
    path: str
    start: int
    size: int


def _work(connection: Connection, threshold: tuple[int, int, int]) -> None:
    """Run tasks until the main process ends. ``threshold`` is that of the garbage collection in the main process."""
    gc.freeze()
    gc.set_threshold(*threshold)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pa.set_memory_pool(pa.system_memory_pool())
    pa.set_cpu_count(1)
    path, function = "", _no_function

    def report(rows: int) -> None:
        connection.send((_ROWS, rows))

    while True:
        try:
            stage, item = connection.recv()
        except EOFError:
            return
        try:
            if stage != path:
                function = _no_function  # release the shared values of the earlier stage
                path, function = stage, pickle.loads(Path(stage).read_bytes())  # noqa: S301  (our own process wrote it)
            result = function(item, report)
        except Exception as error:
            connection.send((_ERROR, _sendable(error)))
        else:
            connection.send((_RESULT, result))
        item = result = None


def _no_function(_item: Any, _report: Callable[[int], None]) -> None:
    """Stand for the function before the first stage."""


def _end_with_parent() -> None:
    """End this process when the main process has ended, however it ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _sendable(error: Exception) -> Exception:
    """Return the exception to raise in the main process."""
    if isinstance(error, PcliError):
        return error
    if isinstance(error, MemoryError):
        return LocalError(f"a worker process has too little memory: {_REMEDY}")
    text = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:
        return RuntimeError(text)
    error.add_note(text)
    return error


def _map(function: Callable[[Any], Any], item: Any, _report: Callable[[int], None]) -> Any:
    return function(item)


def _cut(cut: Cut[Any], given: tuple[str, Any], _report: Callable[[int], None]) -> list[_Piece]:
    """Write the pieces of an item to a file; return their places."""
    path, item = given
    pieces, start = [], 0
    with Path(path).open("wb") as file:
        for block in cut(item):
            data = packed(block.rows)
            file.write(data)
            pieces.append(_Piece(block.bucket, block.rank, block.kind, block.rows.num_rows, path, start, len(data)))
            start += len(data)
    return pieces


def _join(join: Join[Any], given: tuple[int, list[_Piece]], report: Callable[[int], None]) -> Any:
    """Process the pieces of a bucket."""
    bucket, pieces = given
    return join(bucket, _read(pieces, report))


def _read(pieces: Sequence[_Piece], report: Callable[[int], None]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the kinds and rows of pieces. The rows of a piece are reported when the next piece is requested."""
    for piece in pieces:
        with Path(piece.path).open("rb") as file:
            file.seek(piece.start)
            rows = unpacked(file.read(piece.size))
        yield piece.kind, rows
        report(piece.rows)
