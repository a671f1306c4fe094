"""Live inputs of `pcli browse`: a capture file that grows, an interface, and a broker through a proxy.

Rules of this file
1. Every live input is written to a capture file by its program, and the application follows this file. Reports, jumps
   and saved comments therefore work as for any capture.
2. The file of an interface or proxy is temporary unless the user names it. It is removed when the application ends.
"""

from __future__ import annotations

import io
import os
import select
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from pcli.cli.browse.index_build import IndexBuild
from pcli.cli.browse.sources import Source
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.cli.common.capture_reading import CaptureReading
from pcli.codec.errors import CaptureError, PcliError
from pcli.replay.sources.capture_sources import open_interface
from pcli.replay.sources.lazy_file import reason_of

if TYPE_CHECKING:
    from pcli.codec.capture import ReadOptions
    from pcli.codec.observe.payload_contents import Contents
    from pcli.replay.proxy import Proxy
    from pcli.replay.service_url import Security

_POLL: Final = 0.1
"""Seconds between two looks at the end of a file."""
_START: Final = 5.0
"""Seconds to wait for a capture program to start."""
_READ: Final = 1 << 16


class FollowedFile(io.RawIOBase):
    """A file that another process appends to. At its end, reading waits for more bytes until `stop` is called."""

    def __init__(self, path: str) -> None:
        """Raise CaptureError if the file cannot be opened."""
        super().__init__()
        self._path = path
        self._stop = threading.Event()
        self.on_idle: Callable[[], None] = lambda: None
        """A function that is called, in the thread that reads, when there are no more bytes at present."""
        try:
            self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115  (closed with this)
        except OSError as error:
            raise CaptureError(f"{path}: {reason_of(error)}") from None

    def read(self, size: int = -1, /) -> bytes:
        """Return the available bytes, at most ``size``, or no bytes after `stop`.

        Raises CaptureError if the file has become shorter.
        """
        while True:
            data = self._file.read(size)
            if data or self._stop.is_set():
                return data or b""
            if os.fstat(self._file.fileno()).st_size < self._file.tell():
                raise CaptureError(f"{self._path}: the file has become shorter while it was followed")
            self.on_idle()
            self._stop.wait(_POLL)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def stop(self) -> None:
        """Let reading end at the present end of the file."""
        self._stop.set()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def follow_capture(
    path: str, options: ReadOptions, contents: Contents, on_close: Callable[[], None] = lambda: None
) -> Source:
    """Open a capture file that grows. Raises CaptureError if it cannot be read."""
    reading = CaptureReading(files=[path], options=options)
    [opened] = reading.inputs()
    opened.file.close()
    followed = FollowedFile(path)
    opened.file, opened.size = cast(BinaryIO, followed), None
    build = IndexBuild(reading, None)
    followed.on_idle = build.flush

    def close() -> None:
        followed.stop()
        on_close()

    source = Source(StoredFrames(build.index, contents), build, reading, close)
    try:
        build.wait()
    except BaseException:
        source.close()
        raise
    build.refresh()
    return source


@contextmanager
def temporary_capture(path: str = "") -> Iterator[str]:
    """Yield ``path``, or the path of a temporary capture file that is removed at the end."""
    if path:
        yield path
        return
    folder = tempfile.mkdtemp(prefix="pcli-live-")
    try:
        yield str(Path(folder) / "capture.pcapng")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _InterfaceCopy:
    """The copying of a live capture to a file, in a thread."""

    def __init__(self, interface: str, capture_filter: str, path: str) -> None:
        self.fault: PcliError | None = None
        self._interface, self._filter, self._path = interface, capture_filter, path
        self._stop = threading.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the program captures. Raise the PcliError with which it failed."""
        if not self._started.wait(_START) and self.fault is None:
            self.fault = CaptureError(f"{self._interface}: the capture program does not start")
        if self.fault is not None:
            self.stop()
            raise self.fault

    def stop(self) -> None:
        """End the capture program."""
        self._stop.set()
        self._thread.join(2)

    def _run(self) -> None:
        try:
            with (
                open_interface(self._interface, self._filter) as live,
                Path(self._path).open("wb", buffering=0) as file,
            ):
                if not self._copy(live, file) and not self._stop.is_set():
                    raise CaptureError("no packets")  # open_interface replaces it by the message of the program
        except PcliError as fault:
            self.fault = fault
        except OSError as fault:
            self.fault = CaptureError(f"{self._interface}: {reason_of(fault)}")
        self._started.set()

    def _copy(self, live: BinaryIO, file: io.RawIOBase | io.FileIO) -> int:
        size = 0
        while not self._stop.is_set():
            with suppress(io.UnsupportedOperation):
                if not select.select([live.fileno()], [], [], _POLL)[0]:
                    continue
            data = live.read(_READ)
            if not data:
                break
            file.write(data)
            size += len(data)
            self._started.set()
        return size


@contextmanager
def follow_interface(interface: str, capture_filter: str, options: ReadOptions, contents: Contents) -> Iterator[Source]:
    """Yield the live traffic of an interface. Raises CaptureError if it cannot be captured."""
    with temporary_capture() as path:
        copy = _InterfaceCopy(interface, capture_filter, path)
        copy.wait()
        source = follow_capture(path, options, contents, copy.stop)
        try:
            yield source
        finally:
            copy.stop()


@contextmanager
def follow_broker(
    url: str, listen: int, security: Security, options: ReadOptions, contents: Contents
) -> Iterator[tuple[Source, Proxy]]:
    """Yield the traffic of the clients of a proxy for a broker, and the proxy.

    Raises LocalError if the URL is wrong or the port is in use.
    """
    from pcli.replay.proxy import Proxy

    with temporary_capture() as path, Proxy(url, listen=listen, security=security, capture=path) as proxy:
        yield follow_capture(path, options, contents), proxy
