"""Deprecated name of `pcli.replay.client.asyncio_client`, kept for one version."""

from warnings import warn

from pcli.replay.client.asyncio_client import Client, run

__all__ = ["Client", "run"]

warn(
    "pcli.replay.client.shell is deprecated: import pcli.replay.client.asyncio_client", DeprecationWarning, stacklevel=2
)
