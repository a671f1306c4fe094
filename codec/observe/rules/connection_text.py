"""Names and subjects of connections, hosts and exchanges in findings."""

from __future__ import annotations

from typing import Any

from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord, ExchangeRecord, HostRecord


def place(address: tuple[str, int]) -> str:
    """Return ``10.0.0.1:6650`` or ``[::1]:6650``."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def about_connection(record: ConnectionRecord) -> str:
    """Return ``connection 3 (10.0.0.1:40000 to 10.0.0.2:6650, Pulsar-Java-v4.2.4)``."""
    version = f", {printable(record.client_version)}" if record.client_version else ""
    return f"connection {record.stream} ({place(record.client)} to {place(record.server)}{version})"


def about_host(host: HostRecord) -> str:
    """Return ``client 10.0.0.1 (server 10.0.0.2:6650)``."""
    return f"client {host.client} (server {place(host.server)})"


def connection_subject(record: ConnectionRecord) -> dict[str, Any]:
    """Return the subject of a finding about a connection."""
    return {"stream": record.stream, "client": place(record.client), "server": place(record.server)}


def version_subject(record: ConnectionRecord) -> dict[str, Any]:
    """Return the subject of a finding about a client library. All connections of a host have the same subject."""
    return {
        "client": record.client[0],
        "client_version": record.client_version or "unknown",
        "server": place(record.server),
    }


def exchange_subject(record: ExchangeRecord) -> dict[str, Any]:
    """Return the subject of a finding about one type of request."""
    return {
        "stream": record.stream,
        "client": place(record.client),
        "server": place(record.server),
        "request": record.type,
    }


def host_subject(host: HostRecord) -> dict[str, Any]:
    """Return the subject of a finding about a client address and a server."""
    return {"client": host.client, "server": place(host.server)}
