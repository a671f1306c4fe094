"""A folder that holds tables, on any file system that pyarrow knows.

Rules of this file
1. A path is local; a URI (``s3://…``, ``gs://…``, ``hdfs://…``) is whatever `pyarrow.fs` makes of it.
2. What a file system refuses is one line with the path: OSError becomes LocalError here and nowhere else.
3. Names that begin with ``_`` are not for readers of tables: Spark, DuckDB's globs and pyarrow leave them out.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from pcli.codec.errors import LocalError
from pcli.spark.tables.uri_redaction import hidden, shown

__all__ = ["Store", "open_store", "refused"]

_PUT: Final = frozenset({"s3", "gcs", "abfs"})
"""File systems on which a file is there when it is closed, and not before."""


@dataclass(frozen=True, slots=True)
class Store:
    """A folder: a file system and the path in it. May be sent to other processes where the file system may."""

    files: Any
    """A pyarrow.fs.FileSystem."""
    root: str
    """Path of the folder, as that file system writes it, without a slash at its end."""
    place: str = ""
    """How the folder was named: a path or URI; empty: as ``root``."""

    def path(self, name: str) -> str:
        """The whole path of a name in the folder; names are written with ``/``."""
        return f"{self.root}/{name}"

    def place_of(self, name: str) -> str:
        """The path or URI of a name in the folder, for other programs."""
        base, mark, options = (self.place or self.root).partition("?")
        return f"{base.rstrip('/')}/{name}{mark}{options}"

    @property
    def local(self) -> bool:
        """Whether it is a folder of this machine."""
        return isinstance(self.files, fs.LocalFileSystem)

    def list(self, name: str = "", *, deep: bool = False) -> list[str]:
        """Names of what is in a folder of it; ``deep``: the files below it. Empty when it is not there."""
        base = self.path(name) if name else self.root
        with refused(base):
            found = self.files.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=deep))
        files = (one for one in found if not deep or one.type == fs.FileType.File)
        return sorted(one.path.removeprefix(self.root).lstrip("/") for one in files)

    def has(self, name: str) -> bool:
        """Whether a file or folder is there."""
        with refused(self.path(name)):
            return bool(self.files.get_file_info(self.path(name)).type != fs.FileType.NotFound)

    def changed_ns(self, name: str) -> int:
        """When a file in a folder of it was last changed, ns since 1970; 0: the file system does not tell."""
        base = self.path(name)
        with refused(base):
            found = self.files.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        return max((one.mtime_ns or 0 for one in found if one.type == fs.FileType.File), default=0)

    def read(self, name: str) -> bytes | None:
        """A whole file; None: it is not there."""
        with refused(self.path(name)):
            try:
                with self.files.open_input_stream(self.path(name)) as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        """A file, folders for it included; a reader who comes meanwhile may see a part of it."""
        with refused(self.path(name)), self.create(name) as file:
            file.write(data)

    def replace(self, name: str, data: bytes) -> None:
        """A file at once: readers see the old one or the new one."""
        if self.files.type_name in _PUT:
            self.write(name, data)
            return
        self.write(f"{name}.new", data)
        self.move(f"{name}.new", name)

    def create(self, name: str) -> Any:
        """An output stream to a new file; the caller closes it, and wraps it in `refused`."""
        path = self.path(name)
        if self.files.type_name not in _PUT:
            self.files.create_dir(path.rpartition("/")[0], recursive=True)
        return self.files.open_output_stream(path)

    def move(self, name: str, target: str) -> None:
        """Give a file another name; a file of that name is replaced."""
        with refused(self.path(target)):
            if self.files.type_name not in _PUT:
                self.files.create_dir(self.path(target).rpartition("/")[0], recursive=True)
            self.files.move(self.path(name), self.path(target))

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when it is gone."""
        with refused(self.path(name)), suppress(FileNotFoundError):
            self.files.delete_file(self.path(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all that is in it; nothing happens when it is gone."""
        with refused(self.path(name)), suppress(FileNotFoundError):
            self.files.delete_dir(self.path(name))


def open_store(place: str) -> Store:
    """The store at a local path or a URI; LocalError when no file system is known for it. Nothing is made yet."""
    if shown(place) != place:
        raise LocalError(f"{shown(place)}: this name is not UTF-8: name another folder")
    if "://" not in place:
        return Store(fs.LocalFileSystem(), str(Path(place).absolute()))
    try:
        files, root = fs.FileSystem.from_uri(place)
    except (OSError, ValueError, NotImplementedError) as error:
        raise LocalError(f"{hidden(place)}: {_first_line(error)}") from None
    if not root.strip("/"):
        raise LocalError(f"{hidden(place)}: name a folder in it")
    return Store(files, root.rstrip("/"), place)


@contextmanager
def refused(path: str) -> Iterator[None]:
    """What the operating system refuses inside becomes a LocalError with this path."""
    try:
        yield
    except OSError as error:
        raise LocalError(f"{path}: {_reason(error)}") from None


_WORDS: Final = {
    errno.ENOSPC: "no space left; what was there before is as it was",
    errno.EDQUOT: "the quota is used up; what was there before is as it was",
    errno.EACCES: "permission denied",
    errno.EROFS: "the file system can only be read",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EEXIST: "a file of that name is in the way",
}


def _reason(error: OSError) -> str:
    """Why, without the path, which Arrow's own words repeat."""
    if error.errno is None:
        return _first_line(error)
    return _WORDS.get(error.errno) or os.strerror(error.errno).lower()


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return hidden(lines[0]) if lines else type(error).__name__
