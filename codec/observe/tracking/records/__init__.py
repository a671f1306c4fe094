"""Records of tracking, as data: connections, producers, consumers, topics, message lifecycles."""

__all__: list[str] = []
