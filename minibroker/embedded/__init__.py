"""MiniBroker: the broker in a thread of its own for tests and tools, and its return values."""

__all__: list[str] = []
