"""Consumers and readers: SUBSCRIBE, receiver queue, acknowledgements, redelivery, dead letters, seek."""

__all__: list[str] = []
