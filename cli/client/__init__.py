"""Commands that connect to a broker as a client: produce and consume."""

__all__: list[str] = []
