"""Settings of the client, with the names and defaults of the Java client (mainly ClientConfigurationData)."""

# ruff: noqa: N815 -- the fields have the names of the Java client

from __future__ import annotations

from dataclasses import dataclass, field

from pcli.replay.service_url import Security

__all__ = ["ClientSettings"]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of one client (ClientConfigurationData). Times are in milliseconds."""

    operationTimeoutMs: int = 30_000
    """Timeout of a request."""
    lookupTimeoutMs: int = 30_000
    """Maximum time during which a lookup is retried."""
    connectionTimeoutMs: int = 10_000
    """Timeout of a TCP connection attempt."""
    connectionsPerBroker: int = 1
    """Maximum number of connections to one broker."""
    maxLookupRedirects: int = 20
    """Maximum number of redirects of a lookup."""
    keepAliveIntervalSeconds: int = 30
    """Interval between PINGs."""
    initialBackoffIntervalMs: int = 100
    """Delay before the first retry."""
    maxBackoffIntervalMs: int = 60_000
    """Maximum delay before a retry."""
    listenerName: str = ""
    """The advertised listener that lookups request; empty for the default listener."""
    memoryLimitBytes: int = 64 << 20
    """Maximum bytes of messages that producers hold, or 0 for no limit."""
    security: Security = field(default_factory=Security)
    """Credentials and TLS settings."""
