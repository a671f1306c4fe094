"""The script of a replay: the captured commands of the clients, and the preparation of the broker."""

__all__: list[str] = []
