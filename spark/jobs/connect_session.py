"""A session of Spark Connect: a client of a Spark server, without a JVM on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.spark.jobs.code_distribution import ship_once
from pcli.spark.jobs.missing_packages import missing_packages
from pcli.spark.jobs.spark_errors import plain_errors
from pcli.spark.tables.uri_redaction import hidden

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_PATIENCE_S: Final = 5.0


@contextmanager
def open_connect(remote: str, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Open a session of the server at ``sc://host:port`` with the code of pcli, and close it at the end of the block.

    Raise LocalError if a package is missing, or if the server does not respond.
    """
    try:
        import grpc  # noqa: F401
        from pyspark.sql.connect.session import SparkSession
    except ImportError:
        raise missing_packages("Spark Connect", "connect") from None
    _check_server(remote)
    with plain_errors():
        session = SparkSession.builder.config(map=dict(conf or {})).remote(remote).create()
        interrupted = False
        try:
            ship_once(session)
            yield session
        except KeyboardInterrupt:
            interrupted = True  # the server may not respond, and ends the session later
            raise
        finally:
            if not interrupted:
                with suppress(Exception):  # the server may have ended
                    session.stop()


def _check_server(remote: str) -> None:
    """Raise LocalError if no server responds. A session would retry for ten minutes."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    shown = hidden(remote).partition(";")[0]  # a parameter can be a token
    try:
        channel = DefaultChannelBuilder(remote).toChannel()
    except ValueError:  # its text contains the URL
        raise LocalError(f"--master {shown}: write sc://host:port, or sc://host:port/;token=…") from None
    try:
        grpc.channel_ready_future(channel).result(timeout=_PATIENCE_S)
    except grpc.FutureTimeoutError:
        raise LocalError(f"--master {shown}: no Spark Connect server responds at this address") from None
    finally:
        channel.close()
