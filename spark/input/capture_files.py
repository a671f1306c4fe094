"""Functions that find, describe and open the files that paths name, on any file system that pyarrow supports.

Rules of this file
1. A path is local; a URI (``file://``, ``s3://``, ``hdfs://``, …) is resolved by `file_system_of`. Files are displayed
   as the user named them. ``where`` is a name that works in any folder, and on a different machine that has the files
   at the same paths.
2. The name of a file found below a URI is also a URI: it is percent-encoded (``a%20b``), and `pyarrow.fs` decodes it.
3. A folder denotes all files in it and in its subfolders, except hidden files. Patterns (``*``, ``**``, …) also work in
   URIs.
4. A file that is missing or inaccessible is a `CaptureFile` with an error. If there are no files at all, LocalError is
   raised. A name that is not UTF-8 is also an error, because Arrow can neither decode it nor open the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from urllib.parse import quote

from pyarrow import fs

from pcli.codec.errors import LocalError
from pcli.spark.tables.uri_file_systems import file_system_of
from pcli.spark.tables.uri_redaction import hidden, shown

Place = Callable[[str], tuple[Any, str]]
"""A function that returns the pyarrow.fs.FileSystem of a path or URI and the path in the file system, or raises
LocalError if there is no file system."""

_MAGIC: Final = re.compile(r"[*?\[]")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_NOT_TEXT: Final = "its name is not UTF-8: rename the file"

_PLAIN: Final = "/!$&'()*+,;=:@~"
"""Characters, in addition to letters and digits, that the path of a URI may contain unquoted (RFC 3986, 3.3)."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A file as its file system describes it."""

    path: str
    """Path or URI for display, without passwords. It is relative if the user named a relative path."""
    where: str
    """Absolute path or URI that opens and identifies the file."""
    size: int = 0
    """Size in bytes as stored, which may be compressed."""
    changed_ns: int = 0
    """Time of the last change, ns since 1970; 0 if the file system does not provide it."""
    error: str = ""
    """The reason why the file is not accessible; empty if it is accessible."""


def place_of(path: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path in the file system."""
    if not _SCHEME.match(path):
        return fs.LocalFileSystem(), str(Path(path).absolute())
    try:
        return file_system_of(path)
    except (OSError, ValueError, NotImplementedError) as error:
        raise LocalError(f"{hidden(path)}: {reason_of(error)}") from None


def find(paths: Sequence[str], place: Place = place_of) -> list[CaptureFile]:
    """Return the files that the paths name, each once, sorted by name; raise LocalError if there are none."""
    found = {one.where: one for path in paths for one in _named(path, place)}
    if not found:
        raise LocalError(f"no files found: {', '.join(map(hidden, paths))}" if paths else "no capture is specified")
    return sorted(found.values(), key=lambda one: one.path)


def changes(before: Sequence[CaptureFile], paths: Sequence[str], place: Place = place_of) -> dict[str, str]:
    """Return what happened to files since `find` returned them for these paths: a text for each changed ``where``."""
    try:
        now = {one.where: one for one in find(paths, place) if not one.error}
    except LocalError:
        now = {}
    return {
        one.where: f"it {'changed' if one.where in now else 'was removed'} while it was read: rows can be missing"
        for one in before
        if not one.error and now.get(one.where) != one
    }


def open_file(where: str, place: Place = place_of) -> BinaryIO:
    """Open a file for random access; raise OSError if that fails."""
    files, inner = place(where)
    return cast(BinaryIO, files.open_input_file(inner))


def reason_of(error: BaseException) -> str:
    """Return a short reason for an error. Arrow's own messages are longer and repeat the path."""
    number = getattr(error, "errno", None)
    if number is not None:
        return os.strerror(number).lower()
    lines = str(error).splitlines()
    return hidden(lines[0]) if lines else type(error).__name__


def _named(path: str, place: Place) -> Iterator[CaptureFile]:
    files, inner = place(path)
    where = path if _SCHEME.match(path) else inner
    try:
        info = files.get_file_info(inner)
        if info.type == fs.FileType.NotFound and (magic := _MAGIC.search(inner)) is not None:
            fixed = inner[: inner.rfind("/", 0, magic.start()) + 1].rstrip("/") or "/"
            yield from _below(path, files, inner, fixed, _pattern(inner))
        elif info.type == fs.FileType.Directory:
            base = inner.rstrip("/")
            yield from _below(path, files, inner, inner, re.compile(re.escape(base) + r"(?:/(?!\.)[^/]+)+"))
        elif info.type == fs.FileType.NotFound:
            yield CaptureFile(hidden(path), where, error="no such file or folder")
        else:
            yield replace(_found(path, inner, inner, inner, info), error=_no_file(info))
    except UnicodeEncodeError:
        yield CaptureFile(shown(path), shown(where), error=_NOT_TEXT)
    except OSError as error:
        yield CaptureFile(hidden(path), where, error=reason_of(error))


def _below(path: str, files: Any, inner: str, base: str, pattern: re.Pattern[str]) -> Iterator[CaptureFile]:
    """Yield the files below ``base`` whose paths match the pattern."""
    for child in files.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True)):
        if child.type == fs.FileType.Directory:
            continue
        try:
            name, error = str(child.path), _no_file(child)
        except UnicodeDecodeError as fault:
            name, error = fault.object.decode(errors="backslashreplace"), _NOT_TEXT
        if pattern.fullmatch(name):
            yield replace(_found(path, inner, base, name, child), error=error)


def _no_file(info: Any) -> str:
    """Return the reason why a file does not support random access; empty if it does.

    The file is not opened, because a pipe could block.
    """
    return "" if info.type == fs.FileType.File else "it is a pipe, a socket or a device, not a file"


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a glob.

    ``**`` matches folders; ``*`` and ``?`` match within a name, but not a leading dot. Shells use the same rules.
    """
    out = ""
    for piece in re.findall(r"\*\*/?|\*|\?|\[!?\]?[^\]]*\]|.", text, re.DOTALL):
        if piece.startswith("**"):
            out += r"(?:(?!\.)[^/]+/)*" if piece.endswith("/") else ".*"
        elif piece in "*?":
            out += (r"(?!\.)" if out.endswith(("/", "/)*")) else "") + ("[^/]" if piece == "?" else "[^/]*")
        elif len(piece) > 1:
            out += (r"(?!\.)" if out.endswith(("/", "/)*")) else "") + ("[^" + piece[2:] if piece[1] == "!" else piece)
        else:
            out += re.escape(piece)
    return re.compile(out, re.DOTALL)


def _found(path: str, inner: str, base: str, child: str, info: Any) -> CaptureFile:
    """Return the file ``child`` at or below ``base``. ``inner`` is the path in the file system for ``path``."""
    size, changed = int(info.size or 0), int(info.mtime_ns or 0)
    if _SCHEME.match(path) and child == inner:
        return CaptureFile(hidden(path), path, size, changed)
    if _SCHEME.match(path):
        # The query of a URI (?region=…) applies to each file below the URI.
        before, mark, options = path.partition("?")
        start = base.rstrip("/")
        before = before.rstrip("/")
        for _ in filter(None, inner.removeprefix(start).split("/")):
            before = before.rpartition("/")[0]
        name = f"{before}/{quote(child.removeprefix(start).lstrip('/'), safe=_PLAIN)}{mark}{options}"
        return CaptureFile(hidden(name), name, size, changed)
    name = child if Path(path).is_absolute() else str(Path(child).relative_to(Path.cwd()))
    return CaptureFile(name, child, size, changed)
