"""A session of Spark Connect: a client of a Spark server, without a JVM on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pcli.codec.errors import LocalError
from pcli.spark.jobs.code_distribution import ship_once
from pcli.spark.jobs.spark_errors import plain_errors

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

__all__ = ["open_connect"]


_PORT: Final = 15002
_PATIENCE_S: Final = 5.0


@contextmanager
def open_connect(remote: str, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Open a session of the server at ``sc://host:port`` with the code of pcli, and close it at the end of the block.

    Raise LocalError if a package is missing, or if the server does not respond.
    """
    try:
        from pyspark.sql.connect.session import SparkSession
    except ImportError:
        raise LocalError("Spark Connect needs more packages: pip install 'pulsar-pcli[connect]'") from None
    _check_server(remote)
    with plain_errors():
        session = SparkSession.builder.config(map=dict(conf or {})).remote(remote).create()
        try:
            ship_once(session)
            yield session
        finally:
            with suppress(Exception):  # the server may have ended
                session.stop()


def _check_server(remote: str) -> None:
    """Raise LocalError if nothing listens at the address; Spark would retry for ten minutes."""
    shown = remote.partition(";")[0]  # a parameter can be a token
    try:
        place = urlsplit(shown)
        socket.create_connection((place.hostname or "", place.port or _PORT), timeout=_PATIENCE_S).close()
    except (OSError, ValueError):
        raise LocalError(f"--master {shown}: no Spark Connect server responds at this address") from None
