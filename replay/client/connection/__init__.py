"""Connections of the client: handshake, pool, pending requests, topic lookup, reconnects, errors."""

__all__: list[str] = []
