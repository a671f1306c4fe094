"""stdin and stdout, and files, inside a loop that has other things to do.

Rules of this file
1. Nothing here blocks the loop for long: a pipe or a terminal that has nothing is waited for, and a pipe that is full.
   A client that stands still would be given up by its broker.
2. Bytes stay bytes, and lines are cut in blocks: a million lines are a few hundred steps.
3. A pipe is written to through an end of our own that does not wait; the end that others share stays as it is.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

from pcli.codec.errors import LocalError

__all__ = ["Output", "Source"]

_BLOCK: Final = 1 << 18
"""Bytes of one read; a pipe seldom has more than 64 KB."""

_LONGEST: Final = 1 << 28
"""Bytes of a line that is still read; brokers take 5 MB where nobody set more."""


class Source:
    """Lines of a file, or of stdin (``-``); it stays open until the process ends."""

    def __init__(self, path: str) -> None:
        """LocalError: it can't be opened."""
        try:
            self._file = os.dup(0) if path == "-" else os.open(path, os.O_RDONLY)
            self._regular = stat.S_ISREG(os.fstat(self._file).st_mode)
            if stat.S_ISDIR(os.fstat(self._file).st_mode):
                raise LocalError(f"{path}: this is a directory")
        except OSError as fault:
            from pcli.replay.lazy_file import reason_of

            raise LocalError(f"{'stdin' if path == '-' else path}: {reason_of(fault)}") from None

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """The lines that have come, without their ends; a last one without an end is one too.

        LocalError: one has no end for too long.
        """
        rest: list[bytes] = []
        size = 0
        while block := await self._read():
            first, *others = block.split(b"\n")
            rest.append(first)
            size = len(others[-1]) if others else size + len(first)
            if size > _LONGEST:
                raise LocalError(f"a line has more than {_LONGEST >> 20} MB: no broker takes that")
            if others:
                whole = [b"".join(rest), *others[:-1]]
                rest = [others[-1]]
                yield whole
        last = b"".join(rest)
        if last:
            yield [last]

    async def _read(self) -> bytes:
        if self._regular:
            await asyncio.sleep(0)
        else:
            await _ready(self._file, writing=False)
        return os.read(self._file, _BLOCK)


class Output:
    """stdout, for bytes."""

    def __init__(self) -> None:
        self.written = 0
        """Bytes of the latest `write` that are out, also when it was cancelled."""
        self._file = 1
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            with suppress(OSError):  # no such place on this system: then we wait with the pipe
                self._file = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK)

    async def write(self, data: bytes) -> None:
        """Write all of it. BrokenPipeError: nobody reads any more."""
        view = memoryview(data)
        self.written = 0
        while self.written < len(view):
            try:
                self.written += os.write(self._file, view[self.written :])
            except BlockingIOError:
                await _ready(self._file, writing=True)


async def _ready(file: int, *, writing: bool) -> None:
    """Wait until something can be read or written. What can't be waited for (a device) is taken for ready."""
    loop = asyncio.get_running_loop()
    add: Callable[..., None] = loop.add_writer if writing else loop.add_reader
    remove = loop.remove_writer if writing else loop.remove_reader
    ready = asyncio.Event()
    try:
        add(file, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        remove(file)
