"""Decoding of protobuf messages into fields and values by plans that are compiled once per message type."""

__all__: list[str] = []
