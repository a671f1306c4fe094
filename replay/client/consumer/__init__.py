"""Consumers and readers: SUBSCRIBE, receiver queue, acknowledgments, redelivery, dead letters, seek."""

__all__: list[str] = []
