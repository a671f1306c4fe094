"""Tracking of subscriptions: consumers, deliveries, acknowledgments, permits, keys, backlog."""

__all__: list[str] = []
