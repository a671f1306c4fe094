"""Bytes of protobuf messages to fields and values, by plans that are compiled once for each message type."""

__all__: list[str] = []
