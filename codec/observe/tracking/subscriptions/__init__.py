"""Tracking of subscriptions: consumers, deliveries, acknowledgements, permits, keys, backlog."""

__all__: list[str] = []
