"""The file system of a URI: that of pyarrow, and for ``hdfs://`` that of hdfs-native, which needs no Java."""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from pcli.codec.errors import LocalError

_PATIENCE_S: Final = 5.0


def file_system_of(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI, and the path in it.

    The name node of ``hdfs:///path`` is the fs.defaultFS of HADOOP_CONF_DIR. Raise LocalError if a package is missing
    or a URI of HDFS contains a user, and OSError, ValueError or NotImplementedError if the URI has no file system.
    """
    parts = urlsplit(uri)
    if parts.scheme != "hdfs":
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
        return found
    user, at, place = parts.netloc.rpartition("@")
    if at:
        raise LocalError(f"hdfs://{place}: the user is not a part of the URI: set HADOOP_USER_NAME={user}")
    if parts.port:
        # hdfs-native would retry for three minutes.
        socket.create_connection((parts.hostname or "", parts.port), timeout=_PATIENCE_S).close()
    try:
        from pcli.spark.tables.hdfs import Hdfs
    except ImportError:
        raise LocalError("hdfs:// needs more packages: pip install 'pulsar-pcli[hdfs]'") from None
    name = place.removesuffix(f":{parts.port}") or None  # upper and lower case differ in the name of a nameservice
    return fs.PyFileSystem(fs.FSSpecHandler(Hdfs(name, parts.port))), unquote(parts.path)
