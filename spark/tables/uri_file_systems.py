"""The file system of a URI: that of pyarrow, and for ``hdfs://`` that of hdfs-native, which needs no Java."""

from __future__ import annotations

import socket
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from pcli.codec.errors import LocalError

__all__ = ["file_system_of"]


_PATIENCE_S: Final = 5.0


def file_system_of(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI, and the path in it.

    The name node of ``hdfs:///path`` is the fs.defaultFS of HADOOP_CONF_DIR. Raise LocalError if a package is missing,
    and OSError, ValueError or NotImplementedError if the URI has no file system.
    """
    parts = urlsplit(uri)
    if parts.scheme != "hdfs":
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
        return found
    if parts.hostname and parts.port:
        # hdfs-native would retry for three minutes.
        socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE_S).close()
    try:
        hdfs = _hdfs(parts.hostname, parts.port)
    except ImportError:
        raise LocalError("hdfs:// needs more packages: pip install 'pulsar-pcli[hdfs]'") from None
    return fs.PyFileSystem(fs.FSSpecHandler(hdfs)), unquote(parts.path)


def _hdfs(host: str | None, port: int | None) -> Any:
    from hdfs_native.fsspec import HdfsFileSystem

    class Hdfs(HdfsFileSystem):
        """HDFS with the times of changes under the name that pyarrow reads."""

        def info(self, path: str, **options: Any) -> dict[str, Any]:
            return _with_time(super().info(path, **options))

        def find(self, path: str, *given: Any, **options: Any) -> Any:
            found = super().find(path, *given, **options)
            return {name: _with_time(one) for name, one in found.items()} if isinstance(found, dict) else found

    return Hdfs(host, port)


def _with_time(info: dict[str, Any]) -> dict[str, Any]:
    return info | {"mtime": info["modification_time"] / 1000}
