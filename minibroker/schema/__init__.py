"""The schema registry and the compatibility checks for schema types."""

__all__: list[str] = []
