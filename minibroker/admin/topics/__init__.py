"""Endpoints of topics: partitions, subscriptions, messages and schemas."""

__all__: list[str] = []
