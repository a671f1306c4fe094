"""stdin, stdout and files in an asyncio event loop.

Rules of this file
1. Nothing blocks the loop: it waits until a pipe or terminal has data or can be written. If the loop were blocked, the
   broker would close the client's connection.
2. Data is bytes, and lines are split in blocks, so that a million lines take a few hundred steps.
3. A pipe is written through a separate non-blocking descriptor, because the mode of a shared descriptor must not
   change.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

from pcli.codec.errors import LocalError

_BLOCK: Final = 1 << 18
"""Maximum number of bytes in one read. A pipe rarely contains more than 64 KB."""

_LONGEST: Final = 1 << 28
"""Maximum number of bytes in a line. By default, brokers accept messages up to 5 MB."""


class Source:
    """The lines of a file, or of stdin (``-``). The file remains open until the process ends."""

    def __init__(self, path: str) -> None:
        """Raise LocalError if the file cannot be opened."""
        try:
            self._file = os.dup(0) if path == "-" else os.open(path, os.O_RDONLY)
            self._regular = stat.S_ISREG(os.fstat(self._file).st_mode)
            if stat.S_ISDIR(os.fstat(self._file).st_mode):
                raise LocalError(f"{path}: is a directory")
        except OSError as fault:
            from pcli.replay.sources.lazy_file import reason_of

            raise LocalError(f"{'stdin' if path == '-' else path}: {reason_of(fault)}") from None

    async def lines(self) -> AsyncIterator[list[bytes]]:
        """Yield the lines of each read, without line ends. The last line of the input may lack a line end.

        Raises LocalError if a line is longer than `_LONGEST`.
        """
        rest: list[bytes] = []
        size = 0
        while block := await self._read():
            first, *others = block.split(b"\n")
            rest.append(first)
            size = len(others[-1]) if others else size + len(first)
            if size > _LONGEST:
                raise LocalError(f"a line has more than {_LONGEST >> 20} MB, more than any broker accepts")
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
    """Standard output for bytes."""

    def __init__(self) -> None:
        self.written = 0
        """Number of bytes that the last `write` has written, even if it was cancelled."""
        self._file = 1
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            with suppress(OSError):  # not available on this system; writes then block
                self._file = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK)

    async def write(self, data: bytes) -> None:
        """Write all data. Raises BrokenPipeError if the reader has closed the pipe."""
        view = memoryview(data)
        self.written = 0
        while self.written < len(view):
            try:
                self.written += os.write(self._file, view[self.written :])
            except BlockingIOError:
                await _ready(self._file, writing=True)


async def _ready(file: int, *, writing: bool) -> None:
    """Wait until the file can be read or written. A device that does not support waiting is treated as ready."""
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
