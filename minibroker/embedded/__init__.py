"""MiniBroker, a broker in a separate thread for tests and tools, and the values that it returns."""

__all__: list[str] = []
