"""HDFS through hdfs-native, for pyarrow. It needs neither Java nor libhdfs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hdfs_native.fsspec import HdfsFileSystem


class Hdfs(HdfsFileSystem):
    """A file system that pyarrow's FSSpecHandler and `Store` can use.

    It contains the times of changes under the name that pyarrow reads, replaces the target of a move, and raises
    OSError where hdfs-native raises RuntimeError.
    """

    cachable = False
    """fsspec drops cached instances in a forked child, where hdfs-native would wait for threads that do not exist."""

    def __init__(self, host: str | None, port: int | None, **options: Any) -> None:
        """Without a host, the name node is the fs.defaultFS of HADOOP_CONF_DIR."""
        with _os_errors():
            super().__init__(host, port, **options)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Return the description of a file or folder."""
        with _os_errors():
            return _with_time(super().info(path, **options))

    def find(self, path: str, *given: Any, **options: Any) -> Any:
        """Return the files below a folder."""
        with _os_errors():
            found = super().find(path, *given, **options)
        return {name: _with_time(one) for name, one in found.items()} if isinstance(found, dict) else found

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Rename a file, which replaces a file of the new name."""
        with _os_errors():
            super().mv(path1, path2, **options | {"overwrite": True})


@contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error)) from None


def _with_time(info: dict[str, Any]) -> dict[str, Any]:
    return info | {"mtime": info["modification_time"] / 1000}
