"""A folder that contains tables, on any file system that pyarrow supports.

Rules of this file
1. A path is local; a URI (``s3://…``, ``gs://…``, ``hdfs://…``) is resolved by `file_system_of`.
2. A file system error is reported in one line with the path. Only this module converts OSError to LocalError.
3. Names that begin with ``_`` are internal: Spark, DuckDB's globs and pyarrow ignore them.
4. A name cannot leave the folder. Logs contain names, and tables may come from anyone.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from pyarrow import fs

from pcli.codec.errors import LocalError
from pcli.spark.tables.uri_file_systems import file_system_of
from pcli.spark.tables.uri_redaction import hidden, shown

_PUT: Final = frozenset({"s3", "gcs", "abfs"})
"""File systems on which a file becomes visible only when it is closed."""


@dataclass(frozen=True, slots=True)
class Store:
    """A file system and the path of a folder in it.

    It can be sent to other processes if the file system object can be sent.
    """

    files: Any
    """A pyarrow.fs.FileSystem."""
    root: str
    """Path of the folder in the file system, without a trailing slash."""
    place: str = ""
    """The path or URI that the user specified; empty if it is ``root``."""

    def path(self, name: str) -> str:
        """Return the complete path of a name in the folder. Names contain ``/`` as the separator.

        Raises LocalError if the name is not below the folder.
        """
        if not {"", ".", ".."}.isdisjoint(name.replace("\\", "/").split("/")):
            raise LocalError(f"{self.place or self.root}: the name {name[:80]!r} in the tables is not below the folder")
        return f"{self.root}/{name}"

    def place_of(self, name: str) -> str:
        """Return the path or URI of a name in the folder, for other programs."""
        base, mark, options = (self.place or self.root).partition("?")
        return f"{base.rstrip('/')}/{name}{mark}{options}"

    @property
    def local(self) -> bool:
        """Whether the folder is on a local file system."""
        return isinstance(self.files, fs.LocalFileSystem)

    def list(self, name: str = "", *, deep: bool = False) -> list[str]:
        """Return the names in a subfolder (if ``deep``, of all files below it), or no names if it does not exist."""
        base = self.path(name) if name else self.root
        with refused(base):
            found = self.files.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=deep))
        files = (one for one in found if not deep or one.type == fs.FileType.File)
        return sorted(one.path.removeprefix(self.root).lstrip("/") for one in files)

    def has(self, name: str) -> bool:
        """Return whether a file or folder exists."""
        with refused(self.path(name)):
            return bool(self.files.get_file_info(self.path(name)).type != fs.FileType.NotFound)

    def changed_ns(self, name: str) -> int:
        """Return the time at which a file below a subfolder was last changed, in ns since 1970; 0 if unknown."""
        base = self.path(name)
        with refused(base):
            found = self.files.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        return max((one.mtime_ns or 0 for one in found if one.type == fs.FileType.File), default=0)

    def size(self, name: str) -> int:
        """Return the sum of the sizes of all files below a subfolder, in bytes; 0 if it does not exist."""
        base = self.path(name)
        with refused(base):
            found = self.files.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        return sum(one.size for one in found if one.type == fs.FileType.File)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        with refused(self.path(name)):
            try:
                with self.files.open_input_stream(self.path(name)) as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file, and create its folders. Until the file is complete, other processes may read a part of it."""
        with refused(self.path(name)), self.create(name) as file:
            file.write(data)

    def create(self, name: str) -> Any:
        """Return an output stream to a new file. The caller must close it, and use it within `refused`."""
        path = self.path(name)
        if self.files.type_name not in _PUT:
            self.files.create_dir(path.rpartition("/")[0], recursive=True)
        return self.files.open_output_stream(path)

    def move(self, name: str, target: str) -> None:
        """Rename a file; an existing file of that name is replaced."""
        with refused(self.path(target)):
            if self.files.type_name not in _PUT:
                self.files.create_dir(self.path(target).rpartition("/")[0], recursive=True)
            self.files.move(self.path(name), self.path(target))

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with refused(self.path(name)), suppress(FileNotFoundError):
            self.files.delete_file(self.path(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder and its content if it exists."""
        with refused(self.path(name)), suppress(FileNotFoundError):
            self.files.delete_dir(self.path(name))


def open_store(place: str) -> Store:
    """Return the store at a local path or URI without creating it; raise LocalError for an unknown file system."""
    if shown(place) != place:
        raise LocalError(f"{shown(place)}: the name is not UTF-8: specify a different folder")
    if "://" not in place:
        root = str(Path(place).absolute())
        if unquote(root) != root:
            raise LocalError(f"{root}: delta-rs decodes the escapes in this name (%20): specify a different folder")
        return Store(fs.LocalFileSystem(), root)
    try:
        files, root = file_system_of(place)
    except (OSError, ValueError, NotImplementedError) as error:
        raise LocalError(f"{hidden(place)}: {_first_line(error)}") from None
    if not root.strip("/"):
        raise LocalError(f"{hidden(place)}: specify a folder in it")
    return Store(files, root.rstrip("/"), place)


@contextmanager
def refused(path: str) -> Iterator[None]:
    """Convert an OSError raised in the block to a LocalError with this path."""
    try:
        yield
    except OSError as error:
        raise LocalError(f"{path}: {reason_of(error)}") from None


_WORDS: Final = {
    errno.ENOSPC: "no space left; existing tables are unchanged",
    errno.EDQUOT: "the quota is exceeded; existing tables are unchanged",
    errno.EACCES: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EEXIST: "a file with this name exists",
}


def reason_of(error: OSError) -> str:
    """Return the reason without the path that Arrow's messages contain."""
    if error.errno is None:
        return _first_line(error)
    return _WORDS.get(error.errno) or os.strerror(error.errno).lower()


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return hidden(lines[0]) if lines else type(error).__name__
