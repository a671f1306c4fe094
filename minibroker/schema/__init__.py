"""The schema registry, and the compatibility checks of its schema types."""

__all__: list[str] = []
