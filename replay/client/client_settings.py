"""Settings of the client: the names and defaults of the Java client (ClientConfigurationData and its neighbours)."""

# ruff: noqa: N815 -- the fields are named as in the Java client

from __future__ import annotations

from dataclasses import dataclass, field

from pcli.replay.service_url import Security

__all__ = ["ClientSettings"]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Of everything that one client does (ClientConfigurationData). Times are milliseconds."""

    operationTimeoutMs: int = 30_000
    """How long an answer may take."""
    lookupTimeoutMs: int = 30_000
    """How long a lookup may be tried again and again."""
    connectionTimeoutMs: int = 10_000
    """How long a TCP connection may take."""
    connectionsPerBroker: int = 1
    """Connections to the same broker."""
    maxLookupRedirects: int = 20
    """How often a lookup may be sent elsewhere."""
    keepAliveIntervalSeconds: int = 30
    """Between two PINGs."""
    initialBackoffIntervalMs: int = 100
    """Wait before the first new try."""
    maxBackoffIntervalMs: int = 60_000
    """Longest wait before a new try."""
    listenerName: str = ""
    """Which of the broker's addresses a lookup asks for; empty: the plain one."""
    memoryLimitBytes: int = 64 << 20
    """Bytes of messages that producers may hold; 0: as many as come."""
    security: Security = field(default_factory=Security)
    """How to prove who one is."""
