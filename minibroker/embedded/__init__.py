"""MiniBroker, the broker in a thread of its own for tests and tools, and the values that it returns."""

__all__: list[str] = []
