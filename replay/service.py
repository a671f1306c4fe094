"""Deprecated name of `pcli.replay.service_url`, kept for one version."""

from warnings import warn

from pcli.replay.service_url import Security, ServiceUrl

__all__ = ["Security", "ServiceUrl"]

warn("pcli.replay.service is deprecated: import pcli.replay.service_url", DeprecationWarning, stacklevel=2)
