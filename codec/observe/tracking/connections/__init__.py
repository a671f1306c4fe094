"""Tracking of connections: handshake, keep-alive, exchanges, hosts, and notes about the capture."""

__all__: list[str] = []
