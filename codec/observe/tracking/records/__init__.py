"""The records that tracking keeps, as data: connections, clients, topics, message lifecycles."""

__all__: list[str] = []
